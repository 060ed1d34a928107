package onnx_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/posefleet/posefleet/pose/onnx"
)

// tiny is y = x + w, with a free first dimension, and w listed as older files do.
func tiny() onnx.Model {
	return onnx.Model{
		Producer: "test", Opset: 11,
		Graph: onnx.Graph{
			Name: "g",
			Nodes: []onnx.Node{{
				Op: "Add", Inputs: []string{"x", "w"}, Outputs: []string{"y"},
				Attrs: []onnx.Attr{
					onnx.Int("i", -1), onnx.Ints("is", 1, 2), onnx.Float("f", 0.5), onnx.Floats("fs", 1, 2), onnx.String("s", "a"),
				},
			}},
			Initializers: []onnx.Tensor{
				{Name: "w", Shape: []int64{2}, F32: []float32{1, 2}},
				{Name: "b", Shape: []int64{1}, I64: []int64{-3}},
				{Name: "c", Shape: []int64{1}, I32: []int32{-3}},
				{Name: "d", Shape: []int64{3}, U8: []byte{1, 2, 3}},
			},
			Inputs: []onnx.Value{
				{Name: "x", DType: onnx.Float32, Shape: []int64{-1, 2}},
				{Name: "w", DType: onnx.Float32, Shape: []int64{2}},
				{Name: "i", DType: onnx.Int32, Shape: []int64{}},
			},
			Outputs: []onnx.Value{{Name: "y", DType: onnx.Uint8}},
		},
	}
}

func TestHeaderOfEncoded(t *testing.T) {
	t.Parallel()
	got, err := onnx.ReadHeader(tiny().Encode())
	if err != nil {
		t.Fatal(err)
	}
	want := onnx.Header{
		Producer: "test", Opset: 11,
		Inputs: []onnx.Value{
			{Name: "x", DType: onnx.Float32, Shape: []int64{-1, 2}},
			{Name: "i", DType: onnx.Int32, Shape: []int64{}},
		},
		Outputs: []onnx.Value{{Name: "y", DType: onnx.Uint8}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestEncodeIsDeterministic(t *testing.T) {
	t.Parallel()
	if !bytes.Equal(tiny().Encode(), tiny().Encode()) {
		t.Error("two encodings of one model differ")
	}
}

func TestHeaderOfBrokenFiles(t *testing.T) {
	t.Parallel()
	whole := tiny().Encode()
	for name, b := range map[string][]byte{
		"empty":       {},
		"text":        []byte("this is not a model"),
		"no graph":    onnx.Model{Opset: 11}.Encode(),
		"cut":         whole[:len(whole)-20],
		"huge length": {0x3a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if h, err := onnx.ReadHeader(b); err == nil {
				t.Errorf("read %+v", h)
			}
		})
	}
}

func FuzzReadHeader(f *testing.F) {
	whole := tiny().Encode()
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := onnx.ReadHeader(b)
		if err == nil && len(h.Outputs) == 0 {
			t.Error("a header without outputs and without an error")
		}
	})
}
