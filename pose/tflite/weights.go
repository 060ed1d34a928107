package tflite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// decodeFloats turns the bytes of a constant of the given type into n float32.
func decodeFloats(data []byte, dtype uint8, n int) ([]float32, error) {
	var size int
	switch dtype {
	case typeFloat32:
		size = 4
	case typeFloat16:
		size = 2
	default:
		return nil, fmt.Errorf("constant of type %d is not a float", dtype)
	}
	if len(data) != n*size {
		return nil, fmt.Errorf("constant has %d bytes, want %d: %w", len(data), n*size, errMalformed)
	}
	out := make([]float32, n)
	for i := range out {
		if size == 4 {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		} else {
			out[i] = halfToFloat(binary.LittleEndian.Uint16(data[2*i:]))
		}
	}
	return out, nil
}

// halfToFloat widens an IEEE 754 half-precision number; exact.
func halfToFloat(h uint16) float32 {
	sign := uint32(h>>15) << 31
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h) & 0x3ff
	switch exp {
	case 0:
		// Zero and the numbers too small to be normal: a fraction of 2^-24.
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// errSparse is returned for sparsity data that contradicts itself or the shape.
var errSparse = errors.New("malformed sparse constant")

// densify unpacks the stored values of a sparse constant of the given shape.
func densify(values []float32, shape []int, s *sparsity) ([]float32, error) {
	u := unpacker{values: values, s: s, shape: shape, index: make([]int, len(shape)+len(s.blockMap))}
	if err := u.check(); err != nil {
		return nil, err
	}
	u.dense = make([]float32, elements(shape))
	if err := u.walk(0, 0); err != nil {
		return nil, err
	}
	return u.dense, nil
}

// unpacker walks a sparse constant. Dimensions are walked in the order of s.order; dimension len(shape)+k is
// inside the blocks of dimension s.blockMap[k].
type unpacker struct {
	values, dense []float32
	s             *sparsity
	shape         []int
	// block is the block size per dimension of the shape, 1 where there are no blocks.
	block []int
	// index is the current position, per dimension of the shape and then of the blocks.
	index []int
}

// check compares the description with the shape, so that the walk is bounded by the number of elements.
func (u *unpacker) check() error {
	rank, total := len(u.shape), len(u.index)
	if len(u.s.order) != total || len(u.s.dims) != total {
		return errSparse
	}
	u.block = make([]int, rank)
	for i := range u.block {
		u.block[i] = 1
	}
	seen := make([]bool, total)
	for i, d := range u.s.order {
		if d < 0 || d >= total || seen[d] {
			return errSparse
		}
		seen[d] = true
		if d < rank {
			continue
		}
		of := u.s.blockMap[d-rank]
		if of < 0 || of >= rank || u.block[of] != 1 || u.s.dims[i].compressed || u.s.dims[i].size < 1 {
			return errSparse
		}
		u.block[of] = u.s.dims[i].size
	}
	for i, d := range u.s.order {
		if d < rank && (u.shape[d]%u.block[d] != 0 || !u.s.dims[i].compressed && u.s.dims[i].size != u.shape[d]/u.block[d]) {
			return errSparse
		}
	}
	return nil
}

// walk visits dimension level of the order under the parent with the given number.
func (u *unpacker) walk(level, parent int) error {
	if level == len(u.s.order) {
		return u.put(parent)
	}
	d, dim := u.s.order[level], u.s.dims[level]
	if !dim.compressed {
		for i := range dim.size {
			u.index[d] = i
			if err := u.walk(level+1, parent*dim.size+i); err != nil {
				return err
			}
		}
		return nil
	}
	if parent+1 >= len(dim.segments) {
		return errSparse
	}
	from, to := dim.segments[parent], dim.segments[parent+1]
	// Equal or rising segments make the visits of all parents together no more than there are indices.
	if from < 0 || to < from || to > len(dim.indices) || parent > 0 && from < dim.segments[parent-1] {
		return errSparse
	}
	for i := from; i < to; i++ {
		if u.index[d] = dim.indices[i]; u.index[d] < 0 || u.index[d] >= u.shape[d]/u.block[d] {
			return errSparse
		}
		if err := u.walk(level+1, i); err != nil {
			return err
		}
	}
	return nil
}

// put stores value number n at the current position.
func (u *unpacker) put(n int) error {
	if n >= len(u.values) {
		return errSparse
	}
	at := 0
	for d, size := range u.shape {
		i := u.index[d] * u.block[d]
		for k, of := range u.s.blockMap {
			if of == d {
				i += u.index[len(u.shape)+k]
			}
		}
		at = at*size + i
	}
	u.dense[at] = u.values[n]
	return nil
}
