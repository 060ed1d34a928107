package extract_test

import (
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/pose/media"
)

func TestOverlayShowsTheSkeletonAtTheFramesOwnTimes(t *testing.T) {
	t.Parallel()
	x := newExtractor(t, "lite")
	r, err := x.Run(t.Context(), extract.Request{Clips: []extract.Input{{ID: "c1", Path: need.Media(t, "odd/vfr_60_then_24.mp4")}}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := t.TempDir()
	o := extract.Overlay{Video: filepath.Join(dir, "o.mp4"), Picture: filepath.Join(dir, "o.png")}
	if err := r.Clips[0].Draw(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	checkSheet(t, o.Picture)
	var frames []pose.Frame
	for f, err := range r.Clips[0].Frames() {
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	checkOverlay(t, o.Video, frames)
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v in the folder, want two files", left)
	}
}

func checkSheet(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil || img.Bounds().Dx() < 1000 || img.Bounds().Dy() < 700 {
		t.Errorf("sheet %v, error %v", img.Bounds(), err)
	}
}

// checkOverlay reads the video back: times, and the colour of the athlete's left thigh.
func checkOverlay(t *testing.T, path string, frames []pose.Frame) {
	t.Helper()
	info, err := media.Probe(t.Context(), path, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := media.Open(t.Context(), info, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	buf := make([]byte, v.FrameBytes())
	hip, knee := pose.BlazePose33().Index("left_hip"), pose.BlazePose33().Index("left_knee")
	coloured, n := 0, 0
	for {
		s, err := v.Read(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(s.T-frames[s.Index].T) > 0.1 {
			t.Errorf("frame %d is at %.2f ms, want %.2f", s.Index, s.T, frames[s.Index].T)
		}
		a, b := frames[s.Index].People[0].Keypoints[hip], frames[s.Index].People[0].Keypoints[knee]
		x, y := int((a.X+b.X)/2), int((a.Y+b.Y)/2)
		if p := buf[3*(y*v.Width+x):]; p[2] > 180 && p[0] < 110 {
			coloured++ // orange
		}
		n++
	}
	if n != len(frames) || coloured < n*9/10 {
		t.Errorf("%d frames of %d, the thigh is drawn in %d", n, len(frames), coloured)
	}
	if info.Codec != "h264" || info.Width != 576 {
		t.Errorf("video %+v", info)
	}
}

func TestOverlayThatFailsLeavesNoFile(t *testing.T) {
	t.Parallel()
	x := newExtractor(t, "lite")
	path := makeClip(t, filepath.Join(t.TempDir(), "clip.mp4"), "-t", "0.4")
	r, err := x.Run(t.Context(), extract.Request{Clips: []extract.Input{{ID: "c1", Path: path}}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := t.TempDir()
	// The clip has changed since: it is shorter, then gone.
	makeClip(t, path, "-t", "1")
	if err := r.Clips[0].Draw(t.Context(), extract.Overlay{Video: filepath.Join(dir, "o.mp4"), Picture: filepath.Join(dir, "o.png")}); err == nil {
		t.Error("another clip was drawn on")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}
