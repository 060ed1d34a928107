package blazepose

import (
	"context"
	"fmt"
)

// Landmarks returns the pose of the person in roi. What strokes cover is not shown to the model.
func (e *Estimator) Landmarks(ctx context.Context, p Picture, roi ROI, strokes ...Stroke) (Landmarks, error) {
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
	e.runs.Landmark++
	out, err := e.run(ctx, e.landmark, e.landmarkIn)
	if err != nil {
		return l, err
	}
	points := e.points[:]
	decodePoints(&e.points, out[outPoints].F32)
	// The two points of the next region stay as guessed: their heat is vague, and regions set by it are worse.
	refine(points[:NumPoints], out[outHeat].F32)
	toPicture(points, roi)
	if !finite(points) {
		return l, nil // the model lost itself: nobody is there
	}
	copy(l.Points[:], points)
	e.scale.rate(&l)
	decodeWorld(&l.World, out[outWorld].F32, roi.Rotation)
	l.Presence = float64(out[outPresence].F32[0])
	centre, rim := points[nextCentre], points[nextRim]
	l.Next = alignedROI(Point2{centre.X, centre.Y}, Point2{rim.X, rim.Y})
	return l, nil
}
