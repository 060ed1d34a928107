package tflite

import (
	"errors"
	"fmt"
	"slices"

	"github.com/posefleet/posefleet/pose/onnx"
)

// maxKernel bounds kernel sizes, strides, dilations and blocks: a file may claim no more.
const maxKernel = 1 << 10

// window is the geometry of a convolution or pooling: height and width of the kernel, strides, dilations.
type window struct {
	kernel, stride, dilation [2]int
	same                     bool
}

func (w window) check() error {
	for i := range 2 {
		for _, v := range [...]int{w.kernel[i], w.stride[i], w.dilation[i]} {
			if v < 1 || v > maxKernel {
				return fmt.Errorf("kernel %v, stride %v, dilation %v: %w", w.kernel, w.stride, w.dilation, errMalformed)
			}
		}
	}
	return nil
}

// pads are the numbers that SAME means for an input of the given height and width: before and after, the smaller
// half before.
func (w window) pads(size [2]int) (before, after [2]int) {
	if !w.same {
		return before, after
	}
	for i := range 2 {
		out := (size[i] + w.stride[i] - 1) / w.stride[i]
		need := (out-1)*w.stride[i] + (w.kernel[i]-1)*w.dilation[i] + 1 - size[i]
		need = max(need, 0)
		before[i], after[i] = need/2, need-need/2
	}
	return before, after
}

// attrs are the ONNX attributes of the window with the given padding.
func (w window) attrs(before, after [2]int) []onnx.Attr {
	return []onnx.Attr{
		onnx.Ints("kernel_shape", int64s(w.kernel[:])...),
		onnx.Ints("strides", int64s(w.stride[:])...),
		onnx.Ints("pads", int64(before[0]), int64(before[1]), int64(after[0]), int64(after[1])),
	}
}

// convolution converts CONV_2D and DEPTHWISE_CONV_2D, together with a PAD in front of it.
func convolution(c *converter, op operator) error {
	in, filter, out := op.inputs[0], op.inputs[1], op.outputs[0]
	if len(c.shape(in)) != 4 || len(c.shape(filter)) != 4 {
		return fmt.Errorf("input %v, filter %v: %w", c.shape(in), c.shape(filter), errMalformed)
	}
	depthwise := op.code == opDepthwiseConv
	w, fused := convWindow(c, op)
	if err := w.check(); err != nil {
		return err
	}
	before, after := w.pads([2]int{c.shape(in)[1], c.shape(in)[2]})
	if p, ok := c.folded[in]; ok {
		before = [2]int{before[0] + p.top, before[1] + p.left}
		after = [2]int{after[0] + p.bottom, after[1] + p.right}
		in = p.source
	}
	weights, err := c.filter(filter, depthwise)
	if err != nil {
		return err
	}
	inputs := []string{c.name(in), weights}
	if len(op.inputs) > 2 && op.inputs[2] >= 0 {
		bias, err := c.constant(op.inputs[2])
		if err != nil {
			return err
		}
		t := onnx.Tensor{Name: c.name(op.inputs[2]) + "_bias", Shape: []int64{int64(len(bias))}, F32: bias}
		inputs = append(inputs, c.initializer(t))
	}
	group := 1
	if depthwise {
		group = c.shape(in)[3]
	}
	attrs := append(w.attrs(before, after), onnx.Ints("dilations", int64s(w.dilation[:])...), onnx.Int("group", int64(group)))
	return c.compute(fused, out, "Conv", inputs, attrs...)
}

// convWindow reads the options of a convolution: its window and fused activation.
func convWindow(c *converter, op operator) (window, uint8) {
	t, filter := op.options, c.shape(op.inputs[1])
	fusedAt, dilationAt := 3, 4
	if op.code == opDepthwiseConv {
		fusedAt, dilationAt = 4, 5
	}
	return window{
		kernel:   [2]int{filter[1], filter[2]},
		stride:   [2]int{int(t.i32(2, 0)), int(t.i32(1, 0))},
		dilation: [2]int{int(t.i32(dilationAt+1, 1)), int(t.i32(dilationAt, 1))},
		same:     t.u8(0, 0) == 0,
	}, t.u8(fusedAt, fusedNone)
}

