// Package sandbox takes from a process what decoding media never needs: the network, core dumps, files without end. It needs no
// privileges, and what it takes is taken from all children as well.
package sandbox

import (
	"errors"
	"fmt"
)

// ErrUnsupported says that this system has no such means.
var ErrUnsupported = errors.New("not supported on this system")

// Limits are the bounds of a process and of each of its children.
const (
	// MaxFileBytes is the largest file that may be written: far more than a pose document or an overlay has.
	MaxFileBytes = 4 << 30
	// MaxOpenFiles is how many files may be open at once.
	MaxOpenFiles = 1024
)

// NoNetwork makes every try to open a socket of any other family than AF_UNIX fail with EACCES, in all threads of this process and in
// all its children, for good. A media file may be a playlist in disguise: whatever reads it can then reach nobody.
func NoNetwork() error {
	if err := noNetwork(); err != nil {
		return fmt.Errorf("shut the network off: %w", err)
	}

	return nil
}

// Limit bounds a running process by its id, and the children that it starts from then on: no core dumps, no file larger than
// MaxFileBytes, no more than MaxOpenFiles open files. Memory and CPU time are not bounded here: inference libraries reserve far more
// address space than they use, and the wall time of a job bounds the rest.
func Limit(pid int) error {
	if err := limit(pid); err != nil {
		return fmt.Errorf("limit process %d: %w", pid, err)
	}

	return nil
}
