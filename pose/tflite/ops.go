package tflite

import (
	"errors"
	"fmt"
	"slices"

	"github.com/posefleet/posefleet/pose/onnx"
)

// rule says how one kind of operator is converted. inputs is the number of inputs that it must have.
type rule struct {
	inputs int
	emit   func(*converter, operator) error
}

// rules lists the operators that can be converted.
var rules = map[int]rule{
	opAdd:            {2, elementwise("Add")},
	opMul:            {2, elementwise("Mul")},
	opRelu:           {1, activation(fusedRelu)},
	opRelu6:          {1, activation(fusedRelu6)},
	opLogistic:       {1, logistic},
	opConv:           {2, convolution},
	opDepthwiseConv:  {2, convolution},
	opMaxPool:        {1, pool("MaxPool")},
	opAveragePool:    {1, pool("AveragePool")},
	opConcat:         {1, concat},
	opPad:            {2, pad},
	opReshape:        {1, reshape},
	opResizeBilinear: {1, resizeBilinear},
	opDepthToSpace:   {1, depthToSpace},
	opDequantize:     {1, dequantize},
	opDensify:        {1, dequantize},
}

// Activations that other operators carry with them, by their number in the file.
const (
	fusedNone   = 0
	fusedRelu   = 1
	fusedReluN1 = 2
	fusedRelu6  = 3
)

// activate adds an activation node.
func (c *converter) activate(kind uint8, in, out string) error {
	switch kind {
	case fusedRelu:
		c.node("Relu", out, []string{in})
	case fusedRelu6:
		c.clip(in, out, 0, 6)
	case fusedReluN1:
		c.clip(in, out, -1, 1)
	default:
		return fmt.Errorf("fused activation %d is not supported", kind)
	}
	return nil
}

// clip adds a Clip in the form that the target reads.
func (c *converter) clip(in, out string, low, high float32) {
	if c.o.OpenCV {
		c.node("Clip", out, []string{in}, onnx.Float("min", low), onnx.Float("max", high))
		return
	}
	bound := func(v float32) string {
		return c.initializer(onnx.Tensor{Name: fmt.Sprintf("clip_%g", v), F32: []float32{v}})
	}
	c.node("Clip", out, []string{in, bound(low), bound(high)})
}

// compute adds an operator's node and the activation that is fused into it.
func (c *converter) compute(kind uint8, out int, op string, inputs []string, attrs ...onnx.Attr) error {
	name := c.name(out)
	if kind == fusedNone {
		c.node(op, name, inputs, attrs...)
		return nil
	}
	c.node(op, name+"_raw", inputs, attrs...)
	return c.activate(kind, name+"_raw", name)
}

func elementwise(name string) func(*converter, operator) error {
	return func(c *converter, op operator) error {
		rank := len(c.shape(op.outputs[0]))
		var names []string
		for _, i := range op.inputs[:2] {
			if !c.isConst(i) && len(c.shape(i)) != rank {
				return fmt.Errorf("inputs of %d and %d dimensions are not supported", len(c.shape(i)), rank)
			}
			if len(c.shape(i)) > rank {
				return errMalformed
			}
			s, err := c.operand(i, rank)
			if err != nil {
				return err
			}
			names = append(names, s)
		}
		return c.compute(op.options.u8(0, fusedNone), op.outputs[0], name, names)
	}
}

func activation(kind uint8) func(*converter, operator) error {
	return func(c *converter, op operator) error {
		return c.activate(kind, c.name(op.inputs[0]), c.name(op.outputs[0]))
	}
}

func logistic(c *converter, op operator) error {
	c.node("Sigmoid", c.name(op.outputs[0]), []string{c.name(op.inputs[0])})
	return nil
}

