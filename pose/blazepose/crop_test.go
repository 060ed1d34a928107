package blazepose

import (
	"errors"
	"image"
	"image/color"
	"math"
	"testing"

	"gocv.io/x/gocv"
	"pgregory.net/rapid"
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
func centroid(s *sampler, plane int) Point2 {
	var sum, x, y float64
	for i, v := range s.data[plane*s.side*s.side : (plane+1)*s.side*s.side] {
		w := float64(v - s.low)
		sum, x, y = sum+w, x+w*float64(i%s.side), y+w*float64(i/s.side)
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
			s := newSampler(cropSide, 0, 1)
			for _, pic := range []Picture{Mat(img), planar(t, img)} {
				s.cut(pic, c.roi) // buffers are reused
				p := c.roi.cropToPicture(cropSide).apply(centroid(s, 0))
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
			s := newSampler(detectorSide, -1, 1)
			for _, pic := range []Picture{Mat(img), planar(t, img)} {
				b := s.fit(pic, c.region)
				q := centroid(s, 1)
				if p := b.point(q.X, q.Y); math.Hypot(p.X-601, p.Y-402) > 0.25 {
					t.Errorf("found at %v", p)
				}
			}
		})
	}
}

// Red, green and blue of a picture must reach the model as such, whatever form the picture has.
func TestColours(t *testing.T) {
	t.Parallel()
	img := gocv.NewMatWithSizeFromScalar(gocv.NewScalar(40, 90, 200, 0), 300, 301, gocv.MatTypeCV8UC3)
	t.Cleanup(func() { _ = img.Close() })
	for name, pic := range map[string]Picture{"BGR": Mat(img), "planar": planar(t, img)} {
		if got := pic.At(300, 299); !nearColour(got, [3]uint8{200, 90, 40}) {
			t.Errorf("%s: At: %v", name, got)
		}
		for _, side := range []float64{100, 700} {
			s := newSampler(cropSide, -1, 1)
			s.cut(pic, ROI{Cx: 150, Cy: 150, Size: side})
			at, n := cropSide*cropSide/2, cropSide*cropSide
			for i, want := range []float64{200, 90, 40} {
				if v := (float64(s.data[i*n+at]) + 1) / 2 * 255; math.Abs(v-want) > 2 {
					t.Errorf("%s: plane %d of a crop of %v: %v, want %v", name, i, side, v, want)
				}
			}
		}
	}
}

func nearColour(a, b [3]uint8) bool {
	for i := range a {
		if math.Abs(float64(a[i])-float64(b[i])) > 2 {
			return false
		}
	}
	return true
}

func TestFullRangeColours(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		y       uint8
		full    bool
		u, v    uint8
		colours [3]uint8
	}{
		{"black", 16, false, 128, 128, [3]uint8{0, 0, 0}},
		{"white", 235, false, 128, 128, [3]uint8{255, 255, 255}},
		{"black of the full range", 0, true, 128, 128, [3]uint8{0, 0, 0}},
		{"white of the full range", 255, true, 128, 128, [3]uint8{255, 255, 255}},
		{"red", 82, false, 90, 240, [3]uint8{255, 0, 0}},
	} {
		p := Planar([]byte{c.y, c.u, c.v}, 1, 1, Colours{Red: 0.299, Blue: 0.114, Full: c.full})
		if got := p.At(0, 0); !nearColour(got, c.colours) {
			t.Errorf("%s: %v, want %v", c.name, got, c.colours)
		}
	}
}

// Means as arithmetic has them, of whole samples and of parts.
func TestShrinkIsTheMean(t *testing.T) {
	t.Parallel()
	const w, h = 23, 17
	pix := make([]byte, w*h)
	for i := range pix {
		pix[i] = byte(i * 37)
	}
	p := plane{pix: pix, width: w, height: h, stride: w, step: 1, part: 1}
	area := image.Rect(2, 1, w, h)
	part := func(i, lo, hi float64) float64 { return max(min(i+1, hi)-max(i, lo), 0) }
	for _, size := range []image.Point{{1, 1}, {7, 5}, {10, 16}, {21, 8}, {20, 15}} {
		got := newSampler(8, 0, 1).shrink(&p, area, size.X, size.Y)
		sx, sy := float64(area.Dx())/float64(size.X), float64(area.Dy())/float64(size.Y)
		for y := range size.Y {
			for x := range size.X {
				sum := 0.0
				for v := range area.Dy() {
					for u := range area.Dx() {
						sum += float64(pix[(v+area.Min.Y)*w+u+area.Min.X]) *
							part(float64(u), float64(x)*sx, float64(x+1)*sx) * part(float64(v), float64(y)*sy, float64(y+1)*sy)
					}
				}
				if have, want := float64(got.pix[y*size.X+x]), sum/sx/sy; math.Abs(have-want) > 1.5 {
					t.Fatalf("%v: (%d, %d) is %v, want %.2f", size, x, y, have, want)
				}
			}
		}
	}
}

