package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Engine loads models.
type Engine interface {
	// Load opens the ONNX file at path. The caller must Close the session.
	Load(path string, o Options) (Session, error)
	// Name is the engine's name: onnxruntime or opencv.
	Name() string
	// Version is the library's version.
	Version() string
	// Close gives back what the engine holds. Sessions must be closed first.
	Close() error
}

// Session is one loaded model.
type Session interface {
	// Inputs and Outputs describe what goes in and comes out, in the order of Run.
	Inputs() []TensorInfo
	Outputs() []TensorInfo
	// Run computes the outputs, in order, from one tensor per input, in order; names in the tensors are ignored.
	// The result is valid until the next Run or Close. A run that has begun is not interrupted by ctx: it takes
	// milliseconds.
	Run(ctx context.Context, in []Tensor) ([]Tensor, error)
	// Close frees the native memory. A second call does nothing.
	Close() error
}

// Options say how a session computes.
type Options struct {
	// Threads is the number of threads of one run, at least 1; 0 means 1. The same number gives the same bits.
	Threads int
}

func (o Options) threads() int { return max(o.Threads, 1) }

// DType is the type of a tensor's elements.
type DType uint8

// Element types. The zero DType is none of them.
const (
	Float32 DType = iota + 1
	Int32
	Uint8
	Int64
)

// String returns f32, i32, u8 or i64.
func (d DType) String() string {
	names := [...]string{Float32: "f32", Int32: "i32", Uint8: "u8", Int64: "i64"}
	if int(d) < len(names) && d > 0 {
		return names[d]
	}
	return fmt.Sprintf("DType(%d)", uint8(d))
}

// TensorInfo describes an input or output of a model.
type TensorInfo struct {
	Name  string
	DType DType
	// Shape holds the sizes, -1 for one that is free. Nil when the model does not say.
	Shape []int64
}

// String is for messages: input_1 f32[1 3 256 256].
func (t TensorInfo) String() string { return fmt.Sprintf("%s %s%v", t.Name, t.DType, t.Shape) }

// accepts says whether a tensor fits the description.
func (t TensorInfo) accepts(x Tensor) bool {
	if x.DType() != t.DType || x.Len() != elements(x.Shape) {
		return false
	}
	return t.Shape == nil || slices.EqualFunc(t.Shape, x.Shape, func(want, have int64) bool {
		return want == have || want < 0 && have > 0
	})
}

// Tensor is a block of numbers with a shape, in row-major order. Exactly one of the data slices is set, and has as
// many elements as the shape says.
type Tensor struct {
	Name  string
	Shape []int64
	F32   []float32
	I32   []int32
	U8    []uint8
	I64   []int64
}

// DType is the type of the data that is set; 0 when there is none.
func (t Tensor) DType() DType {
	switch {
	case t.F32 != nil:
		return Float32
	case t.I32 != nil:
		return Int32
	case t.U8 != nil:
		return Uint8
	case t.I64 != nil:
		return Int64
	}
	return 0
}

// Len is the number of elements of the data.
func (t Tensor) Len() int { return max(len(t.F32), len(t.I32), len(t.U8), len(t.I64)) }

// Faults of callers and of files.
var (
	// ErrClosed is returned by a session after Close.
	ErrClosed = errors.New("session is closed")
	// ErrInput says that the tensors handed to Run do not fit the model.
	ErrInput = errors.New("input does not fit the model")
	// ErrModel says that a file is not a model that the engine can run.
	ErrModel = errors.New("model cannot be loaded")
)

// elements is the number of elements of a shape; -1 when a size is free or the number is absurd.
func elements(shape []int64) int {
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > maxElements {
			return -1
		}
		if n *= d; n > maxElements {
			return -1
		}
	}
	return int(n)
}

// maxElements bounds a tensor: 1 GiB of float32.
const maxElements = 1 << 28

// checkInputs compares the tensors of a run with the model's inputs.
func checkInputs(want []TensorInfo, have []Tensor) error {
	if len(want) != len(have) {
		return fmt.Errorf("%w: %d tensors for %d inputs", ErrInput, len(have), len(want))
	}
	for i, w := range want {
		if !w.accepts(have[i]) {
			return fmt.Errorf("%w: %v given %s%v with %d elements", ErrInput, w, have[i].DType(), have[i].Shape, have[i].Len())
		}
	}
	return nil
}
