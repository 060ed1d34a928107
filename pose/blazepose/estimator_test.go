package blazepose

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/need"
)

func TestConfigReportsAllFaults(t *testing.T) {
	t.Parallel()
	err := Config{Model: "huge", Engine: "abacus", Threads: 100, MinScore: 1}.Validate()
	for _, word := range []string{"huge", "abacus", "100", "score"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero configuration: %v", err)
	}
}

// copyAssets makes an assets folder of the small model out of links, changed by the caller.
func copyAssets(t *testing.T, change func(dir string, sums map[string]string)) string {
	t.Helper()
	from, dir := need.Assets(t), t.TempDir()
	b, err := os.ReadFile(filepath.Join(from, assets.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	if err := json.Unmarshal(b, &sums); err != nil {
		t.Fatal(err)
	}
	for name := range sums {
		if err := os.Symlink(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	change(dir, sums)
	if b, err = json.Marshal(sums); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, assets.ManifestFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	lite := assets.ModelFile(assets.LandmarkLite, false)
	for _, c := range []struct {
		name   string
		change func(dir string, sums map[string]string)
		want   error
	}{
		{"a model that was changed", func(_ string, sums map[string]string) { sums[lite] = strings.Repeat("0", 64) }, assets.ErrChecksum},
		{"a library that was changed", func(_ string, sums map[string]string) { sums[assets.RuntimeFile] = strings.Repeat("0", 64) }, assets.ErrChecksum},
		{"a model that is not listed", func(_ string, sums map[string]string) { delete(sums, lite) }, assets.ErrUnlisted},
		{"another model under its name", func(dir string, sums map[string]string) {
			_ = os.Remove(filepath.Join(dir, lite))
			_ = os.Symlink(filepath.Join(dir, assets.ModelFile(assets.Detector, false)), filepath.Join(dir, lite))
			sums[lite] = sums[assets.ModelFile(assets.Detector, false)]
		}, errLayout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, err := Open(Config{Assets: copyAssets(t, c.change), Model: "lite"})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, %v, want %v", e, err, c.want)
			}
		})
	}
	if _, err := Open(Config{Assets: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
}

// Without the library the slower engine does the work, unless the fast one was asked for by name.
func TestMissingLibrary(t *testing.T) {
	t.Parallel()
	dir := copyAssets(t, func(dir string, _ map[string]string) { _ = os.Remove(filepath.Join(dir, assets.RuntimeFile)) })
	e, err := Open(Config{Assets: dir, Model: "lite"})
	if err != nil {
		t.Fatal(err)
	}
	if e.Engine() != EngineOpenCV {
		t.Errorf("the engine is %q", e.Engine())
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(Config{Assets: dir, Model: "lite", Engine: EngineONNXRuntime}); !isMissing(err) {
		t.Errorf("got %v", err)
	}
}

func TestClosedEstimator(t *testing.T) {
	t.Parallel()
	e := open(t, Config{Model: "lite"})
	info := e.Info()
	if info.Name != "blazepose-lite" || info.Version != modelVersion || len(info.SHA256) != 64 {
		t.Errorf("info %+v", info)
	}
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	img := gocv.NewMatWithSize(64, 64, gocv.MatTypeCV8UC3)
	t.Cleanup(func() { _ = img.Close() })
	_, detect := e.Detect(t.Context(), Mat(img), image.Rectangle{})
	_, pyramid := e.DetectPyramid(t.Context(), Mat(img))
	_, landmarks := e.Landmarks(t.Context(), Mat(img), ROI{Size: 10})
	for _, err := range []error{detect, pyramid, landmarks} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if e.Info() != info {
		t.Error("the information is gone")
	}
}

func TestBadCalls(t *testing.T) {
	t.Parallel()
	e := open(t, Config{Model: "lite"})
	img, empty := gocv.NewMatWithSize(64, 64, gocv.MatTypeCV8UC3), gocv.NewMat()
	t.Cleanup(func() { _, _ = img.Close(), empty.Close() })
	if _, err := e.Landmarks(t.Context(), Mat(img), ROI{}); !errors.Is(err, ErrROI) {
		t.Errorf("an empty region: %v", err)
	}
	if _, err := e.Landmarks(t.Context(), Mat(empty), ROI{Size: 10}); !errors.Is(err, ErrImage) {
		t.Errorf("an empty picture: %v", err)
	}
	if _, err := e.Detect(t.Context(), Mat(empty), image.Rectangle{}); !errors.Is(err, ErrImage) {
		t.Errorf("an empty picture: %v", err)
	}
	// Regions far outside must neither fail nor end the process.
	for _, roi := range []ROI{{1e5, 1e5, 10, 0}, {-5000, 20, 3000, 1}, {32, 32, 1e5, 2}, {32, 32, 1, 3}} {
		if _, err := e.Landmarks(t.Context(), Mat(img), roi); err != nil {
			t.Errorf("%+v: %v", roi, err)
		}
	}
	if _, err := e.Detect(t.Context(), Mat(img), image.Rect(60, 60, 900, 61)); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Detect(ctx, Mat(img), image.Rectangle{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Both engines give the same points. Measured: 0.002 pixels of a crop of 256.
func TestEnginesAgree(t *testing.T) {
	t.Parallel()
	const tolerance = 0.02
	img := read(t, need.Media(t, "images/mediapipe/pose.jpg"))
	var found [2][]Detection
	var poses [2]Landmarks
	for i, engine := range []string{EngineONNXRuntime, EngineOpenCV} {
		e := open(t, Config{Model: "lite", Engine: engine})
		if e.Engine() != engine {
			t.Fatalf("engine %q", e.Engine())
		}
		var err error
		if found[i], err = e.Detect(t.Context(), Mat(img), image.Rectangle{}); err != nil || len(found[i]) != 1 {
			t.Fatalf("%s: %d people (%v)", engine, len(found[i]), err)
		}
		if poses[i], err = e.Landmarks(t.Context(), Mat(img), found[0][0].ROI); err != nil {
			t.Fatal(err)
		}
	}
	scale := found[0][0].ROI.Size / cropSide
	if a, b := found[0][0].ROI, found[1][0].ROI; !near(a.Cx, b.Cx, tolerance*scale) || !near(a.Size, b.Size, tolerance*scale) {
		t.Errorf("regions %+v and %+v", a, b)
	}
	for i, a := range poses[0].Points {
		b := poses[1].Points[i]
		if !near(a.X, b.X, tolerance*scale) || !near(a.Y, b.Y, tolerance*scale) || !near(a.Score, b.Score, 1e-3) {
			t.Errorf("point %d: %+v and %+v", i, a, b)
		}
	}
}

// The same picture gives the same bits, whatever was looked at before.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	e := open(t, Config{Model: "lite"})
	img, other := read(t, need.Media(t, "images/mediapipe/pose.jpg")), read(t, need.Media(t, "images/tf-examples/image1.png"))
	roi := ROI{Cx: 493, Cy: 469, Size: 652, Rotation: -0.03}
	first, err := e.Landmarks(t.Context(), Mat(img), roi)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.DetectPyramid(t.Context(), Mat(other)); err != nil {
		t.Fatal(err)
	}
	again, err := e.Landmarks(t.Context(), Mat(img), roi)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, again); d != "" {
		t.Error(d)
	}
}

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

// Native memory must stay flat. Not parallel: it looks at the whole process.
func TestNativeMemoryStaysFlat(t *testing.T) {
	img := read(t, need.Media(t, "images/mediapipe/pose.jpg"))
	e := open(t, Config{Model: "lite"})
	cycle := func(n int) {
		for i := range n {
			if _, err := e.Landmarks(t.Context(), Mat(img), ROI{Cx: 493, Cy: 469, Size: 300 + float64(i*7%900), Rotation: float64(i)}); err != nil {
				t.Fatal(err)
			}
			if i%4 == 0 {
				if _, err := e.Detect(t.Context(), Mat(img), image.Rect(i, i, 400+i, 300+i)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	cycle(40)
	before := residentMiB(t)
	cycle(200)
	if grown := residentMiB(t) - before; grown > 16 {
		t.Errorf("grew by %d MiB over 200 looks", grown)
	}
	if mats := testing.AllocsPerRun(20, func() { _, _ = e.Landmarks(t.Context(), Mat(img), ROI{Cx: 493, Cy: 469, Size: 300}) }); mats > 60 {
		t.Errorf("%v allocations per look", mats)
	}
}
