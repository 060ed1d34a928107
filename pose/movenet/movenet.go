// Package movenet runs models of the MoveNet family: one for a single person in a square crop, and one for several people in a whole
// picture. Both give y, x and a score for each point, in parts of what they saw.
package movenet

import (
	"context"
	"image"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/manifest"
	"github.com/posefleet/posefleet/pose/vision"
)

// valuesPerPoint are y, x and score.
const valuesPerPoint = 3

// Single finds the points of one person. Close frees its model.
type Single struct{ *vision.Net }

// NewSingle makes an estimator of a session that runs the manifest's file. On a fault the session stays the caller's.
func NewSingle(m manifest.Manifest, s infer.Session) (*Single, error) {
	n, err := vision.NewNet(m, s)
	if err != nil {
		return nil, err
	}
	return &Single{n}, n.CheckOutput("poses", singleShape(m))
}

func singleShape(m manifest.Manifest) []int64 {
	return []int64{1, 1, int64(len(m.Skeleton.Keypoints)), valuesPerPoint}
}

// Skeleton implements vision.Estimator.
func (e *Single) Skeleton() pose.Skeleton { return e.Manifest().Skeleton.Skeleton }

// Region implements vision.Estimator: a square, as large as the input's shape asks.
func (e *Single) Region(box pose.Box) vision.ROI {
	w, h := e.Size()
	return vision.Around(box, e.Manifest().Resize.Padding, float64(w)/float64(h))
}

// Estimate implements vision.Estimator.
func (e *Single) Estimate(ctx context.Context, p vision.Picture, roi vision.ROI) (vision.Pose, error) {
	back, err := e.Crop(p, roi)
	if err != nil {
		return vision.Pose{}, err
	}
	if err := e.Run(ctx); err != nil {
		return vision.Pose{}, err
	}
	out, err := e.Result("poses", singleShape(e.Manifest())...)
	if err != nil {
		return vision.Pose{}, err
	}
	w, h := e.Size()
	return decode(out.F32, back, w, h, e.Manifest().Scores.Point), nil
}

// decode reads the points of one person; the score is the mean of all of them, found or not.
func decode(raw []float32, back vision.Affine, width, height int, least float64) vision.Pose {
	n := len(raw) / valuesPerPoint
	p := vision.Pose{Keypoints: make([]pose.Keypoint, n)}
	for i := range n {
		y, x, score := float64(raw[3*i]), float64(raw[3*i+1]), float64(raw[3*i+2])
		x, y = back.Scaled(x*float64(width), y*float64(height))
		p.Keypoints[i] = vision.Point(x, y, score, least)
		p.Score += vision.Unit(score) / float64(n)
	}
	p.Box, _ = pose.Bounds(p.Keypoints)
	return p
}

// Multi finds several people at once. Close frees its model.
type Multi struct{ *vision.Net }

// boxValues are the numbers after a person's points: ymin, xmin, ymax, xmax and score.
const boxValues = 5

// NewMulti makes a model of a session that runs the manifest's file. On a fault the session stays the caller's.
func NewMulti(m manifest.Manifest, s infer.Session) (*Multi, error) {
	n, err := vision.NewNet(m, s)
	if err != nil {
		return nil, err
	}
	return &Multi{n}, n.CheckOutput("poses", multiShape(m))
}

func multiShape(m manifest.Manifest) []int64 {
	return []int64{1, -1, int64(len(m.Skeleton.Keypoints)*valuesPerPoint + boxValues)}
}

// Skeleton implements vision.MultiPose.
func (e *Multi) Skeleton() pose.Skeleton { return e.Manifest().Skeleton.Skeleton }

// EstimateAll implements vision.MultiPose.
func (e *Multi) EstimateAll(ctx context.Context, p vision.Picture, regions []image.Rectangle) ([]vision.Pose, error) {
	var all []vision.Pose
	for _, r := range p.Regions(regions) {
		back, err := e.Letterbox(p, r)
		if err != nil {
			return nil, err
		}
		if err := e.Run(ctx); err != nil {
			return nil, err
		}
		out, err := e.Result("poses", multiShape(e.Manifest())...)
		if err != nil {
			return nil, err
		}
		all = append(all, e.people(out.F32, back)...)
	}
	return vision.Distinct(all, e.Manifest().Scores.Overlap), nil
}

// people reads the rows of the people who are there: the model always gives the same number of rows.
func (e *Multi) people(raw []float32, back vision.Affine) []vision.Pose {
	m := e.Manifest()
	w, h := e.Size()
	points := len(m.Skeleton.Keypoints) * valuesPerPoint
	var all []vision.Pose
	for row := points + boxValues; len(raw) >= row; raw = raw[row:] {
		box := raw[points:row]
		score := vision.Unit(float64(box[4]))
		if score < m.Scores.Person {
			continue
		}
		p := decode(raw[:points], back, w, h, m.Scores.Point)
		p.Score = score
		x0, y0 := back.Scaled(float64(box[1])*float64(w), float64(box[0])*float64(h))
		x1, y1 := back.Scaled(float64(box[3])*float64(w), float64(box[2])*float64(h))
		if b := (pose.Box{X: x0, Y: y0, W: x1 - x0, H: y1 - y0}); b.W > 0 && b.H > 0 {
			p.Box = b
		}
		if p.Box.W > 0 && p.Box.H > 0 {
			all = append(all, p)
		}
	}
	return all
}

var (
	_ vision.Estimator = (*Single)(nil)
	_ vision.MultiPose = (*Multi)(nil)
)
