package blazepose

import (
	"image"
	"math"

	"github.com/posefleet/posefleet/pose"
)

// Point2 is a point of the picture in pixels.
type Point2 struct{ X, Y float64 }

// ROI is the turned square that the landmark model looks at.
type ROI struct {
	// Cx, Cy is the centre in pixels; it may lie outside the picture.
	Cx, Cy float64
	// Size is the side in pixels. A ROI of size 0 holds nothing.
	Size float64
	// Rotation is the angle in radians, clockwise on the screen, by which the person leans: 0 is upright. In
	// (-π, π].
	Rotation float64
}

// Valid says whether the ROI can be cropped: finite, and neither empty nor absurdly large.
func (r ROI) Valid() bool {
	for _, v := range [...]float64{r.Cx, r.Cy, r.Size, r.Rotation} {
		if math.IsNaN(v) || math.Abs(v) > maxCoordinate {
			return false
		}
	}
	return r.Size >= 1
}

// Bounds is the upright box around the turned square.
func (r ROI) Bounds() pose.Box {
	half := r.Size / 2 * (math.Abs(math.Cos(r.Rotation)) + math.Abs(math.Sin(r.Rotation)))
	return pose.Box{X: r.Cx - half, Y: r.Cy - half, W: 2 * half, H: 2 * half}
}

// maxCoordinate bounds what a model may claim: far beyond any picture that we accept (8192 pixels a side), and far
// from where float32 transforms lose whole pixels.
const maxCoordinate = 1 << 17

// roiScale widens the square around the two alignment points, so that hands and feet stay inside.
const roiScale = 1.25

// alignedROI is the square that two alignment points define: the centre of the hips, and a point on the circle
// around the whole body, straight above the hips of an upright person.
func alignedROI(centre, rim Point2) ROI {
	dx, dy := rim.X-centre.X, rim.Y-centre.Y
	return ROI{
		Cx:       centre.X,
		Cy:       centre.Y,
		Size:     2 * math.Hypot(dx, dy) * roiScale,
		Rotation: normalizeAngle(math.Pi/2 - math.Atan2(-dy, dx)),
	}
}

// normalizeAngle brings an angle into (-π, π].
func normalizeAngle(a float64) float64 {
	a = math.Mod(a, 2*math.Pi)
	switch {
	case a <= -math.Pi:
		return a + 2*math.Pi
	case a > math.Pi:
		return a - 2*math.Pi
	}
	return a
}

// affine is the 2×3 matrix (a b c; d e f): x' = ax + by + c, y' = dx + ey + f.
type affine [6]float64

// apply maps one point.
func (m affine) apply(p Point2) Point2 {
	return Point2{m[0]*p.X + m[1]*p.Y + m[2], m[3]*p.X + m[4]*p.Y + m[5]}
}

// cropToPicture maps pixel (i, j) of a crop of side×side pixels to the picture. Pixel centres are at whole
// numbers on both sides, hence the half pixels.
func (r ROI) cropToPicture(side int) affine {
	s := r.Size / float64(side)
	cos, sin := s*math.Cos(r.Rotation), s*math.Sin(r.Rotation)
	h := float64(side-1) / 2
	return affine{
		cos, -sin, r.Cx - cos*h + sin*h,
		sin, cos, r.Cy - sin*h - cos*h,
	}
}

// scaled is m for the same picture at another size. Pixel centres are at whole numbers on both sides.
func (m affine) scaled(x, y float64) affine {
	for i := range 3 {
		m[i], m[3+i] = m[i]*x, m[3+i]*y
	}
	m[2] += x/2 - 0.5
	m[5] += y/2 - 0.5
	return m
}

// moved is m for a part of the picture whose first pixel is at.
func (m affine) moved(at image.Point) affine {
	m[2] -= float64(at.X)
	m[5] -= float64(at.Y)
	return m
}
