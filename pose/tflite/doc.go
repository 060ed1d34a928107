// Package tflite converts TensorFlow Lite models to ONNX: the pose models are published in the first form, and
// the inference engines read the second. Standard library only, so that the setup tool can use it on a bare
// machine.
//
// It knows the operators of MediaPipe's pose models and refuses any other by name. What changes on the way:
//
//   - Four-dimensional activations go from NHWC to NCHW. Inputs and outputs of the graph too.
//   - Weights stored as float16 or in sparse form become plain float32.
//   - SAME padding becomes explicit numbers, a PAD in front of a convolution becomes part of it, and fused
//     activations become nodes.
//   - A RESHAPE into or out of four dimensions gets the transposes that keep the order of its elements.
//   - What no kept output needs is left out.
//
// The output is a function of the input and the options alone: the same bytes on every machine.
//
// A file is treated as hostile: whatever its bytes, the answer is a model or an error, with memory bounded by
// [MaxModelBytes] and [MaxWeights].
package tflite
