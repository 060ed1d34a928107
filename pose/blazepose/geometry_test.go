package blazepose

import (
	"image"
	"math"
	"testing"

	"pgregory.net/rapid"
)

const tiny = 1e-9

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

func TestAlignedROI(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		rim      Point2
		rotation float64
	}{
		{"upright", Point2{100, 60}, 0},
		{"leaning to the right of the picture", Point2{140, 100}, math.Pi / 2},
		{"leaning to the left", Point2{60, 100}, -math.Pi / 2},
		{"head down", Point2{100, 140}, math.Pi},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := alignedROI(Point2{100, 100}, c.rim)
			if r.Cx != 100 || r.Cy != 100 || !near(r.Size, 2*40*1.25, tiny) || !near(r.Rotation, c.rotation, tiny) {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// The rim point of an aligned square lies in the crop straight above its middle, whatever the angle.
func TestCropIsUpright(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size, angle := rapid.Float64Range(10, 2000).Draw(t, "size"), rapid.Float64Range(-4, 4).Draw(t, "angle")
		centre := Point2{rapid.Float64Range(-500, 3000).Draw(t, "x"), rapid.Float64Range(-500, 3000).Draw(t, "y")}
		rim := Point2{centre.X + size/2*math.Sin(angle), centre.Y - size/2*math.Cos(angle)}
		roi := alignedROI(centre, rim)
		m := roi.cropToPicture(cropSide)
		const middle = float64(cropSide-1) / 2
		above := m.apply(Point2{middle, middle - float64(cropSide)/2/roiScale})
		if c := m.apply(Point2{middle, middle}); !near(c.X, centre.X, 1e-6) || !near(c.Y, centre.Y, 1e-6) {
			t.Fatalf("the middle is at %v, want %v", c, centre)
		}
		if !near(above.X, rim.X, 1e-6) || !near(above.Y, rim.Y, 1e-6) {
			t.Fatalf("the rim is at %v, want %v", above, rim)
		}
		if roi.Rotation <= -math.Pi || roi.Rotation > math.Pi {
			t.Fatalf("rotation %v", roi.Rotation)
		}
		b := roi.Bounds()
		for _, corner := range []Point2{{0, 0}, {cropSide - 1, 0}, {0, cropSide - 1}, {cropSide - 1, cropSide - 1}} {
			if p := m.apply(corner); !b.Contains(p.X, p.Y) {
				t.Fatalf("corner %v is outside of the bounds %v", p, b)
			}
		}
	})
}

func TestROIValid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		roi  ROI
		want bool
	}{
		{"good", ROI{10, -10, 100, 1}, true},
		{"zero", ROI{}, false},
		{"negative", ROI{1, 1, -5, 0}, false},
		{"no number", ROI{math.NaN(), 1, 5, 0}, false},
		{"infinite", ROI{1, math.Inf(-1), 5, 0}, false},
		{"absurd", ROI{1, 1, 1e9, 0}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.roi.Valid(); got != c.want {
				t.Errorf("%+v: %v", c.roi, got)
			}
		})
	}
}

func TestTiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		size image.Point
		want [Levels]int
	}{
		{"landscape", image.Pt(1920, 1080), [...]int{1, 3, 15, 28}},
		{"portrait", image.Pt(1080, 1920), [...]int{1, 3, 15, 28}},
		{"square", image.Pt(1000, 1000), [...]int{1, 0, 9, 16}},
		{"small", image.Pt(320, 180), [...]int{1, 3, 15, 0}},
		{"tiny", image.Pt(16, 16), [...]int{1, 0, 0, 0}},
		{"very long", image.Pt(8000, 200), [...]int{1, 0, 0, 0}},
		{"nothing", image.Point{}, [Levels]int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for level, want := range c.want {
				if got := len(Tiles(c.size, level)); got != want {
					t.Errorf("level %d has %d tiles, want %d", level, got, want)
				}
			}
		})
	}
}

// The tiles of a level lie in the picture, and whoever is up to 0.4 of a tile large is whole in one of them.
func TestTilesCoverThePicture(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := image.Pt(rapid.IntRange(100, 3000).Draw(t, "w"), rapid.IntRange(100, 3000).Draw(t, "h"))
		tiles := Tiles(size, rapid.IntRange(0, Levels-1).Draw(t, "level"))
		if len(tiles) == 0 {
			return
		}
		side := min(int(0.4*float64(min(tiles[0].Dx(), tiles[0].Dy())))-2, size.X, size.Y)
		x, y := rapid.IntRange(0, size.X-side).Draw(t, "x"), rapid.IntRange(0, size.Y-side).Draw(t, "y")
		whole := false
		for _, r := range tiles {
			if !r.In(image.Rectangle{Max: size}) {
				t.Fatalf("tile %v is not in the picture %v", r, size)
			}
			whole = whole || image.Rect(x, y, x+side, y+side).In(r)
		}
		if !whole {
			t.Fatalf("no tile holds the square of %d at (%d, %d)", side, x, y)
		}
	})
}

func TestInsideShare(t *testing.T) {
	t.Parallel()
	size, tile := image.Pt(1000, 1000), image.Rect(400, 0, 800, 400)
	for _, c := range []struct {
		name string
		roi  ROI
		want float64
	}{
		{"inside", ROI{600, 200, 125, 0}, 1},
		{"cut in halves by the tile", ROI{400, 200, 125, 0}, 0.5},
		{"beyond the picture, not the tile", ROI{600, 0, 125, 0}, 1},
		{"outside", ROI{200, 200, 125, 0}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := insideShare(c.roi, tile, size); !near(got, c.want, tiny) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
