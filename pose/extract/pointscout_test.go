package extract

import (
	"context"
	"image"
	"math"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/models"
	"github.com/posefleet/posefleet/pose/models/modeltest"
	"github.com/posefleet/posefleet/pose/vision"
)

// glimpse is a detector that sees somebody in its first looks only: whoever is followed after that is followed by his points.
type glimpse struct {
	boxes []pose.Box
	looks int
}

func (g *glimpse) Detect(context.Context, vision.Picture, []image.Rectangle) ([]vision.Find, error) {
	g.looks++
	if len(g.boxes) == 0 {
		return nil, nil
	}
	box := g.boxes[0]
	g.boxes = g.boxes[1:]
	return []vision.Find{{Box: box, Score: 0.9}}, nil
}

// lampPerson paints a person of lamps in and around a box and returns the frame.
func lampPerson(size image.Point, box pose.Box) (*picture, map[int]image.Point) {
	lamps := map[int]image.Point{}
	for k := range 6 {
		a := float64(k) / 6 * 2 * math.Pi
		lamps[k] = image.Pt(int(box.X+box.W/2+0.5*box.W*math.Cos(a)), int(box.Y+box.H/2+0.5*box.H*math.Sin(a)))
	}
	// The crop is 1.25 times the points' box: the lamps have the size that the model looks for.
	radius := 4.5 * math.Max(box.H, box.W/0.75) * 1.25 / 256
	return &picture{pixels: modeltest.Draw(size.X, size.Y, radius, lamps)}, lamps
}

// openLamps opens a model whose first six points are the lamps.
func openLamps(t *testing.T) *models.Model {
	t.Helper()
	skeleton := map[string]any{"name": "lamps", "keypoints": []string{"a", "b", "c", "d", "e", "f"}}
	folder := modeltest.Write(t, t.TempDir(), "lamps", modeltest.RTMPose(6, false), map[string]any{"skeleton": skeleton})
	c, err := models.New(models.Config{Assets: need.Assets(t)})
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Locate(folder)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Open(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// A person who runs through the picture and grows is followed without a detector, by the box of the points of the frame before; the
// detector's rough box is set right by a second look.
func TestPointsAreFollowedWithoutADetector(t *testing.T) {
	t.Parallel()
	size := image.Pt(960, 540)
	m := openLamps(t)
	eyes := &glimpse{boxes: []pose.Box{{X: 60, Y: 130, W: 130, H: 190}}}
	m.Detector = eyes
	s := newPointScout(m, size, 1)
	for i := range 40 {
		box := pose.Box{X: 80 + 15*float64(i), Y: 160 + float64(i), W: 90 + 2*float64(i), H: 150 + 3*float64(i)}
		pic, lamps := lampPerson(size, box)
		seen, err := s.look(t.Context(), pic)
		if err != nil {
			t.Fatal(err)
		}
		if len(seen) != 1 || (i > 0) != (seen[0].From == 1) {
			t.Fatalf("frame %d: %+v", i, seen)
		}
		for k, at := range lamps {
			p := seen[0].Keypoints[k]
			inside := at.In(image.Rectangle{Max: size})
			if inside && math.Hypot(p.X-float64(at.X), p.Y-float64(at.Y)) > 0.02*box.H+1 || !inside && p.Found {
				t.Errorf("frame %d: lamp %d is at %v, found %+v", i, k, at, p)
			}
		}
		s.named([]int{1})
	}
	if eyes.looks != 1 {
		t.Errorf("the detector looked %d times while all slots were taken", eyes.looks)
	}
}

// Somebody who is gone is lost, not invented, and found again by the detector; after a cut nobody is followed.
func TestPointsThatAreGoneAreLost(t *testing.T) {
	t.Parallel()
	size := image.Pt(640, 480)
	m := openLamps(t)
	box := pose.Box{X: 200, Y: 120, W: 120, H: 200}
	eyes := &glimpse{boxes: []pose.Box{box}}
	m.Detector = eyes
	s := newPointScout(m, size, 2)
	there, _ := lampPerson(size, box)
	away := &picture{pixels: modeltest.Draw(size.X, size.Y, 1, nil)}
	look := func(pic *picture, want int) {
		t.Helper()
		seen, err := s.look(t.Context(), pic)
		if err != nil || len(seen) != want {
			t.Fatalf("%d people, %v, want %d", len(seen), err, want)
		}
		s.named([]int{1, 2}[:len(seen)])
	}
	look(there, 1)
	look(there, 1)
	for range 5 {
		look(away, 0)
	}
	eyes.boxes = []pose.Box{box}
	for range firstSweep {
		if seen, err := s.look(t.Context(), there); err != nil {
			t.Fatal(err)
		} else if len(seen) == 1 {
			s.named([]int{1})
			break
		}
	}
	look(there, 1)
	s.cut()
	look(there, 0)
}
