// Package modeltest writes tiny models of each family, for tests: weights made by hand that answer to coloured lamps, so that a real
// run by the inference library gives points whose places are known. Each model comes with its manifest.
package modeltest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"image"
	"image/color"
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/posefleet/posefleet/pose/onnx"
)

// Lamps are the colours that the models answer to: model point k is the place of lamp k; points without a lamp score nothing.
func Lamps() []color.RGBA {
	return []color.RGBA{
		{255, 0, 0, 255}, {0, 255, 0, 255}, {0, 0, 255, 255}, {255, 255, 0, 255}, {0, 255, 255, 255}, {255, 0, 255, 255},
	}
}

// filters are the weights of red, green and blue with which a pixel answers 1 to its lamp, less to other lamps, and 0 to any grey.
var filters = [][3]float32{{1, -.5, -.5}, {-.5, 1, -.5}, {-.5, -.5, 1}, {.5, .5, -1}, {-1, .5, .5}, {.5, -1, .5}}

// Background is the grey that Draw paints under the lamps.
const Background = 90

// Draw paints a picture, blue, green, red, with a round lamp of the given radius at each place.
func Draw(width, height int, radius float64, lamps map[int]image.Point) []byte {
	pix := make([]byte, 3*width*height)
	for i := range pix {
		pix[i] = Background
	}
	for k, at := range lamps {
		Lamp(pix, width, height, radius, k, at)
	}
	return pix
}

// Lamp paints one more lamp.
func Lamp(pix []byte, width, height int, radius float64, k int, at image.Point) {
	c := Lamps()[k]
	r := int(radius) + 1
	for y := max(at.Y-r, 0); y <= min(at.Y+r, height-1); y++ {
		for x := max(at.X-r, 0); x <= min(at.X+r, width-1); x++ {
			if math.Hypot(float64(x-at.X), float64(y-at.Y)) <= radius {
				copy(pix[3*(y*width+x):], []byte{c.B, c.G, c.R})
			}
		}
	}
}

// Model is a tiny model before it is written.
type Model struct {
	// Fields are those of the manifest; file, sha256 and what every manifest needs are added by Write.
	Fields map[string]any
	Graph  onnx.Graph
}

// Write stores a model in a new folder below dir, named as the model, and returns the folder. fields change or add to the manifest's; a
// nil value takes one away.
func Write(t testing.TB, dir, name string, m Model, fields map[string]any) string {
	t.Helper()
	folder := filepath.Join(dir, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	m.Graph.Name = name
	file := onnx.Model{Producer: "modeltest", Opset: 11, Graph: m.Graph}.Encode()
	sum := sha256.Sum256(file)
	all := map[string]any{
		"schema": "posefleet.model/1", "name": name, "version": "1", "file": name + ".onnx", "sha256": hex.EncodeToString(sum[:]),
		"licence": "CC0-1.0", "skeleton": "coco17",
	}
	maps.Copy(all, m.Fields)
	maps.Copy(all, fields)
	for k, v := range all {
		if v == nil {
			delete(all, k)
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, name+".onnx"), file)
	write(t, filepath.Join(folder, "pose.json"), text)
	return folder
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// kernelSide and kernelSigma are of the bump that models look for, in pixels of their input: its answer is highest at the middle of a lamp
// whose radius is about kernelLamp, and lamps that are much larger are not seen at all, as people of another size would not be.
const (
	kernelSide  = 11
	kernelSigma = 2.8
	kernelLamp  = 4.5
)

// bump is the pattern: it sums to 0, and to 1 over a lamp.
func bump() []float32 {
	out := make([]float64, kernelSide*kernelSide)
	away := func(i int) float64 {
		return math.Hypot(float64(i%kernelSide-kernelSide/2), float64(i/kernelSide-kernelSide/2))
	}
	sum := 0.0
	for i := range out {
		out[i] = math.Exp(-away(i) * away(i) / (2 * kernelSigma * kernelSigma))
		sum += out[i]
	}
	lamp := 0.0
	for i := range out {
		if out[i] -= sum / float64(len(out)); away(i) <= kernelLamp {
			lamp += out[i]
		}
	}
	pattern := make([]float32, len(out))
	for i := range out {
		pattern[i] = float32(out[i] / lamp)
	}
	return pattern
}

// eyes is a convolution whose channel k answers to lamp k, up to about 1; channels without a lamp answer nothing. The input is nchw;
// order says which channel holds red, green and blue, and scale undoes the model's normalisation: the answer is in pixels of 0..1. What
// the normalisation subtracts does not matter, since the pattern sums to 0.
func eyes(in, out string, points int, order [3]int, scale [3]float32, stride int64) (onnx.Node, []onnx.Tensor) {
	pattern := bump()
	weights := make([]float32, points*3*kernelSide*kernelSide)
	bias := make([]float32, points)
	for k := range min(points, len(filters)) {
		for colour, f := range filters[k] {
			ch := order[colour]
			for i, v := range pattern {
				weights[(k*3+ch)*len(pattern)+i] = f * scale[ch] / 255 * v
			}
		}
	}
	pad := int64(kernelSide / 2)
	node := onnx.Node{
		Op: "Conv", Inputs: []string{in, out + "_w", out + "_b"}, Outputs: []string{out},
		Attrs: []onnx.Attr{
			onnx.Ints("kernel_shape", kernelSide, kernelSide), onnx.Ints("pads", pad, pad, pad, pad), onnx.Ints("strides", stride, stride),
		},
	}
	return node, []onnx.Tensor{
		{Name: out + "_w", Shape: []int64{int64(points), 3, kernelSide, kernelSide}, F32: weights},
		{Name: out + "_b", Shape: []int64{int64(points)}, F32: bias},
	}
}

// shape is a constant for Reshape.
func shape(name string, dims ...int64) onnx.Tensor {
	return onnx.Tensor{Name: name, Shape: []int64{int64(len(dims))}, I64: dims}
}

// scalar is a constant number.
func scalar(name string, v float32) onnx.Tensor {
	return onnx.Tensor{Name: name, Shape: []int64{1}, F32: []float32{v}}
}

// node is an operation of one output.
func node(op, out string, in []string, attrs ...onnx.Attr) onnx.Node {
	return onnx.Node{Op: op, Inputs: in, Outputs: []string{out}, Attrs: attrs}
}

var (
	rgb  = [3]int{0, 1, 2}
	bgr  = [3]int{2, 1, 0}
	same = [3]float32{1, 1, 1}
)
