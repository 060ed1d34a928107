package infer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose/infer"
)

// residentMiB is the memory of this process, native parts included.
func residentMiB(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(b)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() >> 20
}

// Native memory must stay flat over many runs and many sessions. Not parallel: it looks at the whole process.
func TestNativeMemoryStaysFlat(t *testing.T) {
	dir := need.Assets(t)
	for _, e := range engines(t) {
		t.Run(e.Name(), func(t *testing.T) {
			lite := filepath.Join(dir, assets.ModelFile(assets.LandmarkLite, e.Name() == "opencv"))
			tiny := rectifier(t)
			cycle := func(runs, sessions int) {
				s, err := e.Load(lite, infer.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				in := []infer.Tensor{noise(s.Inputs()[0])}
				for range runs {
					if _, err := s.Run(t.Context(), in); err != nil {
						t.Fatal(err)
					}
				}
				for range sessions {
					s, err := e.Load(tiny, infer.Options{})
					if err != nil {
						t.Fatal(err)
					}
					_ = s.Close()
				}
			}
			cycle(20, 20)
			// What leaks grows each time; what the allocator keeps for one thread more, which a busy machine brings about, does not.
			grown := 0
			for range 3 {
				before := residentMiB(t)
				cycle(200, 200)
				if grown = residentMiB(t) - before; grown <= 24 {
					return
				}
			}
			t.Errorf("grew by %d MiB over 200 runs and 200 sessions, three times", grown)
		})
	}
}
