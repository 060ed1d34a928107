package blazepose

import (
	"math"
	"testing"
)

func TestStrokesHideWhatTheyCover(t *testing.T) {
	t.Parallel()
	const side = 200
	pix := make([]byte, 3*side*side)
	for y := range side {
		for x := range side {
			pix[3*(y*side+x)+x/(side/2)] = 200 // blue at the left, green at the right
		}
	}
	picture, roi := BGR(pix, side, side), ROI{Cx: 100, Cy: 100, Size: 150, Rotation: 0.4}
	s := newSampler(cropSide, 0, 1)
	s.cut(picture, roi)
	plain := append([]float32(nil), s.data...)
	s.cover(roi, []Stroke{{From: Point2{60, 90}, To: Point2{140, 110}, Thick: 16}})
	m, n := roi.cropToPicture(cropSide), cropSide*cropSide
	mean := [3]float64{}
	for i, v := range plain {
		mean[i/n] += float64(v) / float64(n)
	}
	for y := range cropSide {
		for x := range cropSide {
			p := m.apply(Point2{float64(x), float64(y)})
			along := min(max(((p.X-60)*80+(p.Y-90)*20)/6800, 0), 1)
			off := math.Hypot(p.X-60-80*along, p.Y-90-20*along)
			for i := range 3 {
				at := i*n + y*cropSide + x
				if off < 7.5 && math.Abs(float64(s.data[at])-mean[i]) > 1e-3 || off > 8.5 && s.data[at] != plain[at] {
					t.Fatalf("plane %d at (%d, %d), %.1f pixels from the stroke: %v, before %v, mean %v", i, x, y, off, s.data[at], plain[at], mean[i])
				}
			}
		}
	}
	s.cut(picture, roi)
	s.cover(roi, []Stroke{{From: Point2{-900, -900}, To: Point2{-800, -900}, Thick: 16}})
	for i, v := range s.data {
		if v != plain[i] {
			t.Fatal("a stroke outside of the region changed it")
		}
	}
}
