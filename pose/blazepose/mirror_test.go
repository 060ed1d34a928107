package blazepose

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/synth"
)

func TestPairsAreLeftAndRight(t *testing.T) {
	t.Parallel()
	names, alone := pose.BlazePose33().Keypoints, 0
	for i, name := range names {
		at := slices.IndexFunc(pairs[:], func(p [2]int) bool { return p[0] == i || p[1] == i })
		if at < 0 {
			alone++
			continue
		}
		other := names[pairs[at][0]+pairs[at][1]-i]
		if strings.Replace(strings.Replace(name, "left", "*", 1), "right", "*", 1) != strings.Replace(strings.Replace(other, "left", "*", 1), "right", "*", 1) || name == other {
			t.Errorf("%s and %s change places", name, other)
		}
	}
	if alone != 1 {
		t.Errorf("%d points have no other side, want the nose alone", alone)
	}
}

// Somebody drawn, in the mirror image of a region, must be seen where the model sees them in the same region of a picture that was turned over.
func TestMirrored(t *testing.T) {
	t.Parallel()
	e := open(t, Config{Model: "lite"})
	const side = 400
	painter := synth.NewPainter(synth.Scene{Width: side, Height: side, Actors: []synth.Actor{{At: func(float64) (synth.Place, bool) {
		return synth.Place{X: 190, Y: 350, Height: 270, Stance: synth.Bowl(0.3, 0.4)}, true
	}}}})
	img := gocv.NewMatWithSize(side, side, gocv.MatTypeCV8UC3)
	over := gocv.NewMat()
	t.Cleanup(func() { _, _ = img.Close(), over.Close() })
	pix, err := img.DataPtrUint8()
	if err != nil {
		t.Fatal(err)
	}
	truth := painter.Draw(0, pix)[0]
	gocv.Flip(img, &over, 1)
	roi := ROI{Cx: 196, Cy: 215, Size: 350, Rotation: 0.2}
	got, err := e.Mirrored(t.Context(), Mat(img), roi)
	if err != nil {
		t.Fatal(err)
	}
	want, err := e.Landmarks(t.Context(), Mat(over), ROI{Cx: side - 1 - roi.Cx, Cy: roi.Cy, Size: roi.Size, Rotation: -roi.Rotation})
	if err != nil {
		t.Fatal(err)
	}
	if off := math.Hypot(got.Next.Cx-(side-1-want.Next.Cx), got.Next.Cy-want.Next.Cy) + math.Abs(got.Next.Rotation+want.Next.Rotation); off > 1 || !near(got.Next.Size, want.Next.Size, 1) {
		t.Errorf("next region %+v, of the picture turned over %+v", got.Next, want.Next)
	}
	names := pose.BlazePose33()
	for i, name := range names.Keypoints {
		j := i
		switch {
		case strings.Contains(name, "left"):
			j = names.Index(strings.Replace(name, "left", "right", 1))
		case strings.Contains(name, "right"):
			j = names.Index(strings.Replace(name, "right", "left", 1))
		}
		p, q := got.Points[i], want.Points[j]
		if d := math.Hypot(p.X-(side-1-q.X), p.Y-q.Y); d > 1 || !near(p.Heat, q.Heat, 0.05) {
			t.Errorf("%s is %.1f pixels off, heat %.2f and %.2f", name, d, p.Heat, q.Heat)
		}
		if w, v := got.World[i], want.World[j]; !near(w.X, -v.X, 0.02) || !near(w.Y, v.Y, 0.02) {
			t.Errorf("in metres %s is at %v, turned over at %v", name, w, v)
		}
	}
	off := 0.0
	for _, i := range joints {
		off += math.Hypot(got.Points[i].X-truth.Points[i].X, got.Points[i].Y-truth.Points[i].Y) / float64(len(joints))
	}
	if off > 0.06*270 || got.Face < 0.3 {
		t.Errorf("joints are %.1f pixels off, face %.2f", off, got.Face)
	}
}
