// Package pose holds the pose document and all that can be said about poses without decoding a video or running a model:
// the document's types and its streaming encoder, skeletons as data, the tracker that gives people stable ids, the choice of
// the athlete, and the export formats. It is pure Go.
//
// Coordinates are pixels of the upright picture with square pixels, x to the right and y down. Times are milliseconds from
// the first shown frame. Scores lie in 0..1. A point that was not found is missing, never 0.
package pose
