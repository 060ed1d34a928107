// Package onnx writes ONNX files, and reads from any ONNX file what goes in and what comes out. Standard library
// only.
//
// The writer knows as much of the format as a converter or a test with a tiny model needs: nodes with attributes,
// constant tensors, typed inputs and outputs. The bytes are a function of the [Model] alone.
package onnx
