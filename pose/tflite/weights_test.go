package tflite

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHalfToFloat(t *testing.T) {
	t.Parallel()
	for i := range 1 << 16 {
		h := uint16(i)
		sign, exp, frac := 1.0, int(h>>10)&0x1f, float64(h&0x3ff)
		if h>>15 == 1 {
			sign = -1
		}
		want := sign * (1 + frac/1024) * math.Pow(2, float64(exp-15))
		switch {
		case exp == 0:
			want = sign * frac / 1024 * math.Pow(2, -14)
		case exp == 31 && frac == 0:
			want = math.Inf(int(sign))
		case exp == 31:
			if got := halfToFloat(h); !math.IsNaN(float64(got)) {
				t.Fatalf("%04x is %v, want NaN", h, got)
			}
			continue
		}
		if got := halfToFloat(h); float64(got) != want || math.Signbit(float64(got)) != (sign < 0) {
			t.Fatalf("%04x is %v, want %v", h, got, want)
		}
	}
}

// pack stores a dense matrix in sparse form: rows dense, blocks of 1×block columns compressed. It is the inverse of
// densify, for one of the layouts that files have.
func pack(dense []float32, rows, columns, block int) ([]float32, *sparsity) {
	var values []float32
	segments, indices := []int{0}, []int{}
	for r := range rows {
		for c := 0; c < columns; c += block {
			if b := dense[r*columns+c : r*columns+c+block]; slices.ContainsFunc(b, func(v float32) bool { return v != 0 }) {
				indices = append(indices, c/block)
				values = append(values, b...)
			}
		}
		segments = append(segments, len(indices))
	}
	s := &sparsity{
		order: []int{0, 1},
		dims:  []sparseDim{{size: rows}, {compressed: true, segments: segments, indices: indices}},
	}
	if block > 1 {
		s.order, s.blockMap, s.dims = []int{0, 1, 2}, []int{1}, append(s.dims, sparseDim{size: block})
	}
	return values, s
}

func TestDensifyIsTheInverseOfPacking(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rows, blocks, block := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "blocks"), rapid.IntRange(1, 3).Draw(t, "block")
		columns := blocks * block
		dense := make([]float32, rows*columns)
		for i := range dense {
			if rapid.Bool().Draw(t, "set") {
				dense[i] = float32(i + 1)
			}
		}
		values, s := pack(dense, rows, columns, block)
		got, err := densify(values, []int{rows, columns}, s)
		if err != nil || !slices.Equal(got, dense) {
			t.Fatalf("got %v (%v), want %v", got, err, dense)
		}
	})
}

func TestDensifyRefusesNonsense(t *testing.T) {
	t.Parallel()
	good := func() *sparsity {
		_, s := pack([]float32{0, 1, 2, 0}, 2, 2, 1)
		return s
	}
	for name, spoil := range map[string]func(s *sparsity){
		"too few dimensions":    func(s *sparsity) { s.dims = s.dims[:1] },
		"order twice the same":  func(s *sparsity) { s.order[1] = 0 },
		"order out of range":    func(s *sparsity) { s.order[1] = 2 },
		"dense size":            func(s *sparsity) { s.dims[0].size = 1 << 20 },
		"segments too short":    func(s *sparsity) { s.dims[1].segments = s.dims[1].segments[:2] },
		"segments fall":         func(s *sparsity) { s.dims[1].segments = []int{0, 2, 1} },
		"segments restart":      func(s *sparsity) { s.dims[1].segments = []int{1, 2, 2}; s.dims[1].segments[0] = -1 },
		"segments past the end": func(s *sparsity) { s.dims[1].segments = []int{0, 1, 9} },
		"index out of range":    func(s *sparsity) { s.dims[1].indices[0] = 2 },
		"negative index":        func(s *sparsity) { s.dims[1].indices[0] = -1 },
		"block of nothing": func(s *sparsity) {
			s.blockMap, s.order, s.dims = []int{5}, []int{0, 1, 2}, append(s.dims, sparseDim{size: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good()
			spoil(s)
			if got, err := densify([]float32{1, 2}, []int{2, 2}, s); err == nil {
				t.Errorf("got %v", got)
			}
		})
	}
	if _, err := densify([]float32{1}, []int{2, 2}, good()); err == nil {
		t.Error("a value is missing, and nobody noticed")
	}
}

func TestSamePads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                    string
		size, kernel, stride    int
		dilation, before, after int
	}{
		{"odd kernel", 8, 3, 1, 1, 1, 1},
		{"stride 2, even size", 8, 3, 2, 1, 0, 1},
		{"stride 2, odd size", 7, 3, 2, 1, 1, 1},
		{"kernel 5", 8, 5, 2, 1, 1, 2},
		{"dilated", 8, 3, 1, 2, 2, 2},
		{"window smaller than stride", 8, 1, 2, 1, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			two := func(v int) [2]int { return [2]int{v, v} }
			w := window{kernel: two(c.kernel), stride: two(c.stride), dilation: two(c.dilation), same: true}
			before, after := w.pads(two(c.size))
			if before != two(c.before) || after != two(c.after) {
				t.Errorf("got %v and %v", before, after)
			}
		})
	}
}
