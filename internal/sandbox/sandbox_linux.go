//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in the kernel's struct seccomp_data.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArg0 = 16 // low half; both architectures are little-endian
)

// otherNumbers is where the calls of the x32 convention begin, which has the same architecture and other numbers.
const otherNumbers = 0x40000000

// architecture is the value by which the kernel tells one numbering of calls from another.
func architecture() uint32 {
	if runtime.GOARCH == "arm64" {
		return unix.AUDIT_ARCH_AARCH64
	}

	return unix.AUDIT_ARCH_X86_64
}

// filter lets everything pass but socket and socketpair of a family other than AF_UNIX, and io_uring, which opens sockets past any
// filter. A call in another numbering (32 bits on 64) is refused: it would have other numbers.
func filter() []unix.SockFilter {
	refuse := uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EACCES)
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	// equal goes on with the next line but yes if the loaded word is k, but no if it is not.
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

	return []unix.SockFilter{
		load(offsetArch),
		equal(architecture(), 0, 7), // 1: else refuse
		load(offsetCall),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: otherNumbers, Jt: 5}, // 3: refuse
		equal(unix.SYS_IO_URING_SETUP, 4, 0),                                     // 4: refuse
		equal(unix.SYS_SOCKET, 1, 0),                                             // 5: look at the family
		equal(unix.SYS_SOCKETPAIR, 0, 3),                                         // 6: look at the family, else allow
		load(offsetArg0),
		equal(unix.AF_UNIX, 1, 0), // 8: allow, else refuse
		answer(refuse),            // 9
		answer(unix.SECCOMP_RET_ALLOW),
	}
}

func noNetwork() error {
	// Without it only root may install a filter; it also keeps children from gaining rights.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}

	program := filter()
	loaded := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}

	// TSYNC: for all threads at once, since Go moves goroutines between them.
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&loaded))) //nolint:gosec // the kernel's own interface

	runtime.KeepAlive(program)

	switch {
	case errno == unix.ENOSYS:
		return ErrUnsupported
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d has another filter", thread)
	}

	return nil
}

func limit(pid int) error {
	return errors.Join(
		lower(pid, unix.RLIMIT_CORE, 0),
		lower(pid, unix.RLIMIT_FSIZE, MaxFileBytes),
		lower(pid, unix.RLIMIT_NOFILE, MaxOpenFiles),
	)
}

// lower sets a bound that the process can't raise again; one that is lower already stays.
func lower(pid, resource int, most uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &now); err != nil {
		return err
	}

	return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(now.Cur, most), Max: min(now.Max, most)}, nil)
}
