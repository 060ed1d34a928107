package tflite_test

import "math"

// picture is a tensor N=1 in TFLite's order: row, column, channel.
type picture struct {
	h, w, c int
	v       []float32
}

func newPicture(h, w, c int) picture { return picture{h, w, c, make([]float32, h*w*c)} }

func (p picture) at(y, x, c int) *float32 { return &p.v[(y*p.w+x)*p.c+c] }

// planar is the same in the order of the converted models.
func (p picture) planar() []float32 {
	out := make([]float32, 0, len(p.v))
	for c := range p.c {
		for y := range p.h {
			for x := range p.w {
				out = append(out, *p.at(y, x, c))
			}
		}
	}
	return out
}

func (p picture) each(f func(float32) float32) picture {
	for i, v := range p.v {
		p.v[i] = f(v)
	}
	return p
}

// padded adds zeros: above, below, left, right, and channels behind.
func (p picture) padded(top, bottom, left, right, channels int) picture {
	out := newPicture(p.h+top+bottom, p.w+left+right, p.c+channels)
	for y := range p.h {
		for x := range p.w {
			for c := range p.c {
				*out.at(y+top, x+left, c) = *p.at(y, x, c)
			}
		}
	}
	return out
}

// sameMargins is what SAME means along one side.
func sameMargins(size, kernel, stride int) (before, after int) {
	out := (size + stride - 1) / stride
	need := max((out-1)*stride+kernel-size, 0)
	return need / 2, need - need/2
}

// same pads for a window.
func (p picture) same(k, stride int) picture {
	t, b := sameMargins(p.h, k, stride)
	l, r := sameMargins(p.w, k, stride)
	return p.padded(t, b, l, r, 0)
}

// conv is a VALID convolution with weights OHWI.
func (p picture) conv(weights, bias []float32, outC, k, stride int) picture {
	out := newPicture((p.h-k)/stride+1, (p.w-k)/stride+1, outC)
	for y := range out.h {
		for x := range out.w {
			for o := range outC {
				sum := bias[o]
				for dy := range k {
					for dx := range k {
						for c := range p.c {
							sum += *p.at(y*stride+dy, x*stride+dx, c) * weights[((o*k+dy)*k+dx)*p.c+c]
						}
					}
				}
				*out.at(y, x, o) = sum
			}
		}
	}
	return out
}

// depthwise is a VALID depthwise convolution with weights 1HWC.
func (p picture) depthwise(weights, bias []float32, k, stride int) picture {
	out := newPicture((p.h-k)/stride+1, (p.w-k)/stride+1, p.c)
	for y := range out.h {
		for x := range out.w {
			for c := range p.c {
				sum := bias[c]
				for dy := range k {
					for dx := range k {
						sum += *p.at(y*stride+dy, x*stride+dx, c) * weights[(dy*k+dx)*p.c+c]
					}
				}
				*out.at(y, x, c) = sum
			}
		}
	}
	return out
}

// maxPool is a VALID maximum.
func (p picture) maxPool(k, stride int) picture {
	out := newPicture((p.h-k)/stride+1, (p.w-k)/stride+1, p.c)
	for y := range out.h {
		for x := range out.w {
			for c := range p.c {
				best := float32(math.Inf(-1))
				for dy := range k {
					for dx := range k {
						best = max(best, *p.at(y*stride+dy, x*stride+dx, c))
					}
				}
				*out.at(y, x, c) = best
			}
		}
	}
	return out
}

// doubled resizes by 2 with bilinear interpolation between pixel centres.
func (p picture) doubled() picture {
	out := newPicture(2*p.h, 2*p.w, p.c)
	split := func(i, size int) (low, high int, f float32) {
		s := max((float64(i)+0.5)/2-0.5, 0)
		low = int(s)
		return low, min(low+1, size-1), float32(s - float64(low))
	}
	for y := range out.h {
		y0, y1, fy := split(y, p.h)
		for x := range out.w {
			x0, x1, fx := split(x, p.w)
			for c := range p.c {
				top := *p.at(y0, x0, c)*(1-fx) + *p.at(y0, x1, c)*fx
				bottom := *p.at(y1, x0, c)*(1-fx) + *p.at(y1, x1, c)*fx
				*out.at(y, x, c) = top*(1-fy) + bottom*fy
			}
		}
	}
	return out
}

// depthToSpace spreads channels over blocks of b×b pixels.
func (p picture) depthToSpace(b int) picture {
	out := newPicture(p.h*b, p.w*b, p.c/(b*b))
	for y := range out.h {
		for x := range out.w {
			for c := range out.c {
				*out.at(y, x, c) = *p.at(y/b, x/b, (y%b*b+x%b)*out.c+c)
			}
		}
	}
	return out
}

func add(a, b picture) picture {
	out := newPicture(a.h, a.w, a.c)
	for i := range out.v {
		out.v[i] = a.v[i] + b.v[i]
	}
	return out
}

// joined puts the channels of b behind those of a.
func joined(a, b picture) picture {
	out := newPicture(a.h, a.w, a.c+b.c)
	for y := range a.h {
		for x := range a.w {
			for c := range a.c {
				*out.at(y, x, c) = *a.at(y, x, c)
			}
			for c := range b.c {
				*out.at(y, x, a.c+c) = *b.at(y, x, c)
			}
		}
	}
	return out
}

func relu(v float32) float32 { return max(v, 0) }

func relu6(v float32) float32 { return min(max(v, 0), 6) }

func logistic(v float32) float32 { return float32(1 / (1 + math.Exp(-float64(v)))) }
