package tflite

import "fmt"

// Operator kinds, by their number in the file.
const (
	opAdd            = 0
	opAveragePool    = 1
	opConcat         = 2
	opConv           = 3
	opDepthwiseConv  = 4
	opDepthToSpace   = 5
	opDequantize     = 6
	opLogistic       = 14
	opMaxPool        = 17
	opMul            = 18
	opRelu           = 19
	opRelu6          = 21
	opReshape        = 22
	opResizeBilinear = 23
	opPad            = 34
	opDensify        = 124
)

// opName is a name for messages.
func opName(code int) string {
	names := map[int]string{
		opAdd: "ADD", opAveragePool: "AVERAGE_POOL_2D", opConcat: "CONCATENATION", opConv: "CONV_2D",
		opDepthwiseConv: "DEPTHWISE_CONV_2D", opDepthToSpace: "DEPTH_TO_SPACE", opDequantize: "DEQUANTIZE",
		opLogistic: "LOGISTIC", opMaxPool: "MAX_POOL_2D", opMul: "MUL", opRelu: "RELU", opRelu6: "RELU6",
		opReshape: "RESHAPE", opResizeBilinear: "RESIZE_BILINEAR", opPad: "PAD", opDensify: "DENSIFY",
	}
	if s, ok := names[code]; ok {
		return s
	}
	return fmt.Sprintf("operator %d", code)
}
