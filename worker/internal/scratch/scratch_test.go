package scratch_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/posefleet/posefleet/worker/internal/scratch"
)

func open(t testing.TB, dir string) *scratch.Space {
	t.Helper()
	s, err := scratch.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func entries(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestJobFoldersComeAndGo(t *testing.T) {
	t.Parallel()
	work := filepath.Join(t.TempDir(), "new", "work")
	s := open(t, work)
	j, err := s.Job()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(j.Clip(0), []byte("clip"), 0o600); err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(j.Clip(0)) == j.Out() || !strings.HasPrefix(j.Clip(1), s.Dir()) {
		t.Fatalf("odd paths: %s %s", j.Clip(0), j.Out())
	}
	if err := j.Remove(); err != nil {
		t.Fatal(err)
	}
	if left := entries(t, s.Dir()); len(left) != 0 {
		t.Fatalf("left in scratch: %v", left)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left := entries(t, work); len(left) != 0 {
		t.Fatalf("left in the work directory: %v", left)
	}
}

func TestOpenSweepsTheDeadOnly(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	live := open(t, work)
	job, err := live.Job()
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(work, "posefleet-scratch-dead")
	if err := os.MkdirAll(filepath.Join(dead, "job-1", "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(work, "keep.txt")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := open(t, work)
	if next.Swept != 1 {
		t.Errorf("swept %d folders, want 1", next.Swept)
	}
	for _, keep := range []string{foreign, job.Out(), next.Dir()} {
		if _, err := os.Stat(keep); err != nil {
			t.Errorf("swept too much: %v", err)
		}
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the dead worker's folder is still there: %v", err)
	}
}

// TestOpenRace starts many workers at once on one disk: each gets a folder of its own that stays.
func TestOpenRace(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	spaces := make([]*scratch.Space, 40)
	var wg sync.WaitGroup
	for i := range spaces {
		wg.Go(func() {
			s, err := scratch.Open(work)
			if err != nil {
				t.Error(err)
				return
			}
			spaces[i] = s
		})
	}
	wg.Wait()
	for _, s := range spaces {
		if s == nil {
			continue
		}
		if _, err := os.Stat(s.Dir()); err != nil {
			t.Errorf("a live folder was swept: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if left := entries(t, work); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
}

func TestFree(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	if n, err := s.Free(); err != nil || n <= 0 {
		t.Fatalf("free %d, %v", n, err)
	}
}

func TestOpenFailsClearly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := scratch.Open(file); err == nil {
		t.Fatal("a file was accepted as work directory")
	}
}