// No region, however far from the picture or large, may read beside it. The race detector does not see C; a wrong read shows as a colour
// that the picture has not.
func TestCropStaysInThePicture(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 70).Draw(t, "width"), rapid.IntRange(1, 70).Draw(t, "height")
		around := make([]byte, 8192+w*h+2*((w+1)/2)*((h+1)/2)+8192)
		inner := around[8192 : len(around)-8192]
		for i := range inner {
			inner[i] = 128
		}
		side := rapid.Float64Range(1, maxCoordinate)
		roi := ROI{
			Cx: rapid.Float64Range(-300, 300).Draw(t, "x"), Cy: rapid.Float64Range(-300, 300).Draw(t, "y"),
			Size: min(side.Draw(t, "size"), rapid.Float64Range(1, 500).Draw(t, "limit")), Rotation: rapid.Float64Range(-3.1, 3.1).Draw(t, "rotation"),
		}
		s := newSampler(cropSide, 0, 1)
		s.cut(Planar(inner, w, h, Colours{Red: 0.299, Blue: 0.114, Full: true}), roi)
		for i, v := range s.data {
			if math.Abs(float64(v)*255-128) > 0.01 {
				t.Fatalf("value %d is %v", i, v*255)
			}
		}
	})
}

func TestPicturesThatCantBeLookedAt(t *testing.T) {
	t.Parallel()
	empty, grey := gocv.NewMat(), gocv.NewMatWithSize(4, 4, gocv.MatTypeCV8UC1)
	t.Cleanup(func() { _, _ = empty.Close(), grey.Close() })
	for name, p := range map[string]Picture{
		"empty": Mat(empty), "grey": Mat(grey), "zero mat": Mat(gocv.Mat{}), "zero": {}, "short": BGR(make([]byte, 11), 2, 2),
		"no width": BGR(nil, 0, 2), "short planes": Planar(make([]byte, 5), 2, 2, Colours{}), "too large": Planar(nil, maxSide+1, 1, Colours{}),
	} {
		if err := p.check(); !errors.Is(err, ErrImage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// planar is a picture in the form that video has, with the colours of BT.601.
func planar(t testing.TB, img gocv.Mat) Picture {
	t.Helper()
	p := Mat(img)
	w, h := p.width, p.height
	halfW, halfH := (w+1)/2, (h+1)/2
	pix := make([]byte, w*h+2*halfW*halfH)
	u, v := pix[w*h:w*h+halfW*halfH], pix[w*h+halfW*halfH:]
	for y := range h {
		for x := range w {
			r, g, b := p.float(x, y)
			pix[y*w+x] = byte(16.5 + 219*(0.299*r+0.587*g+0.114*b))
		}
	}
	for y := range halfH {
		for x := range halfW {
			var r, g, b float64
			for i := range 4 {
				r1, g1, b1 := p.float(min(2*x+i%2, w-1), min(2*y+i/2, h-1))
				r, g, b = r+r1/4, g+g1/4, b+b1/4
			}
			light := 0.299*r + 0.587*g + 0.114*b
			u[y*halfW+x] = byte(128.5 + 224*(b-light)/(2*(1-0.114)))
			v[y*halfW+x] = byte(128.5 + 224*(r-light)/(2*(1-0.299)))
		}
	}
	return Planar(pix, w, h, Colours{Red: 0.299, Blue: 0.114})
}

// float is a pixel's red, green and blue, 0 to 1.
func (p Picture) float(x, y int) (r, g, b float64) {
	c := p.At(x, y)
	return float64(c[0]) / 255, float64(c[1]) / 255, float64(c[2]) / 255
}
