package vision

import (
	"context"
	"errors"
	"image"

	"github.com/posefleet/posefleet/pose"
)

// Picture is an upright picture, 8 bits a channel, blue, green, red, row by row without gaps.
type Picture struct {
	Pix           []byte
	Width, Height int
}

// Find is a person that a detector saw.
type Find struct {
	// Box bounds the whole body as far as the detector knows.
	Box pose.Box
	// Score is the detector's confidence, 0..1.
	Score float64
	// ROI is where the detector itself would look for the points; it is not Valid where the detector knows boxes only.
	ROI ROI
}

// Pose is the points of one person.
type Pose struct {
	// Score is the probability that a person is there, 0..1.
	Score float64
	// Box is the model's own box, or that of the found points.
	Box pose.Box
	// Keypoints are in the skeleton's order and of its length. What scored too low is not Found.
	Keypoints []pose.Keypoint
	// Next is where the model itself would look in the next frame; it is not Valid where the family has no such guess.
	Next ROI
}

// Detector finds people.
type Detector interface {
	// Detect looks at regions of a picture and returns the people in them, each once, best first. No regions: the whole picture.
	Detect(ctx context.Context, p Picture, regions []image.Rectangle) ([]Find, error)
}

// Estimator finds the points of one person at a time.
type Estimator interface {
	// Skeleton is the order and the names of the points.
	Skeleton() pose.Skeleton
	// Estimate returns the points of the person in a region. A person who is not there has a low score.
	Estimate(ctx context.Context, p Picture, roi ROI) (Pose, error)
	// Region is the region in which Estimate should look for a person who fills the box: a detector's, or that of the points of the
	// frame before.
	Region(box pose.Box) ROI
}

// NextROI is where to look for a person in the next frame: where the model itself says, else around the points.
func NextROI(e Estimator, p Pose) ROI {
	if p.Next.Valid() {
		return p.Next
	}
	return e.Region(p.Box)
}

// MultiPose finds all people of a picture with their points at once.
type MultiPose interface {
	// Skeleton is the order and the names of the points.
	Skeleton() pose.Skeleton
	// EstimateAll looks at regions of a picture and returns the people in them, each once, best first. No regions: the whole picture.
	EstimateAll(ctx context.Context, p Picture, regions []image.Rectangle) ([]Pose, error)
}

// Faults of callers and of files.
var (
	// ErrPicture says that a picture is not one that can be looked at.
	ErrPicture = errors.New("unusable picture")
	// ErrROI says that a region is not Valid.
	ErrROI = errors.New("unusable region of interest")
	// ErrLayout says that a file's inputs or outputs are not those of its family.
	ErrLayout = errors.New("the model's inputs and outputs are not those of its manifest")
)

// Check refuses pictures whose bytes do not fit their size.
func (p Picture) Check() error {
	if p.Width < 1 || p.Height < 1 || p.Width > maxSide || p.Height > maxSide || len(p.Pix) != 3*p.Width*p.Height {
		return ErrPicture
	}
	return nil
}

// maxSide bounds pictures, so that sizes can be multiplied.
const maxSide = 32000

// Bounds is the whole picture.
func (p Picture) Bounds() image.Rectangle { return image.Rect(0, 0, p.Width, p.Height) }

// Regions cuts regions to the picture; empty ones and none at all become the whole picture.
func (p Picture) Regions(regions []image.Rectangle) []image.Rectangle {
	if len(regions) == 0 {
		return []image.Rectangle{p.Bounds()}
	}
	out := make([]image.Rectangle, len(regions))
	for i, r := range regions {
		if out[i] = r.Canon().Intersect(p.Bounds()); out[i].Empty() {
			out[i] = p.Bounds()
		}
	}
	return out
}
