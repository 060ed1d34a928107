// Package rtmpose runs models of the RTMPose family: one person in an upright crop of 3:4, each coordinate of a point given as a row of
// steps finer than a pixel (SimCC), of which the highest is the place.
//
// The colours are those that the manifest says. The family's own training code hands in red, green, blue; some programs around it hand in
// blue, green, red with the same means, and the weights bear it: a file's manifest should say what gives better points on pictures with
// known truth.
package rtmpose

import (
	"context"
	"math"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/manifest"
	"github.com/posefleet/posefleet/pose/vision"
)

// Estimator finds the points of one person. Close frees its model.
type Estimator struct{ *vision.Net }

// New makes an estimator of a session that runs the manifest's file. On a fault the session stays the caller's.
func New(m manifest.Manifest, s infer.Session) (*Estimator, error) {
	n, err := vision.NewNet(m, s)
	if err != nil {
		return nil, err
	}
	e := &Estimator{n}
	x, y := e.shapes()
	if err := n.CheckOutput("x", x); err != nil {
		return nil, err
	}
	return e, n.CheckOutput("y", y)
}

// shapes are those of the two outputs.
func (e *Estimator) shapes() (x, y []int64) {
	m := e.Manifest()
	w, h := e.Size()
	k := int64(len(m.Skeleton.Keypoints))
	return []int64{1, k, int64(math.Round(float64(w) * m.Split))}, []int64{1, k, int64(math.Round(float64(h) * m.Split))}
}

// Skeleton implements vision.Estimator.
func (e *Estimator) Skeleton() pose.Skeleton { return e.Manifest().Skeleton.Skeleton }

// Region implements vision.Estimator: the box, padded, in the input's shape.
func (e *Estimator) Region(box pose.Box) vision.ROI {
	w, h := e.Size()
	return vision.Around(box, e.Manifest().Resize.Padding, float64(w)/float64(h))
}

// Estimate implements vision.Estimator.
func (e *Estimator) Estimate(ctx context.Context, p vision.Picture, roi vision.ROI) (vision.Pose, error) {
	back, err := e.Crop(p, roi)
	if err != nil {
		return vision.Pose{}, err
	}
	if err := e.Run(ctx); err != nil {
		return vision.Pose{}, err
	}
	sx, sy := e.shapes()
	x, err := e.Result("x", sx...)
	if err != nil {
		return vision.Pose{}, err
	}
	y, err := e.Result("y", sy...)
	if err != nil {
		return vision.Pose{}, err
	}
	m := e.Manifest()
	return decode(x.F32, y.F32, len(m.Skeleton.Keypoints), m.Split, back, m.Scores.Point), nil
}

// decode finds the highest step of each row. A point scores as its better row does: the weights were trained so that both peak alike, and
// the published thresholds are for that. The pose's score is the mean of all points, found or not.
func decode(xs, ys []float32, n int, split float64, back vision.Affine, least float64) vision.Pose {
	p := vision.Pose{Keypoints: make([]pose.Keypoint, n)}
	w, h := len(xs)/n, len(ys)/n
	for i := range n {
		x, sx := peak(xs[i*w : (i+1)*w])
		y, sy := peak(ys[i*h : (i+1)*h])
		score := math.Max(sx, sy)
		px, py := back.Pixel(float64(x)/split, float64(y)/split)
		p.Keypoints[i] = vision.Point(px, py, score, least)
		p.Score += vision.Unit(score) / float64(n)
	}
	p.Box, _ = pose.Bounds(p.Keypoints)
	return p
}

// peak is the place and the height of a row's highest step. A row with no number at all has none.
func peak(row []float32) (at int, score float64) {
	best := math.Inf(-1)
	for i, v := range row {
		if float64(v) > best {
			at, best = i, float64(v)
		}
	}
	return at, best
}

var _ vision.Estimator = (*Estimator)(nil)
