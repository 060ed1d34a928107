package pose

import (
	"encoding/json"
	"errors"
	"math"
)

// Box is an upright rectangle in pixels: the upper left corner, width and height. In JSON it is [x,y,w,h].
type Box struct{ X, Y, W, H float64 }

// MarshalJSON writes [x,y,w,h] in hundredths of a pixel.
func (b Box) MarshalJSON() ([]byte, error) { return usualDigits.box(nil, b), nil }

// UnmarshalJSON reads [x,y,w,h].
func (b *Box) UnmarshalJSON(data []byte) error {
	var v [4]float64
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*b = Box{v[0], v[1], v[2], v[3]}
	return nil
}

// Centre is the middle of the box.
func (b Box) Centre() (x, y float64) { return b.X + b.W/2, b.Y + b.H/2 }

// Side is the length of the longer side.
func (b Box) Side() float64 { return math.Max(b.W, b.H) }

// Area is the box's area in square pixels.
func (b Box) Area() float64 { return b.W * b.H }

// Contains reports whether the point lies in the box or on its edge.
func (b Box) Contains(x, y float64) bool {
	return x >= b.X && y >= b.Y && x <= b.X+b.W && y <= b.Y+b.H
}

// Distance is how far the point is from the box in pixels, 0 inside.
func (b Box) Distance(x, y float64) float64 {
	dx := math.Max(0, math.Max(b.X-x, x-(b.X+b.W)))
	dy := math.Max(0, math.Max(b.Y-y, y-(b.Y+b.H)))
	return math.Hypot(dx, dy)
}

// IoU is the overlap of two boxes: intersection by union, 0..1.
func (b Box) IoU(o Box) float64 {
	w := math.Min(b.X+b.W, o.X+o.W) - math.Max(b.X, o.X)
	h := math.Min(b.Y+b.H, o.Y+o.H) - math.Max(b.Y, o.Y)
	if w <= 0 || h <= 0 {
		return 0
	}
	return w * h / (b.Area() + o.Area() - w*h)
}

// Keypoint is one body point in pixels. In JSON it is [x,y,score], or null where it was not found.
type Keypoint struct {
	X, Y, Score float64
	// Found is false for a point that was not found; the other fields mean nothing then.
	Found bool
}

// MarshalJSON writes [x,y,score] or null.
func (k Keypoint) MarshalJSON() ([]byte, error) { return usualDigits.point(nil, k), nil }

// UnmarshalJSON reads [x,y,score] or null.
func (k *Keypoint) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*k = Keypoint{}
		return nil
	}
	var v []float64
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if len(v) != 3 {
		return errors.New("a keypoint is [x, y, score] or null")
	}
	*k = Keypoint{X: v[0], Y: v[1], Score: v[2], Found: true}
	return nil
}

// usable reports whether the point can be written: found, and all its numbers finite.
func (k Keypoint) usable() bool {
	return k.Found && finite(k.X) && finite(k.Y) && finite(k.Score)
}

// Bounds is the box around the found points, and false where there is none.
func Bounds(points []Keypoint) (Box, bool) {
	x0, y0 := math.Inf(1), math.Inf(1)
	x1, y1 := math.Inf(-1), math.Inf(-1)
	for _, k := range points {
		if k.usable() {
			x0, y0 = math.Min(x0, k.X), math.Min(y0, k.Y)
			x1, y1 = math.Max(x1, k.X), math.Max(y1, k.Y)
		}
	}
	if x0 > x1 {
		return Box{}, false
	}
	return Box{x0, y0, x1 - x0, y1 - y0}, true
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
