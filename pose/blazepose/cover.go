package blazepose

import "math"

// Stroke is a straight line with round ends, in pixels of the picture, that covers a part of it.
type Stroke struct {
	From, To Point2
	// Thick is the whole width.
	Thick float64
}

// cover paints over what strokes cover in the square that shows roi, in its mean colour.
func (s *sampler) cover(roi ROI, strokes []Stroke) {
	if len(strokes) == 0 {
		return
	}
	area := s.side * s.side
	var mean [3]float32
	for i := range mean {
		for _, v := range s.data[i*area : (i+1)*area] {
			mean[i] += v / float32(area)
		}
	}
	for _, k := range strokes {
		from, to := roi.pictureToCrop(s.side, k.From), roi.pictureToCrop(s.side, k.To)
		s.stroke(from, to, k.Thick/2*float64(s.side)/roi.Size, mean)
	}
}

// stroke paints one line; all is in pixels of the square.
func (s *sampler) stroke(from, to Point2, radius float64, paint [3]float32) {
	area, dx, dy := s.side*s.side, to.X-from.X, to.Y-from.Y
	length := dx*dx + dy*dy
	within := func(low, high float64) (int, int) {
		return int(math.Ceil(max(0, low-radius))), int(math.Floor(min(float64(s.side-1), high+radius)))
	}
	top, bottom := within(min(from.Y, to.Y), max(from.Y, to.Y))
	left, right := within(min(from.X, to.X), max(from.X, to.X))
	for y := top; y <= bottom; y++ {
		for x := left; x <= right; x++ {
			px, py, along := float64(x)-from.X, float64(y)-from.Y, 0.0
			if length > 0 {
				along = min(max((px*dx+py*dy)/length, 0), 1)
			}
			if math.Hypot(px-along*dx, py-along*dy) > radius {
				continue
			}
			for i, v := range paint {
				s.data[i*area+y*s.side+x] = v
			}
		}
	}
}

// pictureToCrop maps a place of the picture to a crop of side×side pixels.
func (r ROI) pictureToCrop(side int, p Point2) Point2 {
	f, sin, cos := float64(side)/r.Size, math.Sin(r.Rotation), math.Cos(r.Rotation)
	x, y, half := p.X-r.Cx, p.Y-r.Cy, float64(side-1)/2
	return Point2{f*(cos*x+sin*y) + half, f*(cos*y-sin*x) + half}
}
