// Package eval measures how good the poses are: on pictures and clips whose truth is known, on pictures and clips with nobody, and
// on the files that others read wrongly. Run gives a [Report] of rows, each a figure with the bar that it is held to.
//
// Pictures and clips come from the media folder (see internal/need); what is absent is a row without a value, never a better one. Pairs of
// people and a bowler are drawn by pose/synth, with exact truth.
// The program poseeval runs it; `go run ./cmd/dev eval` builds and starts that.
//
// # Measures
//
//   - OKS: COCO's object keypoint similarity, 0..1, over the labelled points. The labels have no outline, so that the area is that
//     of an average body in its box. A point that we give as null counts 0, and so does every point of a person who was missed.
//   - PCK: the share of the labelled points that are within a part of the torso (left shoulder to right hip, or the reverse, the
//     longer one) of the truth.
//   - Found: a person is found where one of ours matches with an OKS of half or more, or with boxes that overlap by half. Each of
//     ours matches one person at most.
package eval
