// Package yolopose runs models that find all people of a letterboxed picture with their points: YOLO-pose, as its raw rows or with the
// choice among overlapping people inside the file, and RTMO.
package yolopose

import (
	"context"
	"fmt"
	"image"
	"math"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/manifest"
	"github.com/posefleet/posefleet/pose/vision"
)

const (
	valuesPerPoint = 3
	// rawHead are the numbers before the points of a raw row (x, y, w, h, score), chosenHead those of a model that chooses itself
	// (x1, y1, x2, y2, score, class).
	rawHead, chosenHead = 5, 6
	// maxCandidates bounds the people of one look who are compared with each other.
	maxCandidates = 1000
)

// Model finds people. Close frees it.
type Model struct {
	*vision.Net
	read func(back vision.Affine) ([]vision.Pose, error)
}

// New makes a model of a session that runs the manifest's file. On a fault the session stays the caller's.
func New(m manifest.Manifest, s infer.Session) (*Model, error) {
	n, err := vision.NewNet(m, s)
	if err != nil {
		return nil, err
	}
	e := &Model{Net: n}
	k := int64(len(m.Skeleton.Keypoints))
	if m.Family == manifest.RTMO {
		e.read = e.rtmo
		if err := n.CheckOutput("boxes", []int64{1, -1, rawHead}); err != nil {
			return nil, err
		}
		return e, n.CheckOutput("points", []int64{1, -1, k, valuesPerPoint})
	}
	e.read = e.yolo
	raw, chosen := rawHead+valuesPerPoint*k, chosenHead+valuesPerPoint*k
	return e, n.CheckOutput("poses", []int64{1, raw, -1}, []int64{1, -1, raw}, []int64{1, -1, chosen})
}

// Skeleton implements vision.MultiPose.
func (e *Model) Skeleton() pose.Skeleton { return e.Manifest().Skeleton.Skeleton }

// EstimateAll implements vision.MultiPose.
func (e *Model) EstimateAll(ctx context.Context, p vision.Picture, regions []image.Rectangle) ([]vision.Pose, error) {
	var all []vision.Pose
	for _, r := range p.Regions(regions) {
		back, err := e.Letterbox(p, r)
		if err != nil {
			return nil, err
		}
		if err := e.Run(ctx); err != nil {
			return nil, err
		}
		found, err := e.read(back)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	all = vision.Distinct(all, e.Manifest().Scores.Overlap)
	for i := range all {
		all[i].Score = vision.Unit(all[i].Score)
	}
	return all, nil
}

// table is an output as rows of numbers, one a person.
type table struct {
	data []float32
	rows int
	// stride and step are the distances between two rows and between two numbers of a row.
	stride, step int
	// corners says that a box is two corners, not centre and size.
	corners bool
	points  int // place of the first point in a row
}

func (t table) at(row, i int) float64 { return float64(t.data[row*t.stride+i*t.step]) }

// yolo reads the output of a YOLO-pose model. Which of its forms the file has shows in the shape; a raw output lies with one person a
// column in the usual export.
func (e *Model) yolo(back vision.Affine) ([]vision.Pose, error) {
	out, err := e.Result("poses", 1, -1, -1)
	if err != nil {
		return nil, err
	}
	k := len(e.Manifest().Skeleton.Keypoints)
	raw, chosen := rawHead+valuesPerPoint*k, chosenHead+valuesPerPoint*k
	a, b := int(out.Shape[1]), int(out.Shape[2])
	switch {
	case a == raw:
		return e.people(table{data: out.F32, rows: b, stride: 1, step: b, points: rawHead}, back), nil
	case b == raw:
		return e.people(table{data: out.F32, rows: a, stride: b, step: 1, points: rawHead}, back), nil
	case b == chosen:
		return e.people(table{data: out.F32, rows: a, stride: b, step: 1, points: chosenHead, corners: true}, back), nil
	}
	return nil, fmt.Errorf("%w: output %s has the shape %v; with %d points it should have %d or %d numbers a person", vision.ErrLayout,
		out.Name, out.Shape, k, raw, chosen)
}

// people reads the rows that score enough, in the coordinates of the picture. Scores stay as the model gives them until the best of
// overlapping people is chosen: several of them may exceed 1.
func (e *Model) people(t table, back vision.Affine) []vision.Pose {
	m := e.Manifest()
	var all []vision.Pose
	for row := range t.rows {
		score := t.at(row, 4)
		if !(score >= m.Scores.Person) {
			continue
		}
		p := vision.Pose{Score: score, Keypoints: make([]pose.Keypoint, len(m.Skeleton.Keypoints))}
		p.Box = box(back, t.at(row, 0), t.at(row, 1), t.at(row, 2), t.at(row, 3), t.corners)
		for i := range p.Keypoints {
			at := t.points + valuesPerPoint*i
			x, y := back.Scaled(t.at(row, at), t.at(row, at+1))
			p.Keypoints[i] = vision.Point(x, y, t.at(row, at+2), m.Scores.Point)
		}
		if isPerson(p) {
			all = append(all, p)
		}
		if len(all) >= maxCandidates {
			all = vision.Distinct(all, m.Scores.Overlap)
		}
		if len(all) >= maxCandidates {
			break
		}
	}
	return vision.Distinct(all, m.Scores.Overlap)
}

// box maps a box of the input, given by centre and size or by two corners.
func box(back vision.Affine, a, b, c, d float64, corners bool) pose.Box {
	if !corners {
		a, b, c, d = a-c/2, b-d/2, a+c/2, b+d/2
	}
	x0, y0 := back.Scaled(a, b)
	x1, y1 := back.Scaled(c, d)
	return pose.Box{X: x0, Y: y0, W: x1 - x0, H: y1 - y0}
}

// isPerson says whether a row is a person at all. RTMO, having found nobody, gives one row of zeros, and so do exports that pad their rows.
func isPerson(p vision.Pose) bool {
	if !(p.Box.W > 0 && p.Box.H > 0) || math.IsInf(p.Box.W, 0) || math.IsInf(p.Box.H, 0) {
		return false
	}
	for _, k := range p.Keypoints {
		if k.Found {
			return true
		}
	}
	return false
}

// rtmo reads the two outputs of an RTMO model.
func (e *Model) rtmo(back vision.Affine) ([]vision.Pose, error) {
	k := len(e.Manifest().Skeleton.Keypoints)
	boxes, err := e.Result("boxes", 1, -1, rawHead)
	if err != nil {
		return nil, err
	}
	points, err := e.Result("points", 1, boxes.Shape[1], int64(k), valuesPerPoint)
	if err != nil {
		return nil, err
	}
	// Both as one table, as if the model had written it so.
	rows, width := int(boxes.Shape[1]), rawHead+valuesPerPoint*k
	data := make([]float32, 0, rows*width)
	for i := range rows {
		data = append(data, boxes.F32[i*rawHead:(i+1)*rawHead]...)
		data = append(data, points.F32[i*valuesPerPoint*k:(i+1)*valuesPerPoint*k]...)
	}
	return e.people(table{data: data, rows: rows, stride: width, step: 1, points: rawHead, corners: true}, back), nil
}

var _ vision.MultiPose = (*Model)(nil)
