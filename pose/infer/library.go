package infer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// ErrLibraryMissing says that the file of the inference library does not exist.
var ErrLibraryMissing = errors.New("inference library is missing")

// LibraryError says that the inference library at Path cannot be used.
type LibraryError struct {
	Path string
	Err  error
}

// Error names the path and the reason.
func (e *LibraryError) Error() string { return fmt.Sprintf("inference library %s: %v", e.Path, e.Err) }

// Unwrap returns the reason.
func (e *LibraryError) Unwrap() error { return e.Err }

// library is ONNX Runtime as this process has it: the Go binding keeps one library and one environment for the
// whole process, so this state is shared by all engines. It is opened by the first engine and stays until the
// process ends, because unloading a C++ library with thread-local state is not safe.
type library struct {
	mu   sync.Mutex
	path string // "" until it was opened
	file os.FileInfo
}

// process is the only library: see the type.
var process library

// open opens the library at path, once. Another path, after one was opened, is an error.
func (l *library) open(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := checkLibraryFile(path)
	if err != nil {
		return &LibraryError{Path: path, Err: err}
	}
	if l.path != "" {
		if os.SameFile(l.file, info) {
			return nil
		}
		return &LibraryError{Path: path, Err: fmt.Errorf("this process uses %s already", l.path)}
	}
	ort.SetSharedLibraryPath(path)
	if err := ort.InitializeEnvironment(ort.WithLogLevelError()); err != nil {
		return &LibraryError{Path: path, Err: fmt.Errorf("it cannot be opened as ONNX Runtime with API 24 or newer: %w", err)}
	}
	l.path, l.file = path, info
	return nil
}

// checkLibraryFile gives a clear reason before the dynamic linker gives an unclear one. Only absolute paths are
// taken: the linker would search its own folders for a bare name.
func checkLibraryFile(path string) (os.FileInfo, error) {
	if !filepath.IsAbs(path) {
		return nil, errors.New("the path is not absolute")
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrLibraryMissing
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	}
	return st, nil
}
