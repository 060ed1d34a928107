// Package blazepose finds people in a picture and their 33 body points with the BlazePose models: a detector
// that is run over a pyramid of tiles, and a landmark model that looks at a turned square around one person and
// also says where to look in the next frame.
//
// An [Estimator] owns the native sessions and work buffers of one model; it is meant for one goroutine.
//
// # Coordinates
//
// All coordinates are pixels of the picture handed in, with the centre of the top left pixel at (0, 0), x to the
// right and y down. Left and right are the person's own.
//
// # Files
//
// The maths (anchors.go, decode.go, nms.go, tiles.go, geometry.go, refine.go, points.go, score.go) is pure Go and
// tested alone; only estimator.go, detect.go, landmarks.go and crop.go touch native objects.
package blazepose
