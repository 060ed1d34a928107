package tflite_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/tflite"
)

// Operator numbers of the format.
const (
	codeAdd, codeConcat, codeConv, codeDepthwise, codeDepthToSpace = 0, 2, 3, 4, 5
	codeDequantize, codeLogistic, codeMaxPool, codeMul             = 6, 14, 17, 18
	codeRelu, codeReshape, codeResize, codePad, codeDensify        = 19, 22, 23, 34, 124
	padSame, padValid                                              = uint8(0), uint8(1)
	actNone, actRelu, actRelu6                                     = uint8(0), uint8(1), uint8(3)
)

// random makes reproducible numbers between -1 and 1.
func random(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]float32, n)
	for i := range out {
		out[i] = 2*r.Float32() - 1
	}
	return out
}

func convOptions(pad uint8, stride int32, act uint8) fields {
	return fields{0: pad, 1: stride, 2: stride, 3: act}
}

// testCase is a network and what it must compute from its input.
type testCase struct {
	name string
	in   picture
	// build adds operators behind tensor 0 and returns the output tensor and the values it must have.
	build func(n *net, in picture) (int32, []float32)
}

func cases() []testCase {
	return []testCase{
		{"conv same stride 2 relu6", picture{5, 6, 3, random(1, 90)}, func(n *net, in picture) (int32, []float32) {
			w, b := random(2, 4*3*3*3), random(3, 4)
			out := n.tensor("out", 1, 3, 3, 4)
			n.op(codeConv, convOptions(padSame, 2, actRelu6), out, 0, n.constant(w, 4, 3, 3, 3), n.constant(b, 4))
			return out, in.same(3, 2).conv(w, b, 4, 3, 2).each(relu6).planar()
		}},
		{"pad folded into two convolutions", picture{4, 4, 2, random(4, 32)}, func(n *net, in picture) (int32, []float32) {
			w, d, zero := random(5, 2*3*3*2), random(6, 3*3*2), []float32{0, 0}
			padded, a, b, out := n.tensor("p", 1, 7, 6, 2), n.tensor("a", 1, 5, 4, 2), n.tensor("b", 1, 5, 4, 2), n.tensor("out", 1, 5, 4, 2)
			n.op(codePad, nil, padded, 0, n.ints([]int32{0, 0, 2, 1, 1, 1, 0, 0}, 4, 2))
			n.op(codeConv, convOptions(padValid, 1, actNone), a, padded, n.constant(w, 2, 3, 3, 2), n.constant(zero, 2))
			n.op(codeDepthwise, fields{0: padValid, 1: int32(1), 2: int32(1), 3: int32(1), 4: actRelu}, b, padded, n.constant(d, 1, 3, 3, 2), n.constant(zero, 2))
			n.op(codeAdd, fields{0: actNone}, out, a, b)
			p := in.padded(2, 1, 1, 1, 0)
			return out, add(p.conv(w, zero, 2, 3, 1), p.depthwise(d, zero, 3, 1).each(relu)).planar()
		}},
		{"pool and pad of channels", picture{4, 5, 2, random(7, 40)}, func(n *net, in picture) (int32, []float32) {
			pooled, out := n.tensor("p", 1, 2, 3, 2), n.tensor("out", 1, 2, 3, 3)
			n.op(codeMaxPool, fields{0: padSame, 1: int32(2), 2: int32(2), 3: int32(2), 4: int32(2)}, pooled, 0)
			n.op(codePad, nil, out, pooled, n.ints([]int32{0, 0, 0, 0, 0, 0, 0, 1}, 4, 2))
			shifted := in.each(func(v float32) float32 { return v + 2 }) // positive, so that the reference may pad with 0
			return out, shifted.same(2, 2).maxPool(2, 2).padded(0, 0, 0, 0, 1).planar()
		}},
		{"resize", picture{3, 4, 2, random(8, 24)}, func(n *net, in picture) (int32, []float32) {
			out := n.tensor("out", 1, 6, 8, 2)
			n.op(codeResize, fields{3: uint8(1)}, out, 0, n.ints([]int32{6, 8}, 2))
			return out, in.doubled().planar()
		}},
		{"depth to space", picture{2, 3, 8, random(9, 48)}, func(n *net, in picture) (int32, []float32) {
			out := n.tensor("out", 1, 4, 6, 2)
			n.op(codeDepthToSpace, fields{0: int32(2)}, out, 0)
			return out, in.depthToSpace(2).planar()
		}},
		{"reshape to rows", picture{2, 3, 4, random(10, 24)}, func(n *net, in picture) (int32, []float32) {
			out := n.tensor("out", 1, 12, 2)
			n.op(codeReshape, nil, out, 0)
			return out, in.v
		}},
		{"reshape there and back", picture{2, 3, 4, random(11, 24)}, func(n *net, in picture) (int32, []float32) {
			mid, out := n.tensor("mid", 1, 4, 3, 2), n.tensor("out", 1, 4, 3, 2)
			n.op(codeReshape, nil, mid, 0)
			n.op(codeRelu, nil, out, mid)
			return out, picture{4, 3, 2, append([]float32(nil), in.v...)}.each(relu).planar()
		}},
		{"concat, constant factor, logistic", picture{2, 2, 3, random(12, 12)}, func(n *net, in picture) (int32, []float32) {
			factor := []float32{0.5, 2, -1}
			scaled, both, out := n.tensor("s", 1, 2, 2, 3), n.tensor("b", 1, 2, 2, 6), n.tensor("out", 1, 2, 2, 6)
			n.op(codeMul, fields{0: actNone}, scaled, 0, n.constant(factor, 3))
			n.op(codeConcat, fields{0: int32(-1), 1: actNone}, both, 0, scaled)
			n.op(codeLogistic, nil, out, both)
			s := newPicture(2, 2, 3)
			for i := range s.v {
				s.v[i] = in.v[i] * factor[i%3]
			}
			return out, joined(in, s).each(logistic).planar()
		}},
		{"sparse half-precision weights", picture{2, 2, 2, random(13, 8)}, func(n *net, in picture) (int32, []float32) {
			// Three filters of 1×1×2; per filter the columns with a value: 1, none, 0 and 1.
			w := []float32{0, 1.5, 0, 0, -2, 0.25}
			packed := n.raw(1, halves(0x3e00, 0xc000, 0x3400), 3, 1, 1, 2)
			n.tensors[packed][6] = fields{0: []int32{0, 1, 2, 3}, 2: []fields{
				{0: uint8(0), 1: int32(3)},
				{0: uint8(0), 1: int32(1)},
				{0: uint8(0), 1: int32(1)},
				{0: uint8(1), 2: uint8(1), 3: fields{0: []int32{0, 1, 1, 3}}, 4: uint8(3), 5: fields{0: []byte{1, 0, 1}}},
			}}
			dense, wide, out := n.tensor("d", 3, 1, 1, 2), n.tensor("w", 3, 1, 1, 2), n.tensor("out", 1, 2, 2, 3)
			n.tensors[dense][1] = uint8(1)
			n.op(codeDensify, nil, dense, packed)
			n.op(codeDequantize, nil, wide, dense)
			n.op(codeConv, convOptions(padValid, 1, actNone), out, 0, wide, n.constant(make([]float32, 3), 3))
			return out, in.conv(w, make([]float32, 3), 3, 1, 1).planar()
		}},
	}
}

