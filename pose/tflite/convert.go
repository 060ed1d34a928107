package tflite

import (
	"errors"
	"fmt"
	"slices"

	"github.com/posefleet/posefleet/pose/onnx"
)

// producer is written into each converted file.
const producer = "posefleet-tflite"

// opset is the operator set of the converted files: the oldest one with Resize by half pixels, and one that
// OpenCV 4.6 reads too.
const opset = 11

// Options say what to convert and for whom.
type Options struct {
	// OpenCV writes the form that OpenCV 4.6 reads: Clip with its bounds as attributes, which was the form of
	// operator set 6. ONNX Runtime refuses it in set 11, hence two forms.
	OpenCV bool
	// Outputs names the outputs to keep, in that order. Empty: all of them.
	Outputs []string
}

// Convert returns the ONNX form of a TensorFlow Lite model. Malformed input of any kind is an error.
func Convert(tflite []byte, o Options) ([]byte, error) {
	m, err := parse(tflite)
	if err != nil {
		return nil, fmt.Errorf("read TFLite model: %w", err)
	}
	c := newConverter(m, o)
	if err := c.run(); err != nil {
		return nil, fmt.Errorf("convert TFLite model: %w", err)
	}
	return onnx.Model{Producer: producer, Opset: opset, Graph: c.graph}.Encode(), nil
}

// converter builds one ONNX graph. It walks the operators in their order in the file, which is an order of
// execution, and skips those that no kept output needs.
type converter struct {
	m     *model
	o     Options
	graph onnx.Graph
	// readers counts, per tensor, the needed operators and outputs that read it.
	readers []int
	needed  []bool
	// consts holds the values of constant tensors that were computed from other constants.
	consts map[int][]float32
	// folded are the results of PADs that became part of the convolutions behind them.
	folded map[int]padding
	// floats is the number of constant values so far, held to MaxWeights.
	floats int
	// initializers are the names that are in graph.Initializers already.
	initializers map[string]bool
}

// padding is a PAD that was folded away: what it padded and by how much.
type padding struct {
	source                   int
	top, left, bottom, right int
}

func newConverter(m *model, o Options) *converter {
	return &converter{
		m: m, o: o,
		graph:        onnx.Graph{Name: "model"},
		readers:      make([]int, len(m.tensors)),
		needed:       make([]bool, len(m.operators)),
		consts:       map[int][]float32{},
		folded:       map[int]padding{},
		initializers: map[string]bool{},
	}
}

func (c *converter) run() error {
	if err := c.describe(); err != nil {
		return err
	}
	if err := c.prune(); err != nil {
		return err
	}
	for i, op := range c.m.operators {
		if !c.needed[i] {
			continue
		}
		if err := c.emit(op); err != nil {
			return fmt.Errorf("operator %d (%s): %w", i, opName(op.code), err)
		}
	}
	return nil
}

// describe sets the graph's inputs and its kept outputs.
func (c *converter) describe() error {
	if len(c.m.inputs) == 0 || len(c.m.outputs) == 0 {
		return fmt.Errorf("%d inputs and %d outputs: %w", len(c.m.inputs), len(c.m.outputs), errMalformed)
	}
	for _, i := range c.m.inputs {
		c.graph.Inputs = append(c.graph.Inputs, c.value(i))
	}
	if len(c.o.Outputs) > 0 {
		var kept []int
		for _, name := range c.o.Outputs {
			at := slices.IndexFunc(c.m.outputs, func(i int) bool { return c.m.tensors[i].name == name })
			if at < 0 {
				return fmt.Errorf("no output %q", name)
			}
			kept = append(kept, c.m.outputs[at])
		}
		c.m.outputs = kept
	}
	for _, i := range c.m.outputs {
		c.graph.Outputs = append(c.graph.Outputs, c.value(i))
	}
	names := map[string]bool{}
	for _, v := range slices.Concat(c.graph.Inputs, c.graph.Outputs) {
		if v.Name == "" || names[v.Name] {
			return fmt.Errorf("input or output name %q is empty or used twice", v.Name)
		}
		names[v.Name] = true
	}
	return nil
}

