package blazepose

/*
#cgo CFLAGS: -std=c11 -O3
#include "sample.h"
*/
import "C"

import (
	"image"
	"math"
	"unsafe"
)

// sampler cuts turned and scaled squares out of pictures, as the float planes that a model reads. It owns the planes and work buffers.
type sampler struct {
	side int
	// low is what black becomes, gain the factor of a level of 255.
	low, gain float32
	data      []float32 // red, green, blue
	small     []byte
	spans     []C.pf_span
	sums      []uint16
	columns   []uint32
}

// newSampler makes planes of side×side pixels whose values go from low (black) to high.
func newSampler(side int, low, high float32) *sampler {
	return &sampler{side: side, low: low, gain: (high - low) / 255, data: make([]float32, 3*side*side)}
}

// clear makes all pixels black.
func (s *sampler) clear() {
	for i := range s.data {
		s.data[i] = s.low
	}
}

const (
	// shrinkFrom is the number of samples per pixel of a crop from which they are averaged before the crop is turned: interpolation looks at
	// four samples only, and would pick noise out of larger squares.
	shrinkFrom = 2.0
	mostShrink = 255
)

// fill writes the block out of the planes: its pixel (x, y) shows the place in the picture that m leads to from there. Nothing outside of
// the area of the picture is read: what lies beyond repeats its edge.
func (s *sampler) fill(p Picture, m affine, area, out image.Rectangle) {
	for i := range p.planes {
		s.fillPlane(&p.planes[i], m, area, i, out)
	}
	if p.colours == nil {
		for i := range 3 {
			C.pf_scale(s.at(i, out), C.int32_t(out.Dx()), C.int32_t(out.Dy()), C.int32_t(s.side), C.float(s.low), C.float(s.gain))
		}
		return
	}
	C.pf_colours(s.at(0, out), s.at(1, out), s.at(2, out), C.int32_t(out.Dx()), C.int32_t(out.Dy()), C.int32_t(s.side),
		(*C.float)(&p.colours[0]), C.float(s.low), C.float(s.gain))
}

// at is the first value of a block of one of the planes.
func (s *sampler) at(plane int, out image.Rectangle) *C.float {
	return (*C.float)(unsafe.Pointer(&s.data[(plane*s.side+out.Min.Y)*s.side+out.Min.X]))
}

// fillPlane samples one plane of the picture.
func (s *sampler) fillPlane(p *plane, m affine, area image.Rectangle, into int, out image.Rectangle) {
	m, area = m.scaled(1/float64(p.part), 1/float64(p.part)), p.area(area)
	factor := min(math.Hypot(m[0], m[3]), mostShrink)
	if factor < shrinkFrom {
		s.sample(p, m.moved(area.Min), area, into, out)
		return
	}
	w, h := max(int(math.Round(float64(area.Dx())/factor)), 1), max(int(math.Round(float64(area.Dy())/factor)), 1)
	small := s.shrink(p, area, w, h)
	m = m.moved(area.Min).scaled(float64(w)/float64(area.Dx()), float64(h)/float64(area.Dy()))
	s.sample(&small, m, image.Rect(0, 0, w, h), into, out)
}

// shrink averages an area down to a size.
func (s *sampler) shrink(p *plane, area image.Rectangle, w, h int) plane {
	s.small, s.spans = grown(s.small, w*h), grown(s.spans, w)
	s.sums, s.columns = grown(s.sums, area.Dx()), grown(s.columns, area.Dx())
	C.pf_shrink(p.first(area), p.native(area), (*C.uint8_t)(&s.small[0]), C.int32_t(w), C.int32_t(h),
		&s.spans[0], (*C.uint16_t)(&s.sums[0]), (*C.uint32_t)(&s.columns[0]))
	return plane{pix: s.small, width: w, height: h, stride: w, step: 1, part: 1}
}

// sample takes the block from an area; m leads to places relative to it.
func (s *sampler) sample(p *plane, m affine, area image.Rectangle, into int, out image.Rectangle) {
	// The first pixel of the block is not that of the square.
	m[2] += m[0]*float64(out.Min.X) + m[1]*float64(out.Min.Y)
	m[5] += m[3]*float64(out.Min.X) + m[4]*float64(out.Min.Y)
	C.pf_sample(p.first(area), p.native(area), (*C.double)(&m[0]), s.at(into, out),
		C.int32_t(out.Dx()), C.int32_t(out.Dy()), C.int32_t(s.side))
}

// first is the first sample of an area.
func (p *plane) first(area image.Rectangle) *C.uint8_t {
	return (*C.uint8_t)(&p.pix[area.Min.Y*p.stride+area.Min.X*p.step])
}

// native describes an area as a plane of its own.
func (p *plane) native(area image.Rectangle) C.pf_plane {
	return C.pf_plane{
		width: C.int32_t(area.Dx()), height: C.int32_t(area.Dy()), stride: C.int32_t(p.stride), step: C.int32_t(p.step),
	}
}

func grown[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}
