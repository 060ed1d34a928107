package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/protocol"
)

// place is a file, or a folder, that a command is to write.
type place struct {
	flag, path string
	folder     bool
}

// checkPlaces refuses what would otherwise show only after the minutes of an extraction, or never: a place that is the source itself, which
// would be replaced, or another place; one in a folder that is not there or can't be written; a folder where a file has to be, or a device.
func checkPlaces(source string, places []place) error {
	for i, p := range places {
		if p.path == "" || p.path == "-" && p.flag == "-o" {
			continue
		}
		if p.path == "-" {
			return usageError{fmt.Errorf("%s: this needs the name of a file; only -o can be stdout", p.flag)}
		}
		if samePath(p.path, source) {
			return usageError{fmt.Errorf("%s: %s is what is read; it would be replaced", p.flag, p.path)}
		}
		for _, other := range places[:i] {
			if other.path != "" && samePath(p.path, other.path) {
				return usageError{fmt.Errorf("%s and %s: both are %s", other.flag, p.flag, p.path)}
			}
		}
		if err := p.check(); err != nil {
			return usageError{fmt.Errorf("%s: %w", p.flag, err)}
		}
	}
	return nil
}

// check looks at what is there.
func (p place) check() error {
	info, err := os.Stat(p.path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && p.folder && !info.IsDir():
		return fmt.Errorf("%s is no folder", p.path)
	case err == nil && !p.folder && info.IsDir():
		return fmt.Errorf("%s is a folder; the name of a file is needed", p.path)
	case err == nil && !p.folder && !info.Mode().IsRegular():
		return fmt.Errorf("%s is a device or a pipe; - is stdout", p.path)
	}
	dir := filepath.Dir(filepath.Clean(p.path))
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s", dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("folder %s can't be written: %w", dir, err)
	}
	return nil
}

// samePath tells whether two paths lead to one file, there or not.
func samePath(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB)
	}
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && absA == absB
}

// noAddress explains to whoever gives an address that clips are files.
func noAddress(path string, err error) error {
	if !strings.Contains(path, "://") || extract.Fault(err).Code != protocol.CodeInputMissing {
		return err
	}
	return protocol.NewFault(protocol.CodeInputMissing, "this is an address, and only files of this machine are read: fetch it first").WithCause(err)
}
