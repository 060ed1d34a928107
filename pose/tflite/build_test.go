package tflite_test

import (
	"encoding/binary"
	"math"
)

// fields is a FlatBuffers table for tests: values by field number. A value is uint8, int32, string, []byte, []int32,
// fields, or []fields.
type fields map[int]any

// flatWriter writes FlatBuffers front to back. Everything has four bytes or a length in front.
type flatWriter struct{ b []byte }

func (w *flatWriter) u32(v uint32) { w.b = binary.LittleEndian.AppendUint32(w.b, v) }

// put writes a value that is referred to by offset, and returns where it begins.
func (w *flatWriter) put(v any) int {
	switch v := v.(type) {
	case fields:
		return w.table(v)
	case []fields:
		return w.list(v)
	case string:
		return w.put([]byte(v))
	case []byte:
		at := len(w.b)
		w.u32(uint32(len(v)))
		w.b = append(w.b, v...)
		return at
	case []int32:
		at := len(w.b)
		w.u32(uint32(len(v)))
		for _, x := range v {
			w.u32(uint32(x))
		}
		return at
	}
	panic("type of value")
}

func (w *flatWriter) list(v []fields) int {
	at := len(w.b)
	w.u32(uint32(len(v)))
	slots := len(w.b)
	w.b = append(w.b, make([]byte, 4*len(v))...)
	for i, t := range v {
		slot := slots + 4*i
		child := w.table(t) // before w.b is taken: it grows
		binary.LittleEndian.PutUint32(w.b[slot:], uint32(child-slot))
	}
	return at
}

func (w *flatWriter) table(t fields) int {
	n := 0
	for i := range t {
		n = max(n, i+1)
	}
	vtable := len(w.b)
	w.b = binary.LittleEndian.AppendUint16(w.b, uint16(4+2*n))
	w.b = binary.LittleEndian.AppendUint16(w.b, uint16(4+4*n))
	for i := range n {
		offset := 0
		if _, ok := t[i]; ok {
			offset = 4 + 4*i
		}
		w.b = binary.LittleEndian.AppendUint16(w.b, uint16(offset))
	}
	at := len(w.b)
	w.u32(uint32(at - vtable))
	w.b = append(w.b, make([]byte, 4*n)...)
	for i := range n {
		slot := at + 4 + 4*i
		switch v := t[i].(type) {
		case nil:
		case uint8:
			w.b[slot] = v
		case int32:
			binary.LittleEndian.PutUint32(w.b[slot:], uint32(v))
		default:
			child := w.put(v)
			binary.LittleEndian.PutUint32(w.b[slot:], uint32(child-slot))
		}
	}
	return at
}

// net builds a TFLite file with one graph for tests.
type net struct {
	tensors, buffers, codes, ops []fields
	shapes                       [][]int32
	consts                       map[int32][]float32
}

func newNet() *net { return &net{buffers: []fields{{}}, consts: map[int32][]float32{}} }

// tensor adds an activation and returns its number.
func (n *net) tensor(name string, shape ...int32) int32 {
	n.tensors = append(n.tensors, fields{0: shape, 1: uint8(0), 2: int32(0), 3: name})
	n.shapes = append(n.shapes, shape)
	return int32(len(n.tensors) - 1)
}

// raw adds a constant with the given element type and bytes.
func (n *net) raw(dtype uint8, data []byte, shape ...int32) int32 {
	i := n.tensor("const", shape...)
	n.tensors[i][1] = dtype
	n.tensors[i][2] = int32(len(n.buffers))
	n.buffers = append(n.buffers, fields{0: data})
	return i
}

// constant adds a float32 constant.
func (n *net) constant(v []float32, shape ...int32) int32 {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	i := n.raw(0, b, shape...)
	n.consts[i] = v
	return i
}

// ints adds an int32 constant.
func (n *net) ints(v []int32, shape ...int32) int32 {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return n.raw(2, b, shape...)
}

// op adds an operator.
func (n *net) op(code int32, options fields, out int32, in ...int32) {
	n.codes = append(n.codes, fields{0: uint8(min(code, 127)), 3: code})
	o := fields{0: int32(len(n.codes) - 1), 1: in, 2: []int32{out}}
	if options != nil {
		o[3], o[4] = uint8(1), options
	}
	n.ops = append(n.ops, o)
}

// file is the finished file.
func (n *net) file(inputs, outputs []int32) []byte {
	graph := fields{0: n.tensors, 1: inputs, 2: outputs, 3: n.ops}
	w := &flatWriter{b: []byte{0, 0, 0, 0, 'T', 'F', 'L', '3'}}
	root := w.table(fields{0: int32(3), 1: n.codes, 2: []fields{graph}, 4: n.buffers})
	binary.LittleEndian.PutUint32(w.b, uint32(root))
	return w.b
}