// value describes an input or output. The shapes of inputs are those of the file: a batch of one.
func (c *converter) value(i int) onnx.Value {
	return onnx.Value{Name: c.name(i), DType: onnx.Float32, Shape: int64s(planar(c.m.tensors[i].shape))}
}

// prune marks the operators that the kept outputs need and counts who reads which tensor.
func (c *converter) prune() error {
	made := make([]int, len(c.m.tensors)) // 1 + the operator that makes the tensor
	for i, op := range c.m.operators {
		for _, t := range op.outputs {
			if made[t] != 0 || slices.Contains(c.m.inputs, t) {
				return fmt.Errorf("operator %d (%s): its output is made twice", i, opName(op.code))
			}
			made[t] = i + 1
		}
	}
	for _, t := range c.m.outputs {
		if made[t] == 0 {
			return fmt.Errorf("output %q is not computed", c.m.tensors[t].name)
		}
		c.readers[t]++
		c.needed[made[t]-1] = true
	}
	for i, op := range slices.Backward(c.m.operators) {
		if !c.needed[i] {
			continue
		}
		for _, t := range op.inputs {
			if t < 0 {
				continue
			}
			c.readers[t]++
			if made[t] > i {
				return fmt.Errorf("operator %d (%s): reads what is made later", i, opName(op.code))
			}
			if made[t] > 0 {
				c.needed[made[t]-1] = true
			}
		}
	}
	return nil
}

// name is the ONNX name of a tensor: inputs and outputs keep theirs, the rest is numbered.
func (c *converter) name(i int) string {
	if slices.Contains(c.m.inputs, i) || slices.Contains(c.m.outputs, i) {
		return c.m.tensors[i].name
	}
	return fmt.Sprintf("t%d", i)
}

// emit converts one operator.
func (c *converter) emit(op operator) error {
	rule, ok := rules[op.code]
	if !ok {
		return errors.New("not supported")
	}
	if len(op.outputs) != 1 || len(op.inputs) < rule.inputs || slices.Contains(op.inputs[:rule.inputs], -1) {
		return fmt.Errorf("has %d inputs and %d outputs: %w", len(op.inputs), len(op.outputs), errMalformed)
	}
	return rule.emit(c, op)
}

// node adds a node that makes the tensor named out.
func (c *converter) node(op, out string, inputs []string, attrs ...onnx.Attr) {
	c.graph.Nodes = append(c.graph.Nodes, onnx.Node{Op: op, Inputs: inputs, Outputs: []string{out}, Attrs: attrs})
}

// shape is the shape of a tensor as the file has it.
func (c *converter) shape(i int) []int { return c.m.tensors[i].shape }

// isConst says whether the value of a tensor is known now.
func (c *converter) isConst(i int) bool {
	_, computed := c.consts[i]
	return computed || len(c.m.tensors[i].data) > 0
}

// constant is the value of a constant tensor, in the order of the file.
func (c *converter) constant(i int) ([]float32, error) {
	if v, ok := c.consts[i]; ok {
		return v, nil
	}
	t := c.m.tensors[i]
	if len(t.data) == 0 {
		return nil, fmt.Errorf("tensor %q is not constant", t.name)
	}
	n := elements(t.shape)
	if t.sparse != nil {
		n = storedValues(t)
	}
	if err := c.account(n); err != nil {
		return nil, err
	}
	return decodeFloats(t.data, t.dtype, n)
}

// account adds n constant values to the total, which bounds the memory of a conversion: many tensors may share
// the same bytes of the file.
func (c *converter) account(n int) error {
	if c.floats += n; c.floats > MaxWeights {
		return fmt.Errorf("more than %d weights", MaxWeights)
	}
	return nil
}

// storedValues is the number of values that a sparse tensor holds bytes for.
func storedValues(t tensor) int {
	if t.dtype == typeFloat16 {
		return len(t.data) / 2
	}
	return len(t.data) / 4
}

// initializer adds a constant under the given name and returns the name. A name that is there already is shared.
func (c *converter) initializer(t onnx.Tensor) string {
	if !c.initializers[t.Name] {
		c.initializers[t.Name] = true
		c.graph.Initializers = append(c.graph.Initializers, t)
	}
	return t.Name
}

// int64s converts a shape for the ONNX side.
func int64s(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}
