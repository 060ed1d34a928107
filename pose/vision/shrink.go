package vision

import (
	"image"
	"math"
)

// shrinker resizes parts of pictures. It owns work buffers.
type shrinker struct {
	rows   []float32 // one source row, resized in width, as sums
	sums   []float32
	across []span
}

// span is the part of a line of source pixels that one pixel of the result covers, or for a larger result the two pixels it lies
// between.
type span struct {
	from, to    int     // source pixels [from, to)
	first, last float32 // weights of the pixels at both ends; those between have weight 1
	whole       float32 // sum of the weights
}

// spans divides n source pixels among m. Pixels of the result that are larger than those of the source take the mean of what they cover,
// so that thin limbs do not vanish; smaller ones are interpolated.
func spans(dst []span, n, m int) []span {
	dst = dst[:0]
	step := float64(n) / float64(m)
	for i := range m {
		if step >= 1 {
			dst = append(dst, covered(float64(i)*step, float64(i+1)*step, n))
		} else {
			dst = append(dst, between((float64(i)+0.5)*step-0.5, n))
		}
	}
	return dst
}

func covered(lo, hi float64, n int) span {
	from, to := int(lo), min(int(math.Ceil(hi)), n)
	s := span{from: from, to: to, first: float32(float64(from+1) - lo), last: float32(hi - float64(to-1)), whole: float32(hi - lo)}
	if to-from == 1 {
		s.first, s.last, s.whole = 1, 1, 1
	}
	return s
}

func between(at float64, n int) span {
	at = min(max(at, 0), float64(n-1))
	from := min(int(at), max(n-2, 0))
	f := float32(at - float64(from))
	if n == 1 {
		return span{from: 0, to: 1, first: 1, last: 1, whole: 1}
	}
	return span{from: from, to: from + 2, first: 1 - f, last: f, whole: 1}
}

// weight is that of source pixel i of the span.
func (s span) weight(i int) float32 {
	switch i {
	case s.from:
		return s.first
	case s.to - 1:
		return s.last
	}
	return 1
}

// resize writes the area of p as width×height pixels into dst, whose rows are stride bytes apart.
func (s *shrinker) resize(p Picture, area image.Rectangle, dst []byte, stride, width, height int) {
	s.across = spans(s.across, area.Dx(), width)
	s.rows = grow(s.rows, 3*width)
	s.sums = grow(s.sums, 3*width)
	step := float64(area.Dy()) / float64(height)
	for y := range height {
		var down span
		if step >= 1 {
			down = covered(float64(y)*step, float64(y+1)*step, area.Dy())
		} else {
			down = between((float64(y)+0.5)*step-0.5, area.Dy())
		}
		clear(s.sums)
		for i := down.from; i < down.to; i++ {
			at := 3 * ((area.Min.Y+i)*p.Width + area.Min.X)
			s.row(p.Pix[at:at+3*area.Dx()], down.weight(i)/down.whole)
		}
		out := dst[y*stride : y*stride+3*width]
		for x, v := range s.sums {
			out[x] = byte(v + 0.5)
		}
	}
}

// row adds a source row, resized in width and weighted, to the sums.
func (s *shrinker) row(src []byte, weight float32) {
	for x, c := range s.across {
		px := src[3*c.from : 3*c.to]
		b, g, r := c.first*float32(px[0]), c.first*float32(px[1]), c.first*float32(px[2])
		n := len(px)
		for i := 3; i < n-3; i += 3 {
			b += float32(px[i])
			g += float32(px[i+1])
			r += float32(px[i+2])
		}
		if n > 3 {
			b += c.last * float32(px[n-3])
			g += c.last * float32(px[n-2])
			r += c.last * float32(px[n-1])
		}
		f := weight / c.whole
		s.sums[3*x] += f * b
		s.sums[3*x+1] += f * g
		s.sums[3*x+2] += f * r
	}
}

func grow(b []float32, n int) []float32 {
	if cap(b) < n {
		return make([]float32, n)
	}
	return b[:n]
}
