package onnx

import (
	"encoding/binary"
	"math"
)

// irVersion is the version of the file format: the one of ONNX 1.6, which introduced operator set 11.
const irVersion = 6

// Field numbers of the format's messages (onnx.proto), as far as they are written or read here.
const (
	modelIR, modelProducer, modelGraph, modelOpset                           = 1, 2, 7, 8
	opsetVersion                                                             = 2
	graphNode, graphName, graphInit, graphInput, graphOutput                 = 1, 2, 5, 11, 12
	nodeInput, nodeOutput, nodeName, nodeOp, nodeAttr                        = 1, 2, 3, 4, 5
	attrName, attrFloat, attrInt, attrString, attrFloats, attrInts, attrKind = 1, 2, 3, 4, 7, 8, 20
	tensorDims, tensorType, tensorName, tensorRaw                            = 1, 2, 8, 9
	valueName, valueType                                                     = 1, 2
	typeTensor                                                               = 1
	tensorElem, tensorShape                                                  = 1, 2
	shapeDim                                                                 = 1
	dimValue, dimParam                                                       = 1, 2
)

// Protocol buffer wire types.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// message is a protocol buffer message that is being written.
type message []byte

// Encode returns the file.
func (m Model) Encode() []byte {
	var b message
	b.varint(modelIR, irVersion)
	b.text(modelProducer, m.Producer)
	b.nested(modelGraph, m.Graph.encode())
	var opset message
	opset.varint(opsetVersion, uint64(m.Opset))
	b.nested(modelOpset, opset)
	return b
}

func (g Graph) encode() message {
	b := make(message, 0, g.sizeHint())
	for _, n := range g.Nodes {
		b.nested(graphNode, n.encode())
	}
	b.text(graphName, g.Name)
	for _, t := range g.Initializers {
		t.encodeTo(&b)
	}
	for _, v := range g.Inputs {
		b.nested(graphInput, v.encode())
	}
	for _, v := range g.Outputs {
		b.nested(graphOutput, v.encode())
	}
	return b
}

// sizeHint is about the encoded size, so that the weights are not copied again and again while the file grows.
func (g Graph) sizeHint() int {
	n := 256*len(g.Nodes) + 4096
	for _, t := range g.Initializers {
		n += 4*len(t.F32) + 8*len(t.I64) + 4*len(t.I32) + len(t.U8) + 128
	}
	return n
}

func (n Node) encode() message {
	var b message
	for _, s := range n.Inputs {
		b.text(nodeInput, s)
	}
	for _, s := range n.Outputs {
		b.text(nodeOutput, s)
	}
	if len(n.Outputs) > 0 {
		b.text(nodeName, n.Op+"_"+n.Outputs[0])
	}
	b.text(nodeOp, n.Op)
	for _, a := range n.Attrs {
		b.nested(nodeAttr, a.encode())
	}
	return b
}

func (a Attr) encode() message {
	var b message
	b.text(attrName, a.name)
	switch a.kind {
	case kindFloat:
		b.float(attrFloat, a.real)
	case kindInt:
		b.varint(attrInt, uint64(a.number))
	case kindString:
		b.text(attrString, a.text)
	case kindFloats:
		for _, v := range a.floats {
			b.float(attrFloats, v)
		}
	case kindInts:
		for _, v := range a.ints {
			b.varint(attrInts, uint64(v))
		}
	}
	b.varint(attrKind, a.kind)
	return b
}

// encodeTo appends the tensor as an initializer of the graph. Its raw data is written once, without a copy.
func (t Tensor) encodeTo(g *message) {
	var b message
	for _, d := range t.Shape {
		b.varint(tensorDims, uint64(d))
	}
	dtype, size := t.layout()
	b.varint(tensorType, uint64(dtype))
	b.text(tensorName, t.Name)
	b.tag(tensorRaw, wireBytes)
	b = binary.AppendUvarint(b, uint64(size))

	g.tag(graphInit, wireBytes)
	*g = binary.AppendUvarint(*g, uint64(len(b)+size))
	*g = append(*g, b...)
	*g = t.appendRaw(*g)
}

// layout is the element type and the number of bytes of the data.
func (t Tensor) layout() (DType, int) {
	switch {
	case t.I64 != nil:
		return Int64, 8 * len(t.I64)
	case t.I32 != nil:
		return Int32, 4 * len(t.I32)
	case t.U8 != nil:
		return Uint8, len(t.U8)
	}
	return Float32, 4 * len(t.F32)
}

func (t Tensor) appendRaw(b message) message {
	for _, v := range t.F32 {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	for _, v := range t.I64 {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	for _, v := range t.I32 {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return append(b, t.U8...)
}

func (v Value) encode() message {
	var tensor message
	tensor.varint(tensorElem, uint64(v.DType))
	if v.Shape != nil {
		var shape message
		for _, d := range v.Shape {
			var dim message
			if d < 0 {
				dim.text(dimParam, "N")
			} else {
				dim.varint(dimValue, uint64(d))
			}
			shape.nested(shapeDim, dim)
		}
		tensor.nested(tensorShape, shape)
	}
	var kind message
	kind.nested(typeTensor, tensor)
	var b message
	b.text(valueName, v.Name)
	b.nested(valueType, kind)
	return b
}

func (b *message) tag(field, wire uint64) { *b = binary.AppendUvarint(*b, field<<3|wire) }

func (b *message) varint(field, v uint64) {
	b.tag(field, wireVarint)
	*b = binary.AppendUvarint(*b, v)
}

func (b *message) float(field uint64, v float32) {
	b.tag(field, wireFixed32)
	*b = binary.LittleEndian.AppendUint32(*b, math.Float32bits(v))
}

func (b *message) text(field uint64, s string) {
	b.tag(field, wireBytes)
	*b = binary.AppendUvarint(*b, uint64(len(s)))
	*b = append(*b, s...)
}

func (b *message) nested(field uint64, m message) {
	b.tag(field, wireBytes)
	*b = binary.AppendUvarint(*b, uint64(len(m)))
	*b = append(*b, m...)
}
