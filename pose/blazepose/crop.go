package blazepose

import (
	"image"
	"math"
)

// fit fills the planes with a region of the picture, in which it must lie, and says where it is there. The rest is black.
func (s *sampler) fit(p Picture, region image.Rectangle) letterbox {
	b := newLetterbox(region.Min.X, region.Min.Y, region.Dx(), region.Dy())
	s.clear()
	first := b.point(0, 0)
	s.fill(p, affine{b.sx, 0, first.X, 0, b.sy, first.Y}, region, image.Rect(b.left, b.top, b.left+b.width, b.top+b.height))
	return b
}

// cut fills the planes with the square roi of the picture. What lies beyond the picture repeats its edge.
func (s *sampler) cut(p Picture, roi ROI) {
	whole := image.Rectangle{Max: p.Size()}
	area := reach(roi, s.side, whole)
	if area.Empty() {
		area = whole
	}
	s.fill(p, roi.cropToPicture(s.side), area, image.Rect(0, 0, s.side, s.side))
}

// reach is the part of a picture that a crop of roi reads, with pixels to spare for interpolation. Its corner lies on even pixels, where
// there are colours.
func reach(roi ROI, side int, whole image.Rectangle) image.Rectangle {
	b := roi.Bounds()
	spare := 2*roi.Size/float64(side) + 2
	r := image.Rect(
		int(math.Floor(b.X-spare)), int(math.Floor(b.Y-spare)),
		int(math.Ceil(b.X+b.W+spare))+1, int(math.Ceil(b.Y+b.H+spare))+1,
	).Intersect(whole)
	r.Min.X, r.Min.Y = r.Min.X&^1, r.Min.Y&^1
	return r
}