// filter adds the weights of a convolution: OHWI becomes OIHW, and 1HWO of a depthwise one O1HW.
func (c *converter) filter(i int, depthwise bool) (string, error) {
	v, err := c.constant(i)
	if err != nil {
		return "", err
	}
	shape, perm := c.shape(i), [4]int{0, 3, 1, 2}
	if depthwise {
		perm = [4]int{3, 0, 1, 2}
	}
	dims := []int64{int64(shape[perm[0]]), int64(shape[perm[1]]), int64(shape[perm[2]]), int64(shape[perm[3]])}
	// One tensor may be used in several ways, each with its own order of elements: the name says which.
	name := c.name(i) + "_filter"
	if depthwise {
		name = c.name(i) + "_depthwise"
	}
	return c.initializer(onnx.Tensor{Name: name, Shape: dims, F32: transpose(v, shape, perm)}), nil
}

func pool(name string) func(*converter, operator) error {
	return func(c *converter, op operator) error {
		in, t := op.inputs[0], op.options
		if len(c.shape(in)) != 4 {
			return errMalformed
		}
		w := window{
			kernel:   [2]int{int(t.i32(4, 0)), int(t.i32(3, 0))},
			stride:   [2]int{int(t.i32(2, 0)), int(t.i32(1, 0))},
			dilation: [2]int{1, 1},
			same:     t.u8(0, 0) == 0,
		}
		if err := w.check(); err != nil {
			return err
		}
		before, after := w.pads([2]int{c.shape(in)[1], c.shape(in)[2]})
		attrs := w.attrs(before, after)
		if name == "AveragePool" {
			attrs = append(attrs, onnx.Int("count_include_pad", 0))
		}
		return c.compute(t.u8(5, fusedNone), op.outputs[0], name, []string{c.name(in)}, attrs...)
	}
}

// pad folds a PAD of height and width into the convolutions that read it; any other becomes a node.
func pad(c *converter, op operator) error {
	in, out := op.inputs[0], op.outputs[0]
	amounts, err := c.padAmounts(op)
	if err != nil {
		return err
	}
	if amounts[0] == [2]int{} && amounts[3] == [2]int{} && c.onlyConvolutionsRead(out) {
		c.folded[out] = padding{
			source: in,
			top:    amounts[1][0], left: amounts[2][0],
			bottom: amounts[1][1], right: amounts[2][1],
		}
		return nil
	}
	if c.poolReads(out) {
		// ONNX Runtime 1.24 makes such a PAD a part of the MaxPool, whose padding loses to negative values.
		return errors.New("a PAD in front of a pooling is not supported")
	}
	var pads []int64
	for side := range 2 {
		for _, axis := range [...]int{0, 3, 1, 2} {
			pads = append(pads, int64(amounts[axis][side]))
		}
	}
	name := c.name(out)
	amount := c.initializer(onnx.Tensor{Name: name + "_pads", Shape: []int64{8}, I64: pads})
	c.node("Pad", name, []string{c.name(in), amount}, onnx.String("mode", "constant"))
	return nil
}

// padAmounts reads how much a PAD adds before and after each of four dimensions.
func (c *converter) padAmounts(op operator) (amounts [4][2]int, err error) {
	if len(c.shape(op.inputs[0])) != 4 {
		return amounts, errors.New("only four dimensions are supported")
	}
	t := c.m.tensors[op.inputs[1]]
	if t.dtype != typeInt32 || len(t.data) != 4*8 {
		return amounts, errors.New("only constant amounts are supported")
	}
	f := &flat{b: t.data}
	for i := range 8 {
		v := int(int32(f.u32(4 * i)))
		if v < 0 || v > maxDim {
			return amounts, errMalformed
		}
		amounts[i/2][i%2] = v
	}
	return amounts, nil
}

// poolReads says whether a pooling reads a tensor.
func (c *converter) poolReads(t int) bool {
	for i, op := range c.m.operators {
		if c.needed[i] && (op.code == opMaxPool || op.code == opAveragePool) && slices.Contains(op.inputs, t) {
			return true
		}
	}
	return false
}

// onlyConvolutionsRead says whether all readers of a tensor are convolutions that take it as their picture.
func (c *converter) onlyConvolutionsRead(t int) bool {
	n := 0
	for i, op := range c.m.operators {
		if c.needed[i] && (op.code == opConv || op.code == opDepthwiseConv) && len(op.inputs) > 0 && op.inputs[0] == t {
			n++
		}
	}
	return n > 0 && n == c.readers[t]
}
