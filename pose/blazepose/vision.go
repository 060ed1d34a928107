package blazepose

import (
	"context"
	"image"
	"math"
	"slices"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/vision"
)

// Detector is the estimator's way to find people, behind the seam that all families share: other families' estimators look for their
// points in what it finds. Nothing is reported that the landmark model does not confirm.
type Detector struct{ *Estimator }

// Detect implements vision.Detector. Without regions it looks at the whole picture, and at finer and finer tiles while nobody is found.
func (d Detector) Detect(ctx context.Context, p vision.Picture, regions []image.Rectangle) ([]vision.Find, error) {
	img := BGR(p.Pix, p.Width, p.Height)
	if len(regions) > 0 {
		return d.level(ctx, img, regions)
	}
	for level := range Levels {
		found, err := d.level(ctx, img, Tiles(image.Pt(p.Width, p.Height), level))
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, nil
}

// level looks at regions and has what is found there confirmed.
func (d Detector) level(ctx context.Context, img Picture, regions []image.Rectangle) ([]vision.Find, error) {
	seen, err := d.DetectRegions(ctx, img, regions)
	if err != nil {
		return nil, err
	}
	var found []vision.Find
	var places []ROI
	for _, s := range seen {
		l, ok, err := d.Confirm(ctx, img, s)
		if err != nil {
			return nil, err
		}
		if !ok || slices.ContainsFunc(places, func(r ROI) bool { return samePlace(r, l.Next) }) {
			continue
		}
		places = append(places, l.Next)
		found = append(found, vision.Find{Box: bodyBox(l), Score: s.Score, ROI: seamROI(l.Next)})
	}
	return found, nil
}

// bodyBox is the box around the points that are in the picture.
func bodyBox(l Landmarks) pose.Box {
	points := seamPoints(l)
	if b, ok := pose.Bounds(points); ok && b.W > 0 && b.H > 0 {
		return b
	}
	return l.Next.Bounds()
}

// Points is the estimator's way to find the points of one person, behind the seam that all families share.
type Points struct{ *Estimator }

// Skeleton implements vision.Estimator.
func (Points) Skeleton() pose.Skeleton { return pose.BlazePose33() }

// Region implements vision.Estimator: an upright square with room for hands and feet.
func (Points) Region(box pose.Box) vision.ROI { return vision.Around(box, roiScale, 1) }

// Estimate implements vision.Estimator. The region is taken as a square.
func (e Points) Estimate(ctx context.Context, p vision.Picture, roi vision.ROI) (vision.Pose, error) {
	img := BGR(p.Pix, p.Width, p.Height)
	l, err := e.Landmarks(ctx, img, ROI{Cx: roi.Cx, Cy: roi.Cy, Size: math.Max(roi.W, roi.H), Rotation: roi.Rotation})
	if err != nil {
		return vision.Pose{}, err
	}
	return vision.Pose{Score: vision.Unit(l.Presence), Box: bodyBox(l), Keypoints: seamPoints(l), Next: seamROI(l.Next)}, nil
}

// Tensors are the inputs and outputs of the landmark model.
func (e *Estimator) Tensors() (in, out []infer.TensorInfo) {
	if e.landmark == nil {
		return nil, nil
	}
	return e.landmark.Inputs(), e.landmark.Outputs()
}

func seamROI(r ROI) vision.ROI {
	return vision.ROI{Cx: r.Cx, Cy: r.Cy, W: r.Size, H: r.Size, Rotation: r.Rotation}
}

// seamPresence is the presence from which a point is in the picture.
const seamPresence = 0.5

func seamPoints(l Landmarks) []pose.Keypoint {
	points := make([]pose.Keypoint, len(l.Points))
	for i, p := range l.Points {
		if p.Presence >= seamPresence {
			points[i] = vision.Point(p.X, p.Y, p.Score, 0)
		}
	}
	return points
}

var (
	_ vision.Detector  = Detector{}
	_ vision.Estimator = Points{}
)

// Runtime is the engine in use; nil after Close.
func (e *Estimator) Runtime() infer.Engine { return e.engine }
