// Package angles measures joint and segment angles of people in the picture, with an error bar or a reason why there is none. It is
// pure Go and streams: three frames are in memory.
//
// All angles are of the picture plane. A joint's angle is the inner one between its two bones, 0 to 180 degrees, 180 where they are
// in line. A segment's angle is the direction from its first to its second point, -180 to 180 degrees counter-clockwise as one
// sees it, from the zero that its definition names. Segments that a person carries upright (trunk, head, thighs, shanks) count
// from the vertical, the others from the picture's right.
//
// The error is the standard error that follows from the uncertainty of the points. A point's uncertainty is pointShare of the
// body's height at a score of 1, three times that at a score of 0: what models of this kind reach on labelled footage.
//
// An angle is not measurable (pose.Reason) where
//
//   - rate: the clip has fewer frames per real second than the angle needs, or a bone turns by more than maxTurn between two frames:
//     the value at any moment is then chance;
//   - missing, unsure: a point was not found, or its score is below minScore;
//   - view: a bone looks shorter than minLength of what such a bone measures on a body of this height, so that it points towards or
//     away from the camera;
//   - short: the error would be larger than maxError.
//
// The elbow's angle in the picture is no verdict on a bowling action: the elbow turns with the arm, and the carrying angle looks
// like flexion.
package angles
