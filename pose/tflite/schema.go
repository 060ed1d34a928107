package tflite

import (
	"errors"
	"fmt"
	"math"
)

// Limits on what a file may claim. The largest pose model has 27 MiB, about 1,000 tensors and 500 operators.
const (
	// MaxModelBytes is the largest file that is read.
	MaxModelBytes = 256 << 20
	// MaxWeights is the largest number of float32 weights of a model, all of them together.
	MaxWeights = 32 << 20

	maxTensors   = 1 << 16
	maxOperators = 1 << 16
	maxArity     = 256
	maxRank      = 8
	maxName      = 1 << 12
	maxDim       = 1 << 24
)

// Element types of tensors, by their number in the file.
const (
	typeFloat32 = 0
	typeFloat16 = 1
	typeInt32   = 2
)

// model is the part of a TFLite file that a conversion needs.
type model struct {
	tensors         []tensor
	operators       []operator
	inputs, outputs []int
}

// tensor is an activation, or, with data, a constant.
type tensor struct {
	name   string
	dtype  uint8
	shape  []int
	data   []byte
	sparse *sparsity
}

// operator is one node. absent inputs are -1.
type operator struct {
	code            int
	inputs, outputs []int
	options         table
}

// sparsity says how a constant's values were packed: dimensions (the tensor's and then those of its blocks) in
// the order in which they were walked, each dense or compressed.
type sparsity struct {
	order    []int
	blockMap []int
	dims     []sparseDim
}

// sparseDim is one walked dimension: its size when dense, else which indices each parent has (compressed rows).
type sparseDim struct {
	size              int
	segments, indices []int
	compressed        bool
}

// parse reads a file.
func parse(file []byte) (*model, error) {
	if len(file) > MaxModelBytes {
		return nil, fmt.Errorf("file of %d bytes is over the limit of %d", len(file), MaxModelBytes)
	}
	if len(file) < 8 || string(file[4:8]) != "TFL3" {
		return nil, errors.New("not a TensorFlow Lite file")
	}
	f := &flat{b: file}
	root := f.root()
	codes := parseCodes(root)
	graphs := root.vec(2, 4, 1)
	if f.err != nil || graphs.n != 1 {
		return nil, fmt.Errorf("no single graph: %w", errMalformed)
	}
	g := graphs.table(0)
	m := &model{
		inputs:  g.vec(1, 4, maxArity).ints(),
		outputs: g.vec(2, 4, maxArity).ints(),
	}
	m.tensors = parseTensors(g.vec(0, 4, maxTensors), root.vec(4, 4, maxTensors))
	m.operators = parseOperators(g.vec(3, 4, maxOperators), codes)
	if f.err != nil {
		return nil, f.err
	}
	return m, m.check()
}

// parseCodes reads the list of operator kinds. Old files have them in a byte, new ones in an int beside it.
func parseCodes(root table) []int {
	v := root.vec(1, 4, maxOperators)
	codes := make([]int, v.n)
	for i := range codes {
		t := v.table(i)
		codes[i] = max(int(int8(t.u8(0, 0))), int(t.i32(3, 0)))
	}
	return codes
}

func parseTensors(v, buffers vector) []tensor {
	tensors := make([]tensor, 0, v.n)
	for i := range v.n {
		if v.f.err != nil {
			return nil
		}
		t := v.table(i)
		x := tensor{name: t.str(3), dtype: t.u8(1, typeFloat32), shape: t.vec(0, 4, maxRank).ints()}
		if b := int(uint32(t.i32(2, 0))); b > 0 && b < buffers.n {
			x.data = buffers.table(b).data(0)
		}
		if s, ok := t.sub(6); ok {
			x.sparse = parseSparsity(s)
		}
		tensors = append(tensors, x)
	}
	return tensors
}

func parseSparsity(t table) *sparsity {
	s := &sparsity{order: t.vec(0, 4, 2*maxRank).ints(), blockMap: t.vec(1, 4, maxRank).ints()}
	dims := t.vec(2, 4, 2*maxRank)
	for i := range dims.n {
		d := dims.table(i)
		x := sparseDim{compressed: d.u8(0, 0) == 1, size: int(d.i32(1, 0))}
		if x.compressed {
			x.segments = parseIndices(d, 2)
			x.indices = parseIndices(d, 4)
		}
		s.dims = append(s.dims, x)
	}
	return s
}

// parseIndices reads a union whose kind is field i and whose value is field i+1: numbers of 32, 16 or 8 bits.
func parseIndices(d table, i int) []int {
	v, ok := d.sub(i + 1)
	if !ok {
		return nil
	}
	switch d.u8(i, 0) {
	case 1:
		return v.vec(0, 4, math.MaxInt32).ints()
	case 2:
		return v.vec(0, 2, math.MaxInt32).ints16()
	case 3:
		return v.vec(0, 1, math.MaxInt32).ints8()
	}
	return nil
}

func parseOperators(v vector, codes []int) []operator {
	ops := make([]operator, 0, v.n)
	for i := range v.n {
		if v.f.err != nil {
			return nil
		}
		t := v.table(i)
		kind := int(uint32(t.i32(0, 0)))
		if kind >= len(codes) {
			v.f.err = errMalformed
			return nil
		}
		op := operator{code: codes[kind], inputs: t.vec(1, 4, maxArity).ints(), outputs: t.vec(2, 4, maxArity).ints()}
		op.options, _ = t.sub(4)
		ops = append(ops, op)
	}
	return ops
}

// check holds all indices and shapes to their ranges, so that the conversion need not.
func (m *model) check() error {
	for i, t := range m.tensors {
		for _, d := range t.shape {
			if d < 0 || d > maxDim {
				return fmt.Errorf("tensor %d (%q): dimension %d: %w", i, t.name, d, errMalformed)
			}
		}
		if elements(t.shape) < 0 {
			return fmt.Errorf("tensor %d (%q): shape %v is too large", i, t.name, t.shape)
		}
	}
	lists := [][]int{m.inputs, m.outputs}
	for _, op := range m.operators {
		lists = append(lists, op.outputs)
		for _, in := range op.inputs {
			if in < -1 || in >= len(m.tensors) {
				return fmt.Errorf("operator %s: input %d: %w", opName(op.code), in, errMalformed)
			}
		}
	}
	for _, list := range lists {
		for _, i := range list {
			if i < 0 || i >= len(m.tensors) {
				return fmt.Errorf("tensor %d of %d: %w", i, len(m.tensors), errMalformed)
			}
		}
	}
	return nil
}

// elements is the number of elements of a shape, -1 when it is over the limit on weights.
func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		if n *= d; n > MaxWeights {
			return -1
		}
	}
	return n
}
