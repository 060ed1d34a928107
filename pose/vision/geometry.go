package vision

import (
	"math"

	"github.com/posefleet/posefleet/pose"
)

// ROI is the turned rectangle that an estimator looks at.
type ROI struct {
	// Cx, Cy is the centre in pixels; it may lie outside the picture.
	Cx, Cy float64
	// W, H are the sides in pixels.
	W, H float64
	// Rotation is the angle in radians, clockwise on the screen, by which the person leans: 0 is upright.
	Rotation float64
}

// maxCoordinate bounds what a model may claim: far beyond any picture, and far from where float32 loses whole pixels.
const maxCoordinate = 1 << 17

// Valid says whether the region can be cropped: finite, and neither empty nor absurdly large.
func (r ROI) Valid() bool {
	for _, v := range [...]float64{r.Cx, r.Cy, r.W, r.H, r.Rotation} {
		if !(math.Abs(v) <= maxCoordinate) {
			return false
		}
	}
	return r.W >= 1 && r.H >= 1
}

// Around is the region of the given aspect (width by height) around a box, which is padded by the factor and then grown in one
// direction.
func Around(box pose.Box, padding, aspect float64) ROI {
	cx, cy := box.Centre()
	w, h := box.W*padding, box.H*padding
	if w > h*aspect {
		h = w / aspect
	} else {
		w = h * aspect
	}
	return ROI{Cx: cx, Cy: cy, W: w, H: h}
}

// Bounds is the upright box around the turned rectangle.
func (r ROI) Bounds() pose.Box {
	x0, y0, x1, y1 := r.bounds()
	return pose.Box{X: x0, Y: y0, W: x1 - x0, H: y1 - y0}
}

// Affine is the 2×3 matrix (a b c; d e f): x' = ax + by + c, y' = dx + ey + f. It leads from the pixels of a model's input to those of
// the picture, pixel centres at whole numbers on both sides.
type Affine [6]float64

// Pixel maps a place in pixels of the input: the centre of its first pixel is (0, 0).
func (m Affine) Pixel(x, y float64) (float64, float64) {
	return m[0]*x + m[1]*y + m[2], m[3]*x + m[4]*y + m[5]
}

// Scaled maps a place that the model learned as label × scale, where labels are pixels of the picture: what detectors do, whose labels
// were only scaled and shifted together with the picture.
func (m Affine) Scaled(x, y float64) (float64, float64) {
	x, y = m.Pixel(x-0.5, y-0.5)
	return x + 0.5, y + 0.5
}

// Factor is the number of picture pixels per pixel of the input.
func (m Affine) Factor() float64 { return math.Sqrt(math.Abs(m[0]*m[4] - m[1]*m[3])) }

// toPicture is the matrix of a region that becomes an input of width×height pixels.
func (r ROI) toPicture(width, height int) Affine {
	sin, cos := math.Sincos(r.Rotation)
	sx, sy := r.W/float64(width), r.H/float64(height)
	a, b := cos*sx, -sin*sy
	d, e := sin*sx, cos*sy
	hx, hy := float64(width-1)/2, float64(height-1)/2
	return Affine{a, b, r.Cx - a*hx - b*hy, d, e, r.Cy - d*hx - e*hy}
}

// bounds is the upright box around the turned rectangle.
func (r ROI) bounds() (x0, y0, x1, y1 float64) {
	sin, cos := math.Sincos(r.Rotation)
	hx := (math.Abs(cos)*r.W + math.Abs(sin)*r.H) / 2
	hy := (math.Abs(sin)*r.W + math.Abs(cos)*r.H) / 2
	return r.Cx - hx, r.Cy - hy, r.Cx + hx, r.Cy + hy
}
