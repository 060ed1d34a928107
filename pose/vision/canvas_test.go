package vision_test

import (
	"errors"
	"image"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/manifest"
	"github.com/posefleet/posefleet/pose/vision"
)

// canvas makes a canvas of the size, with the manifest's fields as they are.
func canvas(t testing.TB, m manifest.Manifest, dtype infer.DType, w, h int64) *vision.Canvas {
	t.Helper()
	if m.Resize.Fill == nil {
		m.Resize.Fill = new(int)
	}
	shape := []int64{1, h, w, 3}
	if m.Input.Layout == manifest.NCHW {
		shape = []int64{1, 3, h, w}
	}
	c, err := vision.NewCanvas(m, infer.TensorInfo{Name: "x", DType: dtype, Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func plain(layout manifest.Layout, channels manifest.Channels) manifest.Manifest {
	return manifest.Manifest{
		Input:  manifest.Input{Layout: layout, Channels: channels, Scale: 1, Mean: []float64{0, 0, 0}, Std: []float64{1, 1, 1}},
		Resize: manifest.Resize{Mode: manifest.Letterbox},
	}
}

// Each pixel lands where layout and order of colours say, and is scaled as the manifest says: (pixel × scale − mean) ÷ std.
func TestLayoutOrderAndScale(t *testing.T) {
	t.Parallel()
	p := vision.Picture{Pix: []byte{10, 20, 30, 40, 50, 60}, Width: 2, Height: 1} // blue, green, red of two pixels
	tests := []struct {
		layout   manifest.Layout
		channels manifest.Channels
		want     []float32
	}{
		{manifest.NHWC, manifest.BGR, []float32{10, 20, 30, 40, 50, 60}},
		{manifest.NHWC, manifest.RGB, []float32{30, 20, 10, 60, 50, 40}},
		{manifest.NCHW, manifest.BGR, []float32{10, 40, 20, 50, 30, 60}},
		{manifest.NCHW, manifest.RGB, []float32{30, 60, 20, 50, 10, 40}},
	}
	for _, tt := range tests {
		c := canvas(t, plain(tt.layout, tt.channels), infer.Float32, 2, 1)
		if _, err := c.Letterbox(p, p.Bounds()); err != nil {
			t.Fatal(err)
		}
		for i, v := range c.Tensor().F32 {
			if v != tt.want[i] {
				t.Errorf("%s %s: %v, want %v", tt.layout, tt.channels, c.Tensor().F32, tt.want)
				break
			}
		}
	}
	m := plain(manifest.NHWC, manifest.RGB)
	m.Input.Scale, m.Input.Mean, m.Input.Std = 0.5, []float64{1, 2, 3}, []float64{1, 2, 4}
	c := canvas(t, m, infer.Float32, 2, 1)
	if _, err := c.Letterbox(p, p.Bounds()); err != nil {
		t.Fatal(err)
	}
	if got := c.Tensor().F32[:3]; got[0] != 14 || got[1] != 4 || got[2] != 0.5 {
		t.Errorf("scaled: %v", got)
	}
	for _, dtype := range []infer.DType{infer.Int32, infer.Uint8} {
		c := canvas(t, m, dtype, 2, 1)
		if _, err := c.Letterbox(p, p.Bounds()); err != nil {
			t.Fatal(err)
		}
		x := c.Tensor()
		if dtype == infer.Int32 && (x.I32[0] != 14 || x.I32[2] != 1) || dtype == infer.Uint8 && (x.U8[1] != 4 || x.U8[2] != 1) {
			t.Errorf("%v: %v %v", dtype, x.I32, x.U8)
		}
	}
}

// A shrunk picture has the mean of what each pixel covers, whole or not: compared with the sum over exact areas.
func TestShrinkTakesTheMean(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []struct{ w, h, cw, ch int }{{40, 30, 20, 15}, {41, 29, 12, 9}, {100, 7, 33, 2}, {9, 9, 9, 9}, {64, 64, 1, 1}} {
		p := vision.Picture{Pix: make([]byte, 3*size.w*size.h), Width: size.w, Height: size.h}
		for i := range p.Pix {
			p.Pix[i] = byte(rng.UintN(256))
		}
		c := canvas(t, plain(manifest.NHWC, manifest.BGR), infer.Float32, int64(size.cw), int64(size.ch))
		back, err := c.Letterbox(p, p.Bounds())
		if err != nil {
			t.Fatal(err)
		}
		for y := range size.ch {
			for x := range size.cw {
				x0, y0 := back.Scaled(float64(x), float64(y))
				x1, y1 := back.Scaled(float64(x+1), float64(y+1))
				if x0 < -1e-9 || y0 < -1e-9 || x1 > float64(size.w)+1e-9 || y1 > float64(size.h)+1e-9 {
					continue // a bar
				}
				for ch := range 3 {
					want := mean(p, x0, y0, x1, y1, ch)
					if got := float64(c.Tensor().F32[3*(y*size.cw+x)+ch]); math.Abs(got-want) > 0.51 {
						t.Fatalf("%+v: pixel %d,%d channel %d is %v, want %v", size, x, y, ch, got, want)
					}
				}
			}
		}
	}
}

// mean is the exact mean of a channel over an area.
func mean(p vision.Picture, x0, y0, x1, y1 float64, ch int) float64 {
	sum, area := 0.0, 0.0
	for y := range p.Height {
		h := math.Min(float64(y+1), y1) - math.Max(float64(y), y0)
		for x := range p.Width {
			w := math.Min(float64(x+1), x1) - math.Max(float64(x), x0)
			if w > 0 && h > 0 {
				sum += w * h * float64(p.Pix[3*(y*p.Width+x)+ch])
				area += w * h
			}
		}
	}
	return sum / area
}

// What lies beside the picture has the fill's grey, on the sides that the mode says.
func TestBars(t *testing.T) {
	t.Parallel()
	grey := 114
	for _, mode := range []manifest.Mode{manifest.Letterbox, manifest.LetterboxTopLeft} {
		m := plain(manifest.NHWC, manifest.RGB)
		m.Resize = manifest.Resize{Mode: mode, Fill: &grey}
		c := canvas(t, m, infer.Uint8, 8, 8)
		p := vision.Picture{Pix: make([]byte, 3*16*8), Width: 16, Height: 8}
		if _, err := c.Letterbox(p, p.Bounds()); err != nil {
			t.Fatal(err)
		}
		top := 2
		if mode == manifest.LetterboxTopLeft {
			top = 0
		}
		for y := range 8 {
			want := uint8(grey)
			if y >= top && y < top+4 {
				want = 0
			}
			if got := c.Tensor().U8[3*8*y]; got != want {
				t.Errorf("%s: row %d is %d, not %d", mode, y, got, want)
			}
		}
	}
}

// The way into the input and back ends where it began, for any region.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	m := plain(manifest.NCHW, manifest.RGB)
	m.Resize.Mode, m.Resize.Padding = manifest.Crop, 1.25
	c := canvas(t, m, infer.Float32, 192, 256)
	p := vision.Picture{Pix: make([]byte, 3*320*240), Width: 320, Height: 240}
	for _, roi := range []vision.ROI{
		{Cx: 100, Cy: 120, W: 60, H: 80},
		{Cx: 100, Cy: 120, W: 60, H: 80, Rotation: 1},
		{Cx: -50, Cy: 500, W: 700, H: 900, Rotation: -2.5},
	} {
		back, err := c.Crop(p, roi)
		if err != nil {
			t.Fatal(err)
		}
		if x, y := back.Pixel(95.5, 127.5); math.Hypot(x-roi.Cx, y-roi.Cy) > 1e-9 {
			t.Errorf("%+v: the middle comes back at %v, %v", roi, x, y)
		}
		x0, y0 := back.Pixel(-0.5, -0.5)
		x1, y1 := back.Pixel(191.5, -0.5)
		if math.Abs(math.Hypot(x1-x0, y1-y0)-roi.W) > 1e-9 || math.Abs(math.Atan2(y1-y0, x1-x0)-roi.Rotation) > 1e-9 {
			t.Errorf("%+v: the upper edge comes back from %v,%v to %v,%v", roi, x0, y0, x1, y1)
		}
	}
}

// What can't be looked at is refused, not read past its end.
func TestRefused(t *testing.T) {
	t.Parallel()
	c := canvas(t, plain(manifest.NHWC, manifest.RGB), infer.Float32, 8, 8)
	good := vision.Picture{Pix: make([]byte, 3*16), Width: 4, Height: 4}
	for _, p := range []vision.Picture{{}, {Pix: good.Pix, Width: 4, Height: 5}, {Pix: good.Pix, Width: -4, Height: -4}, {Pix: good.Pix, Width: 1 << 40, Height: 1}} {
		if _, err := c.Letterbox(p, image.Rect(0, 0, 4, 4)); !errors.Is(err, vision.ErrPicture) {
			t.Errorf("%d×%d: %v", p.Width, p.Height, err)
		}
		if _, err := c.Crop(p, vision.ROI{Cx: 1, Cy: 1, W: 4, H: 4}); !errors.Is(err, vision.ErrPicture) {
			t.Errorf("%d×%d: %v", p.Width, p.Height, err)
		}
	}
	nan := math.NaN()
	for _, roi := range []vision.ROI{{}, {Cx: nan, W: 4, H: 4}, {W: 4, H: nan}, {W: math.Inf(1), H: 4}, {Cx: 1e9, W: 4, H: 4}} {
		if _, err := c.Crop(good, roi); !errors.Is(err, vision.ErrROI) {
			t.Errorf("%+v: %v", roi, err)
		}
	}
	if _, err := c.Letterbox(good, image.Rect(10, 10, 20, 20)); !errors.Is(err, vision.ErrROI) {
		t.Errorf("a region outside: %v", err)
	}
	// A region far outside of the picture is all fill.
	if _, err := c.Crop(good, vision.ROI{Cx: 5000, Cy: 5000, W: 400, H: 400}); err != nil {
		t.Error(err)
	}
}

func TestPointsAndScores(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, tt := range []struct {
		x, y, score float64
		want        pose.Keypoint
	}{
		{1, 2, 0.5, pose.Keypoint{X: 1, Y: 2, Score: 0.5, Found: true}},
		{1, 2, 1.7, pose.Keypoint{X: 1, Y: 2, Score: 1, Found: true}},
		{1, 2, 0.29, pose.Keypoint{}},
		{1, 2, nan, pose.Keypoint{}},
		{nan, 2, 1, pose.Keypoint{}},
		{1, math.Inf(-1), 1, pose.Keypoint{}},
		{0, 0, 0, pose.Keypoint{}},
	} {
		if got := vision.Point(tt.x, tt.y, tt.score, 0.3); got != tt.want {
			t.Errorf("%v %v %v: %+v", tt.x, tt.y, tt.score, got)
		}
	}
	a, b := pose.Box{W: 10, H: 10}, pose.Box{X: 1, W: 10, H: 10}
	got := vision.Distinct([]vision.Pose{{Score: 0.6, Box: a}, {Score: 1.4, Box: b}, {Score: 1.2, Box: pose.Box{X: 100, W: 10, H: 10}}}, 0.7)
	if len(got) != 2 || got[0].Score != 1.4 || got[1].Score != 1.2 {
		t.Errorf("%+v", got)
	}
}

// An input of 640×640 from a 1080p frame, and a crop of 192×256.
func BenchmarkCanvas(b *testing.B) {
	p := vision.Picture{Pix: make([]byte, 3*1920*1080), Width: 1920, Height: 1080}
	b.Run("letterbox 640", func(b *testing.B) {
		c := canvas(b, plain(manifest.NCHW, manifest.RGB), infer.Float32, 640, 640)
		for b.Loop() {
			if _, err := c.Letterbox(p, p.Bounds()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("crop 192x256", func(b *testing.B) {
		c := canvas(b, plain(manifest.NCHW, manifest.RGB), infer.Float32, 192, 256)
		for b.Loop() {
			if _, err := c.Crop(p, vision.ROI{Cx: 900, Cy: 500, W: 600, H: 800}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
