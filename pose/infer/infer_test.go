package infer_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/onnx"
)

func openORT(t testing.TB) infer.Engine {
	t.Helper()
	e, err := infer.NewORT(filepath.Join(need.Assets(t), assets.RuntimeFile))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// engines are both engines.
func engines(t testing.TB) []infer.Engine {
	t.Helper()
	return []infer.Engine{openORT(t), infer.NewOpenCV()}
}

// write stores a model in a file.
func write(t testing.TB, g onnx.Graph) string {
	t.Helper()
	g.Name = "g"
	path := filepath.Join(t.TempDir(), "model.onnx")
	b := onnx.Model{Producer: "test", Opset: 11, Graph: g}.Encode()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rectifier is y = max(x, 0) with a fixed shape: a model that both engines run.
func rectifier(t testing.TB) string {
	t.Helper()
	shape := []int64{1, 2, 2, 2}
	return write(t, onnx.Graph{
		Nodes:   []onnx.Node{{Op: "Relu", Inputs: []string{"x"}, Outputs: []string{"y"}}},
		Inputs:  []onnx.Value{{Name: "x", DType: onnx.Float32, Shape: shape}},
		Outputs: []onnx.Value{{Name: "y", DType: onnx.Float32, Shape: shape}},
	})
}

func load(t testing.TB, e infer.Engine, path string) infer.Session {
	t.Helper()
	s, err := e.Load(path, infer.Options{})
	if err != nil {
		t.Fatalf("%s: %v", e.Name(), err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestRun(t *testing.T) {
	t.Parallel()
	path := rectifier(t)
	for _, e := range engines(t) {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			s := load(t, e, path)
			info := []infer.TensorInfo{{Name: "x", DType: infer.Float32, Shape: []int64{1, 2, 2, 2}}}
			if d := cmp.Diff(info, s.Inputs()); d != "" {
				t.Error(d)
			}
			for _, sign := range []float32{1, -1} { // twice: buffers are reused
				in := []float32{1, -2, 3, -4, 5, -6, 7, -8}
				want := make([]float32, len(in))
				for i := range in {
					in[i] *= sign
					want[i] = max(in[i], 0)
				}
				out, err := s.Run(t.Context(), []infer.Tensor{{Shape: []int64{1, 2, 2, 2}, F32: in}})
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff([]infer.Tensor{{Name: "y", Shape: []int64{1, 2, 2, 2}, F32: want}}, out); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	path := rectifier(t)
	cancelled, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("the job is over")
	cancel(reason)
	good := infer.Tensor{Shape: []int64{1, 2, 2, 2}, F32: make([]float32, 8)}
	for _, e := range engines(t) {
		for _, c := range []struct {
			name string
			ctx  context.Context
			in   []infer.Tensor
			want error
		}{
			{"no input", t.Context(), nil, infer.ErrInput},
			{"two inputs", t.Context(), []infer.Tensor{good, good}, infer.ErrInput},
			{"wrong type", t.Context(), []infer.Tensor{{Shape: good.Shape, I32: make([]int32, 8)}}, infer.ErrInput},
			{"wrong shape", t.Context(), []infer.Tensor{{Shape: []int64{1, 2, 4, 1}, F32: good.F32}}, infer.ErrInput},
			{"too little data", t.Context(), []infer.Tensor{{Shape: good.Shape, F32: good.F32[:7]}}, infer.ErrInput},
			{"no data", t.Context(), []infer.Tensor{{Shape: good.Shape}}, infer.ErrInput},
			{"cancelled", cancelled, []infer.Tensor{good}, reason},
		} {
			t.Run(e.Name()+" "+c.name, func(t *testing.T) {
				t.Parallel()
				if _, err := load(t, e, path).Run(c.ctx, c.in); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			})
		}
	}
}

func TestClosedSession(t *testing.T) {
	t.Parallel()
	path := rectifier(t)
	for _, e := range engines(t) {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			s := load(t, e, path)
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Run(t.Context(), []infer.Tensor{{Shape: []int64{1, 2, 2, 2}, F32: make([]float32, 8)}}); !errors.Is(err, infer.ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.onnx")
	if err := os.WriteFile(text, []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	unknown := write(t, onnx.Graph{
		Nodes:   []onnx.Node{{Op: "NoSuchOperator", Inputs: []string{"x"}, Outputs: []string{"y"}}},
		Inputs:  []onnx.Value{{Name: "x", DType: onnx.Float32, Shape: []int64{1}}},
		Outputs: []onnx.Value{{Name: "y", DType: onnx.Float32, Shape: []int64{1}}},
	})
	for _, e := range engines(t) {
		for name, path := range map[string]string{
			"absent": filepath.Join(dir, "absent.onnx"), "a folder": dir, "text": text, "unknown operator": unknown,
		} {
			t.Run(e.Name()+" "+name, func(t *testing.T) {
				t.Parallel()
				s, err := e.Load(path, infer.Options{})
				if !errors.Is(err, infer.ErrModel) {
					t.Errorf("got %v, %v", s, err)
				}
			})
		}
	}
}

// Models of other families take whole numbers and have free sizes; ONNX Runtime must carry those too.
func TestOtherTypesAndFreeSizes(t *testing.T) {
	t.Parallel()
	e := openORT(t)
	cast := func(in, out onnx.DType) string {
		return write(t, onnx.Graph{
			Nodes:   []onnx.Node{{Op: "Cast", Inputs: []string{"x"}, Outputs: []string{"y"}, Attrs: []onnx.Attr{onnx.Int("to", int64(out))}}},
			Inputs:  []onnx.Value{{Name: "x", DType: in, Shape: []int64{-1, 2}}},
			Outputs: []onnx.Value{{Name: "y", DType: out, Shape: []int64{-1, 2}}},
		})
	}
	for _, c := range []struct {
		name     string
		path     string
		in, want infer.Tensor
	}{
		{"u8 to i32", cast(onnx.Uint8, onnx.Int32), infer.Tensor{U8: []uint8{1, 2, 3, 255}}, infer.Tensor{I32: []int32{1, 2, 3, 255}}},
		{"i32 to f32", cast(onnx.Int32, onnx.Float32), infer.Tensor{I32: []int32{-1, 2}}, infer.Tensor{F32: []float32{-1, 2}}},
		{"f32 to i64", cast(onnx.Float32, onnx.Int64), infer.Tensor{F32: []float32{-1, 2, 3, 4, 5, 6}}, infer.Tensor{I64: []int64{-1, 2, 3, 4, 5, 6}}},
		{"i64 to u8", cast(onnx.Int64, onnx.Uint8), infer.Tensor{I64: []int64{7, 8}}, infer.Tensor{U8: []uint8{7, 8}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := load(t, e, c.path)
			for rows := int64(c.in.Len() / 2); rows > 0; rows-- { // other sizes in one session
				in, want := c.in, c.want
				in.Shape, want.Shape, want.Name = []int64{rows, 2}, []int64{rows, 2}, "y"
				cut(&in, rows*2)
				cut(&want, rows*2)
				out, err := s.Run(t.Context(), []infer.Tensor{in})
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff([]infer.Tensor{want}, out); d != "" {
					t.Error(d)
				}
			}
		})
	}
}

// cut keeps the first n elements.
func cut(t *infer.Tensor, n int64) {
	t.F32, t.I32 = t.F32[:min(int(n), len(t.F32))], t.I32[:min(int(n), len(t.I32))]
	t.U8, t.I64 = t.U8[:min(int(n), len(t.U8))], t.I64[:min(int(n), len(t.I64))]
}

func TestLibrary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "lib.so")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	openORT(t)
	for _, c := range []struct {
		name, path string
		missing    bool
	}{
		{"absent", filepath.Join(dir, "absent.so"), true},
		{"relative", "libonnxruntime.so.1", false},
		{"a folder", dir, false},
		{"another library than the one in use", text, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := infer.NewORT(c.path)
			lib, ok := errors.AsType[*infer.LibraryError](err)
			if !ok || lib.Path != c.path || errors.Is(err, infer.ErrLibraryMissing) != c.missing {
				t.Errorf("got %v", err)
			}
		})
	}
}

// tolerance is the largest difference of the two engines' outputs that is allowed, in the units of the output: pixels
// of 256, probabilities and logits, metres. Measured: 0.004.
const tolerance = 0.02

func TestEnginesAgree(t *testing.T) {
	t.Parallel()
	dir := need.Assets(t)
	list := engines(t)
	for _, model := range []string{assets.Detector, assets.LandmarkLite, assets.LandmarkFull} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			var results [][]infer.Tensor
			for _, e := range list {
				s := load(t, e, filepath.Join(dir, assets.ModelFile(model, e.Name() == "opencv")))
				out, err := s.Run(t.Context(), []infer.Tensor{noise(s.Inputs()[0])})
				if err != nil {
					t.Fatal(err)
				}
				results = append(results, out)
			}
			for i, a := range results[0] {
				b := results[1][i]
				if d := cmp.Diff(a.Shape, b.Shape); d != "" || a.Name != b.Name || len(a.F32) != len(b.F32) {
					t.Fatalf("%s and %s: %s", a.Name, b.Name, d)
				}
				worst := 0.0
				for k := range a.F32 {
					worst = max(worst, math.Abs(float64(a.F32[k]-b.F32[k])))
				}
				if !(worst <= tolerance) {
					t.Errorf("%s differs by %v", a.Name, worst)
				}
			}
		})
	}
}

// noise is a reproducible input.
func noise(info infer.TensorInfo) infer.Tensor {
	n := int64(1)
	for _, d := range info.Shape {
		n *= d
	}
	r := rand.New(rand.NewPCG(1, 2))
	t := infer.Tensor{Shape: info.Shape, F32: make([]float32, n)}
	for i := range t.F32 {
		t.F32[i] = r.Float32()
	}
	return t
}

func TestRunsAreRepeatable(t *testing.T) {
	t.Parallel()
	s := load(t, openORT(t), filepath.Join(need.Assets(t), assets.ModelFile(assets.LandmarkLite, false)))
	in := []infer.Tensor{noise(s.Inputs()[0])}
	var first []float32
	for range 3 {
		out, err := s.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = append(first, out[0].F32...)
		}
		if d := cmp.Diff(first, out[0].F32); d != "" {
			t.Fatal(d)
		}
	}
}
