package blazepose

import (
	"context"
	"fmt"

	"github.com/posefleet/posefleet/pose/infer"
)

// Landmarks returns the pose of the person in roi. What strokes cover is not shown to the model.
func (e *Estimator) Landmarks(ctx context.Context, p Picture, roi ROI, strokes ...Stroke) (Landmarks, error) {
	return e.landmarks(ctx, p, roi, false, strokes)
}

// Mirrored is what Landmarks makes of the mirror image of roi, turned back to the picture.
func (e *Estimator) Mirrored(ctx context.Context, p Picture, roi ROI) (Landmarks, error) {
	return e.landmarks(ctx, p, roi, true, nil)
}

func (e *Estimator) landmarks(ctx context.Context, p Picture, roi ROI, mirrored bool, strokes []Stroke) (Landmarks, error) {
	var l Landmarks
	if e.landmark == nil {
		return l, ErrClosed
	}
	if err := p.check(); err != nil {
		return l, err
	}
	if !roi.Valid() {
		return l, fmt.Errorf("%w: %+v", ErrROI, roi)
	}
	e.close.cut(p, roi)
	e.close.cover(roi, strokes)
	if mirrored {
		e.close.mirror()
	}
	e.runs.Landmark++
	out, err := e.run(ctx, e.landmark, e.landmarkIn)
	if err != nil {
		return l, err
	}
	e.read(&l, out, roi, mirrored)
	return l, nil
}

// read reads the model's outputs for a crop of roi, or for its mirror image.
func (e *Estimator) read(l *Landmarks, out []infer.Tensor, roi ROI, mirrored bool) {
	points := e.points[:]
	decodePoints(&e.points, out[outPoints].F32)
	// The two points of the next region stay as guessed: their heat is vague, and regions set by it are worse.
	refine(points[:NumPoints], out[outHeat].F32)
	if mirrored {
		unmirror(points)
	}
	toPicture(points, roi)
	if !finite(points) {
		return // the model lost itself: nobody is there
	}
	copy(l.Points[:], points)
	e.scale.rate(l)
	if mirrored {
		decodeWorld(&l.World, out[outWorld].F32, -roi.Rotation)
		unmirrorWorld(&l.World)
	} else {
		decodeWorld(&l.World, out[outWorld].F32, roi.Rotation)
	}
	l.Presence = float64(out[outPresence].F32[0])
	centre, rim := points[nextCentre], points[nextRim]
	l.Next = alignedROI(Point2{centre.X, centre.Y}, Point2{rim.X, rim.Y})
}
