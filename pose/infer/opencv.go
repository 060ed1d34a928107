package infer

/*
#cgo CXXFLAGS: -std=c++11
#cgo !customenv pkg-config: opencv4
#include <stdlib.h>
#include "opencv.hpp"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// NewOpenCV returns the engine that is linked into the program: OpenCV's DNN module. It runs float32 models only,
// in the form that OpenCV 4.6 reads.
func NewOpenCV() Engine { return openCVEngine{} }

// SetOpenCVThreads sets how many threads OpenCV uses, for models and for pictures alike. OpenCV knows only one
// number for the whole process, and takes all cores by default.
func SetOpenCVThreads(n int) { C.pf_threads(C.int(max(n, 1))) }

type openCVEngine struct{}

func (openCVEngine) Name() string { return "opencv" }

func (openCVEngine) Version() string { return C.GoString(C.pf_version()) }

func (openCVEngine) Close() error { return nil }

// Load opens a model. Its number of threads becomes that of the whole process.
func (openCVEngine) Load(path string, o Options) (Session, error) {
	inputs, outputs, err := readHeader(path)
	if err != nil {
		return nil, err
	}
	for _, t := range append(append([]TensorInfo(nil), inputs...), outputs...) {
		if t.DType != Float32 {
			return nil, fmt.Errorf("%w: %s: OpenCV runs float32 models only, not %v", ErrModel, path, t)
		}
	}
	SetOpenCVThreads(o.threads())
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	s := &openCVSession{inputs: inputs, outputs: outputs, tensors: make([]Tensor, len(outputs))}
	if err := failure(C.pf_load(cpath, &s.net)); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrModel, path, err)
	}
	for _, t := range inputs {
		s.names = append(s.names, C.CString(t.Name))
	}
	for _, t := range outputs {
		name := C.CString(t.Name)
		err = errors.Join(err, failure(C.pf_output(s.net, name)))
		C.free(unsafe.Pointer(name))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// failure turns a message of the C side into an error and frees it.
func failure(msg *C.char) error {
	if msg == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(msg))
	return errors.New(C.GoString(msg))
}

// openCVSession owns the native network and the C strings with its input names.
type openCVSession struct {
	inputs, outputs []TensorInfo

	mu      sync.Mutex // serialises Run and Close
	net     *C.pf_net
	names   []*C.char
	tensors []Tensor
}

func (s *openCVSession) Inputs() []TensorInfo { return s.inputs }

func (s *openCVSession) Outputs() []TensorInfo { return s.outputs }

// Run implements Session.
func (s *openCVSession) Run(ctx context.Context, in []Tensor) ([]Tensor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.net == nil {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := checkInputs(s.inputs, in); err != nil {
		return nil, err
	}
	// The network reads the callers' slices during the run, so they must not move or be freed meanwhile.
	var pin runtime.Pinner
	defer pin.Unpin()
	for i, t := range in {
		if err := s.set(i, t, &pin); err != nil {
			return nil, fmt.Errorf("input %s: %w", s.inputs[i].Name, err)
		}
	}
	if err := failure(C.pf_run(s.net)); err != nil {
		return nil, fmt.Errorf("run model: %w", err)
	}
	for i := range s.outputs {
		if err := s.collect(i); err != nil {
			return nil, fmt.Errorf("output %s: %w", s.outputs[i].Name, err)
		}
	}
	return s.tensors, nil
}

// set hands input i to the network.
func (s *openCVSession) set(i int, t Tensor, pin *runtime.Pinner) error {
	if len(t.Shape) == 0 || len(t.F32) == 0 {
		return fmt.Errorf("%w: an empty tensor", ErrInput)
	}
	shape := make([]C.int32_t, len(t.Shape))
	for d, v := range t.Shape {
		shape[d] = C.int32_t(v)
	}
	pin.Pin(&t.F32[0])
	return failure(C.pf_set(s.net, s.names[i], (*C.float)(&t.F32[0]), &shape[0], C.int(len(shape))))
}

// collect copies output i into the session's tensor. OpenCV counts every matrix as two-dimensional at least, so the
// model's own shape is restored where it is known.
func (s *openCVSession) collect(i int) error {
	var dims [8]C.int32_t
	var n C.int
	data := C.pf_result(s.net, C.int(i), &dims[0], &n)
	if data == nil || n < 0 {
		return errors.New("no float32 result")
	}
	var shape []int64
	for _, d := range dims[:n] {
		shape = append(shape, int64(d))
	}
	count := elements(shape)
	if want := s.outputs[i].Shape; want != nil && elements(want) == count {
		shape = want
	}
	t := &s.tensors[i]
	t.Name, t.Shape = s.outputs[i].Name, shape
	t.F32 = append(t.F32[:0], unsafe.Slice((*float32)(data), count)...)
	return nil
}

// Close implements Session.
func (s *openCVSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.net == nil {
		return nil
	}
	C.pf_free(s.net)
	s.net = nil
	for _, name := range s.names {
		C.free(unsafe.Pointer(name))
	}
	s.names = nil
	return nil
}
