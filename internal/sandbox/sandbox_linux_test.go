package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/posefleet/posefleet/internal/sandbox"
)

// word as the first argument makes the test binary a program in the sandbox, address the listener that it must not reach.
const word = "sandboxed"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == word {
		inside(os.Args[2], len(os.Args) > 3)

		return
	}

	os.Exit(m.Run())
}

// inside tries what is forbidden and says what came of it; the first one in starts itself again, for its children are bound as well.
func inside(address string, child bool) {
	who := "child"
	if !child {
		who = "self"

		if err := sandbox.NoNetwork(); err != nil {
			fmt.Println("sandbox:", err)

			return
		}

		out, err := exec.Command(os.Args[0], word, address, "child").CombinedOutput()
		fmt.Print(string(out))

		if err != nil {
			fmt.Println("child:", err)
		}
	}

	_, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	fmt.Printf("%s tcp refused: %t\n", who, errors.Is(err, syscall.EACCES))

	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW, 0)
	fmt.Printf("%s netlink refused: %t\n", who, fd < 0 && errors.Is(err, syscall.EACCES))

	_, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	fmt.Printf("%s unix allowed: %t\n", who, err == nil)

	_, err = os.ReadFile("/proc/self/status")
	fmt.Printf("%s files allowed: %t\n", who, err == nil)
}

func TestNoNetwork(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	out, err := exec.CommandContext(t.Context(), os.Args[0], word, l.Addr().String()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	if bytes.Contains(out, []byte(sandbox.ErrUnsupported.Error())) {
		t.Skip("this kernel has no filters")
	}

	for _, who := range []string{"self", "child"} {
		for _, what := range []string{"tcp refused", "netlink refused", "unix allowed", "files allowed"} {
			if !strings.Contains(string(out), who+" "+what+": true\n") {
				t.Errorf("%s: not %s\n%s", who, what, out)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()

	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()

	if err := sandbox.Limit(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}

	for resource, want := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: sandbox.MaxFileBytes, unix.RLIMIT_NOFILE: sandbox.MaxOpenFiles} {
		var got unix.Rlimit
		if err := unix.Prlimit(cmd.Process.Pid, resource, nil, &got); err != nil || got.Cur > want || got.Max > want {
			t.Errorf("resource %d: %+v, %v", resource, got, err)
		}
	}
}
