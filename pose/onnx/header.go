package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Header is what a file says about its inputs and outputs.
type Header struct {
	Producer string
	Opset    int64
	// Inputs are what a caller must hand in: constants that older files list among the inputs are left out.
	Inputs, Outputs []Value
}

// errMalformed is what every read outside of a message comes to.
var errMalformed = errors.New("malformed ONNX file")

// maxRank bounds the number of dimensions that a file may claim for an input or output.
const maxRank = 32

// ReadHeader reads the header of a file. Whatever the bytes, it returns a header or an error, and allocates little.
func ReadHeader(file []byte) (Header, error) {
	var h Header
	var graph []byte
	err := fields(file, func(n uint64, v uint64, b []byte) error {
		switch n {
		case modelProducer:
			h.Producer = string(b)
		case modelGraph:
			graph = b
		case modelOpset:
			return h.readOpset(b)
		}
		return nil
	})
	if err == nil {
		err = h.readGraph(graph)
	}
	if err == nil && len(h.Outputs) == 0 {
		err = fmt.Errorf("%w: no graph with outputs", errMalformed)
	}
	if err != nil {
		return Header{}, fmt.Errorf("read ONNX header: %w", err)
	}
	return h, nil
}

// readOpset keeps the version of the default operator set, which has no domain.
func (h *Header) readOpset(b []byte) error {
	var version int64
	other := false
	err := fields(b, func(n uint64, v uint64, domain []byte) error {
		switch n {
		case 1:
			other = len(domain) > 0 && string(domain) != "ai.onnx"
		case opsetVersion:
			version = int64(v)
		}
		return nil
	})
	if !other {
		h.Opset = version
	}
	return err
}

func (h *Header) readGraph(b []byte) error {
	constants := map[string]bool{}
	err := fields(b, func(n uint64, _ uint64, b []byte) error {
		var err error
		switch n {
		case graphInit:
			var name string
			name, err = tensorNameOf(b)
			constants[name] = true
		case graphInput:
			h.Inputs, err = appendValue(h.Inputs, b)
		case graphOutput:
			h.Outputs, err = appendValue(h.Outputs, b)
		}
		return err
	})
	kept := h.Inputs[:0]
	for _, v := range h.Inputs {
		if !constants[v.Name] {
			kept = append(kept, v)
		}
	}
	h.Inputs = kept
	return err
}

func tensorNameOf(b []byte) (name string, err error) {
	err = fields(b, func(n uint64, _ uint64, b []byte) error {
		if n == tensorName {
			name = string(b)
		}
		return nil
	})
	return name, err
}

func appendValue(list []Value, b []byte) ([]Value, error) {
	var v Value
	err := fields(b, func(n uint64, _ uint64, b []byte) error {
		switch n {
		case valueName:
			v.Name = string(b)
		case valueType:
			return fields(b, func(n uint64, _ uint64, b []byte) error {
				if n == typeTensor {
					return v.readTensorType(b)
				}
				return nil
			})
		}
		return nil
	})
	return append(list, v), err
}

func (v *Value) readTensorType(b []byte) error {
	return fields(b, func(n uint64, x uint64, b []byte) error {
		switch n {
		case tensorElem:
			v.DType = DType(x)
		case tensorShape:
			return v.readShape(b)
		}
		return nil
	})
}

func (v *Value) readShape(b []byte) error {
	v.Shape = []int64{}
	return fields(b, func(n uint64, _ uint64, b []byte) error {
		if n != shapeDim {
			return nil
		}
		if len(v.Shape) == maxRank {
			return errMalformed
		}
		size := int64(-1)
		err := fields(b, func(n uint64, x uint64, _ []byte) error {
			if n == dimValue {
				size = max(int64(x), -1)
			}
			return nil
		})
		v.Shape = append(v.Shape, size)
		return err
	})
}

// fields calls fn for each field of a message with the field's number and its value: v of a varint, b of a
// length-delimited field. Fields of fixed size are skipped.
func fields(msg []byte, fn func(n, v uint64, b []byte) error) error {
	for len(msg) > 0 {
		tag, size := binary.Uvarint(msg)
		if size <= 0 {
			return errMalformed
		}
		msg = msg[size:]
		var v uint64
		var b []byte
		var skip int
		switch tag & 7 {
		case wireVarint:
			if v, skip = binary.Uvarint(msg); skip <= 0 {
				return errMalformed
			}
		case wireBytes:
			n, size := binary.Uvarint(msg)
			if size <= 0 || n > uint64(len(msg)-size) {
				return errMalformed
			}
			b, skip = msg[size:size+int(n)], size+int(n)
		case wireFixed32:
			skip = 4
		case wireFixed64:
			skip = 8
		default:
			return errMalformed
		}
		if skip > len(msg) {
			return errMalformed
		}
		msg = msg[skip:]
		if err := fn(tag>>3, v, b); err != nil {
			return err
		}
	}
	return nil
}
