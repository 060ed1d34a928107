// Package scratch is the worker's space for clips and documents on the local disk.
//
// Each worker process owns one folder in the work directory and holds an flock on it as long as it lives, so that
// several workers may share a disk: at start a worker empties what dead workers left behind and touches nothing of
// the live ones. The lock dies with the process, however it ends.
//
//	WORK_DIR/posefleet-scratch-<random>/         flock held by its worker
//	                                   /job-<random>/in    clips
//	                                                /out   the extractor's document
//	                                   /extractor/slot-n   the extractor's own temporary files
//
// No name comes from outside: object keys and analysis ids never become paths.
package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	spacePrefix = "posefleet-scratch-"
	jobPrefix   = "job-"
	// openTries bounds the race with another worker that sweeps between mkdir and flock.
	openTries = 10
)

// Space is the folder of one worker process.
type Space struct {
	dir  string
	lock *os.File // an flock on dir; closed by Close
	// Swept counts the folders of dead workers that Open removed.
	Swept int
}

// Check makes workDir if need be and finds out whether a worker can have a folder there.
func Check(workDir string) error {
	if err := os.MkdirAll(workDir, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(workDir, spacePrefix)
	if err != nil {
		return err
	}
	if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) { // another worker may have swept it away
		return err
	}
	return nil
}

// Open empties the leftovers of dead workers in workDir, which it makes if need be, and takes a new folder there.
func Open(workDir string) (*Space, error) {
	if err := os.MkdirAll(workDir, 0o700); err != nil {
		return nil, fmt.Errorf("make work directory: %w", err)
	}
	swept := sweep(workDir)
	for range openTries {
		s, err := create(workDir)
		if err != nil {
			return nil, fmt.Errorf("make scratch folder: %w", err)
		}
		if s != nil {
			s.Swept = swept
			return s, nil
		}
	}
	return nil, fmt.Errorf("make scratch folder in %s: swept away by another worker %d times", workDir, openTries)
}

// Dir returns the folder's path.
func (s *Space) Dir() string { return s.dir }

// Free returns the bytes that an unprivileged process may still write.
func (s *Space) Free() (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.dir, &st); err != nil {
		return 0, fmt.Errorf("statfs scratch: %w", err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// Job makes the folders of one run.
func (s *Space) Job() (*Job, error) {
	dir, err := os.MkdirTemp(s.dir, jobPrefix)
	if err != nil {
		return nil, fmt.Errorf("make job folder: %w", err)
	}
	j := &Job{dir: dir}
	for _, sub := range []string{j.in(), j.Out()} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("make job folder: %w", err), j.Remove())
		}
	}
	return j, nil
}

// ExtractorTmp is the parent of the extractors' own temporary folders; they outlive a job and are emptied after each.
func (s *Space) ExtractorTmp() string { return filepath.Join(s.dir, "extractor") }

// Close removes the folder and gives the lock up.
func (s *Space) Close() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// Job is the folder of one run.
type Job struct{ dir string }

// Clip returns the path of the i-th clip.
func (j *Job) Clip(i int) string { return filepath.Join(j.in(), fmt.Sprintf("clip-%d", i)) }

// Out is the empty folder for the extractor's document.
func (j *Job) Out() string { return filepath.Join(j.dir, "out") }

// Remove deletes the run's folder and everything in it.
func (j *Job) Remove() error {
	if err := os.RemoveAll(j.dir); err != nil {
		return fmt.Errorf("remove job folder: %w", err)
	}
	return nil
}

func (j *Job) in() string { return filepath.Join(j.dir, "in") }

// create makes and locks a folder. It returns nil without an error if a sweeping worker was faster.
func create(workDir string) (*Space, error) {
	dir, err := os.MkdirTemp(workDir, spacePrefix)
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil //nolint:nilnil // "not this time" is no error
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	if !same(lock, dir) {
		return nil, lock.Close()
	}
	return &Space{dir: dir, lock: lock}, nil
}

// sweep removes the folders whose lock nobody holds and returns how many there were. What can't be opened or
// removed (another user's folder) is left: it is not ours to judge.
func sweep(workDir string) int {
	entries, err := os.ReadDir(workDir)
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), spacePrefix) {
			continue
		}
		dir := filepath.Join(workDir, e.Name())
		lock, err := lockDir(dir)
		if err != nil {
			continue
		}
		if os.RemoveAll(dir) == nil {
			n++
		}
		_ = lock.Close()
	}
	return n
}

// lockDir opens dir and takes its flock without waiting.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// same tells whether the locked folder is still the one at the path.
func same(lock *os.File, dir string) bool {
	a, err := lock.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(dir)
	return err == nil && os.SameFile(a, b)
}