func halves(v ...uint16) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint16(b, x)
	}
	return b
}

// file builds the network of a case; the input is tensor 0.
func (c testCase) file() (file []byte, want []float32) {
	n := newNet()
	n.tensor("in", 1, int32(c.in.h), int32(c.in.w), int32(c.in.c))
	out, want := c.build(n, c.in)
	return n.file([]int32{0}, []int32{out}), want
}

// The converted networks must compute what plain loops in TFLite's own order compute, in both engines.
func TestConvertedModelsComputeTheSame(t *testing.T) {
	t.Parallel()
	ort, err := infer.NewORT(filepath.Join(need.Assets(t), assets.RuntimeFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file, want := c.file()
			for _, e := range []infer.Engine{infer.NewOpenCV(), ort} {
				got := compute(t, e, file, c.in)
				if len(got) != len(want) {
					t.Fatalf("%s: %d values, want %d", e.Name(), len(got), len(want))
				}
				for i := range want {
					if math.Abs(float64(got[i]-want[i])) > 1e-5 {
						t.Fatalf("%s: value %d is %v, want %v", e.Name(), i, got[i], want[i])
					}
				}
			}
		})
	}
}

// compute converts a file for an engine and runs it.
func compute(t *testing.T, e infer.Engine, file []byte, in picture) []float32 {
	t.Helper()
	b, err := tflite.Convert(file, tflite.Options{OpenCV: e.Name() == "opencv"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := e.Load(path, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), []infer.Tensor{{
		Shape: []int64{1, int64(in.c), int64(in.h), int64(in.w)}, F32: in.planar(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), out[0].F32...)
}

// The bytes of a conversion must never change by accident: the sums of the real models are pinned elsewhere.
func TestConversionIsStable(t *testing.T) {
	t.Parallel()
	h := sha256.New()
	for _, c := range cases() {
		file, _ := c.file()
		for _, opencv := range []bool{false, true} {
			a, err := tflite.Convert(file, tflite.Options{OpenCV: opencv})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			b, err := tflite.Convert(file, tflite.Options{OpenCV: opencv})
			if err != nil || !bytes.Equal(a, b) {
				t.Fatalf("%s: a second conversion differs (%v)", c.name, err)
			}
			h.Write(a)
		}
	}
	const want = "7d12f4825376ca682c37f74754a8a778e38ea22bbed29d310472970bd309ab05"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("the sum of all conversions is %s, want %s; the pinned sums of the pose models change with it", got, want)
	}
}

func TestOutputsAreChosenAndPruned(t *testing.T) {
	t.Parallel()
	n := newNet()
	in, a, b := n.tensor("in", 1, 2, 2, 1), n.tensor("a", 1, 2, 2, 1), n.tensor("b", 1, 2, 2, 1)
	n.op(codeRelu, nil, a, in)
	n.op(codeLogistic, nil, b, in)
	file := n.file([]int32{in}, []int32{a, b})
	all, err := tflite.Convert(file, tflite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	one, err := tflite.Convert(file, tflite.Options{Outputs: []string{"b"}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(all, []byte("Relu")) || bytes.Contains(one, []byte("Relu")) || !bytes.Contains(one, []byte("Sigmoid")) {
		t.Error("the operator of the dropped output is still there, or the kept one is not")
	}
	if _, err := tflite.Convert(file, tflite.Options{Outputs: []string{"c"}}); err == nil {
		t.Error("an output that does not exist was accepted")
	}
}
