//go:build unix

package claimcheck

import "syscall"

// freeDisk returns the bytes that an ordinary user can still write below dir.
func freeDisk(dir string) (int64, bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // the types differ between systems
}
