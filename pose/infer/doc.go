// Package infer runs ONNX models. It is the seam between the pose code and the native inference libraries: an
// [Engine] loads a file into a [Session], and a session turns typed tensors into typed tensors.
//
// Two engines exist. [NewORT] is Microsoft's ONNX Runtime, a shared library that is opened when the program runs;
// it is about three times as fast. [NewOpenCV] is the DNN module of the OpenCV that the program is linked with
// anyway; it reads the "-opencv" form of the models. Their points differ by 0.004 pixels of a crop of 256 at most; a
// test holds them to 0.02.
//
// # Memory
//
// Sessions own native memory that Go's collector does not see: whoever loads one must Close it. The tensors that
// Run returns belong to the session and are overwritten by its next Run.
//
// # Concurrency
//
// An engine may be shared. A session serves one Run at a time; a second one waits.
package infer
