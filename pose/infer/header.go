package infer

import (
	"fmt"
	"os"
	"syscall"

	"github.com/posefleet/posefleet/pose/onnx"
)

// readHeader describes the inputs and outputs of the file at path. The file is mapped, not read: of a large model
// only the few pages with the structure are touched.
func readHeader(path string) (inputs, outputs []TensorInfo, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	if !st.Mode().IsRegular() || st.Size() == 0 || st.Size() > maxModelBytes {
		return nil, nil, fmt.Errorf("%w: %s: %d bytes", ErrModel, path, st.Size())
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrModel, path, err)
	}
	defer func() { _ = syscall.Munmap(b) }()
	h, err := onnx.ReadHeader(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %s: %w", ErrModel, path, err)
	}
	if inputs, err = describe(h.Inputs); err == nil {
		outputs, err = describe(h.Outputs)
	}
	if err == nil && len(inputs) == 0 {
		err = fmt.Errorf("%w: it has no inputs", ErrModel)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return inputs, outputs, nil
}

// maxModelBytes is the largest model file, the limit of the file format.
const maxModelBytes = 2 << 30

// describe converts what the file says about inputs or outputs.
func describe(values []onnx.Value) ([]TensorInfo, error) {
	types := map[onnx.DType]DType{onnx.Float32: Float32, onnx.Int32: Int32, onnx.Uint8: Uint8, onnx.Int64: Int64}
	out := make([]TensorInfo, len(values))
	for i, v := range values {
		t, ok := types[v.DType]
		if !ok {
			return nil, fmt.Errorf("%w: %s has elements of type %d, which is not supported", ErrModel, v.Name, v.DType)
		}
		out[i] = TensorInfo{Name: v.Name, DType: t, Shape: v.Shape}
	}
	return out, nil
}
