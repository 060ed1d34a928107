package infer

import (
	"errors"
	"fmt"
	"slices"

	ort "github.com/yalue/onnxruntime_go"
)

// port is a native tensor over memory of ours, of one type and shape.
type port interface {
	value() ort.Value
	// fits says whether the port has this type and shape.
	fits(t DType, shape []int64) bool
	// fill copies a tensor's data into the port.
	fill(Tensor)
	// tensor is a view of the port's data.
	tensor() Tensor
	destroy() error
}

// bind makes *p a port of the given type and shape, and keeps the one that is there when it fits.
func bind(p *port, t DType, shape []int64) error {
	if *p != nil && (*p).fits(t, shape) {
		return nil
	}
	if *p != nil {
		err := (*p).destroy()
		if *p = nil; err != nil {
			return err
		}
	}
	var err error
	switch t {
	case Float32:
		*p, err = newPort(t, shape, func(x *Tensor) *[]float32 { return &x.F32 })
	case Int32:
		*p, err = newPort(t, shape, func(x *Tensor) *[]int32 { return &x.I32 })
	case Uint8:
		*p, err = newPort(t, shape, func(x *Tensor) *[]uint8 { return &x.U8 })
	case Int64:
		*p, err = newPort(t, shape, func(x *Tensor) *[]int64 { return &x.I64 })
	default:
		err = fmt.Errorf("elements of type %v are not supported", t)
	}
	return err
}

// typedPort is the port for elements of type T. field is where a Tensor keeps them.
type typedPort[T ort.TensorData] struct {
	dtype  DType
	shape  []int64
	native *ort.Tensor[T]
	field  func(*Tensor) *[]T
}

func newPort[T ort.TensorData](t DType, shape []int64, field func(*Tensor) *[]T) (port, error) {
	native, err := ort.NewEmptyTensor[T](ort.NewShape(shape...))
	if err != nil {
		return nil, err
	}
	return &typedPort[T]{dtype: t, shape: slices.Clone(shape), native: native, field: field}, nil
}

func (p *typedPort[T]) value() ort.Value { return p.native }

func (p *typedPort[T]) fits(t DType, shape []int64) bool {
	return p.dtype == t && slices.Equal(p.shape, shape)
}

func (p *typedPort[T]) fill(t Tensor) { copy(p.native.GetData(), *p.field(&t)) }

func (p *typedPort[T]) tensor() Tensor {
	t := Tensor{Shape: p.shape}
	*p.field(&t) = p.native.GetData()
	return t
}

func (p *typedPort[T]) destroy() error { return p.native.Destroy() }

// copyValue copies a tensor that the library allocated into t, whose memory is reused.
func copyValue(t *Tensor, v ort.Value) error {
	shape := []int64(v.GetShape())
	old := *t
	*t = Tensor{Shape: slices.Clone(shape)}
	switch x := v.(type) {
	case *ort.Tensor[float32]:
		t.F32 = refill(old.F32, x.GetData())
	case *ort.Tensor[int32]:
		t.I32 = refill(old.I32, x.GetData())
	case *ort.Tensor[uint8]:
		t.U8 = refill(old.U8, x.GetData())
	case *ort.Tensor[int64]:
		t.I64 = refill(old.I64, x.GetData())
	default:
		return errors.New("its type is not supported")
	}
	return nil
}

// refill copies src into the memory of old. The result is never nil, so that an empty tensor keeps its type.
func refill[T any](old, src []T) []T {
	if old == nil {
		old = []T{}
	}
	return append(old[:0], src...)
}
