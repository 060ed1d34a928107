package blazepose

import "math"

// The landmark model's geometry: a square crop in, 39 points out, of which 33 are of the body and two say where to
// look next; the rest is not used.
const (
	cropSide       = 256
	modelPoints    = 39
	valuesPerPoint = 5
	nextCentre     = 33
	nextRim        = 34
	usedPoints     = 35
)

// decodePoints reads the raw points (39 × x, y, z, visibility, presence in crop pixels and logits) into p, still in
// crop pixels.
func decodePoints(p *[usedPoints]Point, raw []float32) {
	for i := range p {
		v := raw[i*valuesPerPoint : (i+1)*valuesPerPoint]
		p[i] = Point{
			X: float64(v[0]), Y: float64(v[1]), Z: float64(v[2]),
			Visibility: sigmoid(float64(v[3])), Presence: sigmoid(float64(v[4])),
		}
	}
}

// toPicture moves points from the crop of roi to the picture, and depth to the same scale.
func toPicture(points []Point, roi ROI) {
	m, scale := roi.cropToPicture(cropSide), roi.Size/cropSide
	for i := range points {
		p := &points[i]
		q := m.apply(Point2{p.X, p.Y})
		p.X, p.Y, p.Z = q.X, q.Y, p.Z*scale
	}
}

// decodeWorld reads the points in metres and turns them back by the rotation of the crop.
func decodeWorld(out *[NumPoints]Point3, raw []float32, rotation float64) {
	sin, cos := math.Sincos(rotation)
	for i := range out {
		x, y, z := float64(raw[3*i]), float64(raw[3*i+1]), float64(raw[3*i+2])
		out[i] = Point3{X: cos*x - sin*y, Y: sin*x + cos*y, Z: z}
	}
}

// finite says whether all coordinates are numbers within reason.
func finite(points []Point) bool {
	for _, p := range points {
		// Written so that NaN fails too.
		if !(math.Abs(p.X) < maxCoordinate && math.Abs(p.Y) < maxCoordinate && math.Abs(p.Z) < maxCoordinate) {
			return false
		}
	}
	return true
}