func concat(c *converter, op operator) error {
	rank := len(c.shape(op.outputs[0]))
	axis, ok := planarAxis(int(op.options.i32(0, 0)), rank)
	if !ok {
		return fmt.Errorf("axis %d of %d: %w", op.options.i32(0, 0), rank, errMalformed)
	}
	var names []string
	for _, i := range op.inputs {
		if i < 0 || len(c.shape(i)) != rank || c.isConst(i) {
			return errors.New("inputs of different rank and constant inputs are not supported")
		}
		names = append(names, c.name(i))
	}
	return c.compute(op.options.u8(1, fusedNone), op.outputs[0], "Concat", names, onnx.Int("axis", int64(axis)))
}

// reshape keeps the order of the elements as the file has it: through NHWC where a side has four dimensions.
func reshape(c *converter, op operator) error {
	in, out := op.inputs[0], op.outputs[0]
	from, to := c.shape(in), c.shape(out)
	if elements(from) != elements(to) {
		return fmt.Errorf("from %v to %v: %w", from, to, errMalformed)
	}
	name, result := c.name(in), c.name(out)
	if !sameOrder(from) {
		c.node("Transpose", result+"_nhwc", []string{name}, onnx.Ints("perm", 0, 2, 3, 1))
		name = result + "_nhwc"
	}
	target, last := to, result
	if sameOrder(to) {
		target = planar(to)
	} else {
		last = result + "_shaped"
	}
	shape := c.initializer(onnx.Tensor{Name: result + "_shape", Shape: []int64{int64(len(target))}, I64: int64s(target)})
	c.node("Reshape", last, []string{name, shape})
	if last != result {
		c.node("Transpose", result, []string{last}, onnx.Ints("perm", 0, 3, 1, 2))
	}
	return nil
}

func resizeBilinear(c *converter, op operator) error {
	from, to := c.shape(op.inputs[0]), c.shape(op.outputs[0])
	if len(from) != 4 || len(to) != 4 || slices.Contains(from, 0) {
		return errMalformed
	}
	mode := "asymmetric"
	switch {
	case op.options.u8(2, 0) != 0:
		mode = "align_corners"
	case op.options.u8(3, 0) != 0:
		mode = "half_pixel"
	}
	out := c.name(op.outputs[0])
	scales := onnx.Tensor{Name: out + "_scales", Shape: []int64{4}, F32: []float32{
		1, 1, float32(to[1]) / float32(from[1]), float32(to[2]) / float32(from[2]),
	}}
	roi := onnx.Tensor{Name: "no_roi", Shape: []int64{0}}
	c.node("Resize", out, []string{c.name(op.inputs[0]), c.initializer(roi), c.initializer(scales)},
		onnx.String("mode", "linear"), onnx.String("coordinate_transformation_mode", mode))
	return nil
}

func depthToSpace(c *converter, op operator) error {
	block := op.options.i32(0, 0)
	if len(c.shape(op.inputs[0])) != 4 || block < 1 || block > maxKernel {
		return errMalformed
	}
	c.node("DepthToSpace", c.name(op.outputs[0]), []string{c.name(op.inputs[0])},
		onnx.Int("blocksize", int64(block)), onnx.String("mode", "DCR"))
	return nil
}

// dequantize computes the float32 values of a constant in advance: DEQUANTIZE widens them, DENSIFY unpacks them.
func dequantize(c *converter, op operator) error {
	in, out := op.inputs[0], op.outputs[0]
	if !c.isConst(in) {
		return errors.New("only constants can be widened or unpacked")
	}
	if !slices.Equal(c.shape(in), c.shape(out)) {
		return fmt.Errorf("from %v to %v: %w", c.shape(in), c.shape(out), errMalformed)
	}
	v, err := c.constant(in)
	if err != nil {
		return err
	}
	if _, done := c.consts[in]; !done && c.m.tensors[in].sparse != nil {
		if err := c.account(elements(c.shape(in))); err != nil {
			return err
		}
		if v, err = densify(v, c.shape(in), c.m.tensors[in].sparse); err != nil {
			return err
		}
	}
	c.consts[out] = v
	return nil
}
