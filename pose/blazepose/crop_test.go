package blazepose

import (
	"errors"
	"image"
	"image/color"
	"math"
	"testing"

	"gocv.io/x/gocv"
)

// spot makes a black picture with a bright disc.
func spot(t *testing.T, width, height int, at image.Point, radius int) gocv.Mat {
	t.Helper()
	img := gocv.NewMatWithSizeFromScalar(gocv.NewScalar(0, 0, 0, 0), height, width, gocv.MatTypeCV8UC3)
	t.Cleanup(func() { _ = img.Close() })
	gocv.Circle(&img, at, radius, color.RGBA{R: 200, G: 100, B: 50, A: 255}, -1)
	return img
}

// centroid is the middle of what is bright in the plane of the given colour (0 red, 1 green, 2 blue).
func centroid(p *planes, plane int) Point2 {
	var sum, x, y float64
	for i, v := range p.data[plane*p.side*p.side : (plane+1)*p.side*p.side] {
		w := float64(v - p.table[0])
		sum, x, y = sum+w, x+w*float64(i%p.side), y+w*float64(i/p.side)
	}
	return Point2{x / sum, y / sum}
}

// What is at a place of the picture must be found, through the crop and back, at the same place; with and without
// averaging down, turned or not, near the edge too.
func TestCropKeepsPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		roi  ROI
		at   image.Point
	}{
		{"enlarged", ROI{100, 100, 128, 0}, image.Pt(110, 90)},
		{"turned", ROI{300, 300, 300, 0.7}, image.Pt(350, 280)},
		{"averaged down", ROI{700, 500, 900, 0}, image.Pt(600, 700)},
		{"averaged down and turned", ROI{700, 500, 900, -2}, image.Pt(600, 700)},
		{"beyond the edges", ROI{60, 40, 1200, 0.3}, image.Pt(200, 250)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			img := spot(t, 1400, 1000, c.at, 12)
			cr := newCropper()
			t.Cleanup(func() { _ = cr.close() })
			for range 2 { // buffers are reused
				if err := cr.cut(img, c.roi); err != nil {
					t.Fatal(err)
				}
				p := c.roi.cropToPicture(cropSide).apply(centroid(cr.out, 0))
				if math.Hypot(p.X-float64(c.at.X), p.Y-float64(c.at.Y)) > 0.25 {
					t.Errorf("found at %v, want %v", p, c.at)
				}
			}
		})
	}
}

func TestShrinkKeepsPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		region image.Rectangle
	}{
		{"wide", image.Rect(0, 0, 1400, 1000)}, {"tall", image.Rect(500, 100, 801, 1000)}, {"enlarged", image.Rect(550, 350, 650, 450)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			img := spot(t, 1400, 1000, image.Pt(601, 402), 12)
			s := newShrinker()
			t.Cleanup(func() { _ = s.close() })
			b, err := s.shrink(img, c.region)
			if err != nil {
				t.Fatal(err)
			}
			q := centroid(s.out, 1)
			if p := b.point(q.X, q.Y); math.Hypot(p.X-601, p.Y-402) > 0.25 {
				t.Errorf("found at %v", p)
			}
		})
	}
}

func TestPlanesAreRGB(t *testing.T) {
	t.Parallel()
	p := newPlanes(2, -1, 1)
	p.clear()
	p.put([]byte{255, 0, 51}, 1, 0, 1, 1) // blue, green, red
	if got := []float32{p.data[1], p.data[4+1], p.data[8+1]}; !near(float64(got[0]), -0.6, 1e-6) || got[1] != -1 || got[2] != 1 {
		t.Errorf("got %v", got)
	}
}

func TestCheckImage(t *testing.T) {
	t.Parallel()
	empty, grey := gocv.NewMat(), gocv.NewMatWithSize(4, 4, gocv.MatTypeCV8UC1)
	t.Cleanup(func() { _, _ = empty.Close(), grey.Close() })
	for name, img := range map[string]gocv.Mat{"empty": empty, "grey": grey, "zero": {}} {
		if err := checkImage(img); !errors.Is(err, ErrImage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
