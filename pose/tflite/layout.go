package tflite

import "github.com/posefleet/posefleet/pose/onnx"

// planar turns a shape NHWC into NCHW. Shapes that have not four dimensions stay.
func planar(shape []int) []int {
	if len(shape) != 4 {
		return shape
	}
	return []int{shape[0], shape[3], shape[1], shape[2]}
}

// planarAxis is where an axis of a tensor of the given rank is after the change of layout. Negative axes count
// from the end; false when there is no such axis.
func planarAxis(axis, rank int) (int, bool) {
	if axis < 0 {
		axis += rank
	}
	if axis < 0 || axis >= rank {
		return 0, false
	}
	if rank == 4 {
		axis = [...]int{0, 2, 3, 1}[axis]
	}
	return axis, true
}

// sameOrder says whether the elements of a tensor lie in the same order in NHWC and NCHW.
func sameOrder(shape []int) bool {
	return len(shape) != 4 || shape[3] == 1 || shape[1]*shape[2] == 1
}

// transpose reorders the elements of a tensor with four dimensions: dimension i of the result is dimension
// perm[i] of the source.
func transpose(src []float32, shape []int, perm [4]int) []float32 {
	strides := [4]int{shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1}
	out := make([]float32, 0, len(src))
	for a := range shape[perm[0]] {
		for b := range shape[perm[1]] {
			for c := range shape[perm[2]] {
				at := a*strides[perm[0]] + b*strides[perm[1]] + c*strides[perm[2]]
				for d := range shape[perm[3]] {
					out = append(out, src[at+d*strides[perm[3]]])
				}
			}
		}
	}
	return out
}

// operand is the ONNX name of an input of an element-wise operator whose result has the given rank. A constant is
// laid out so that ONNX broadcasts it as the file means it.
func (c *converter) operand(i, rank int) (string, error) {
	if !c.isConst(i) {
		return c.name(i), nil
	}
	v, err := c.constant(i)
	if err != nil {
		return "", err
	}
	shape := c.shape(i)
	if rank == 4 {
		// TFLite lines shapes up at their ends, so missing dimensions are leading ones.
		full := []int{1, 1, 1, 1}
		copy(full[4-len(shape):], shape)
		v = transpose(v, full, [4]int{0, 3, 1, 2})
		shape = planar(full)
	}
	name := c.name(i) + "_const"
	if rank == 4 {
		name += "_planar"
	}
	return c.initializer(onnx.Tensor{Name: name, Shape: int64s(shape), F32: v}), nil
}
