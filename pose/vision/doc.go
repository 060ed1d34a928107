// Package vision is the seam between the pass over a clip and the models that look at its frames, and what all model families need to
// stand behind it: regions, the way of a picture into a model's input and of points back, and the choice among overlapping finds.
//
// A model is a [Detector] (where are people), an [Estimator] (which points has the person in this region), or both in one, a
// [MultiPose]. The packages movenet, rtmpose, yolopose and blazepose are the families behind it.
//
// # Coordinates
//
// All coordinates that cross the seam are pixels of the picture handed in, with the centre of the top left pixel at (0, 0), x to the
// right and y down. Left and right are the person's own.
//
// Everything here is plain Go and works on bytes. Nothing is safe for concurrent use unless it says so.
package vision
