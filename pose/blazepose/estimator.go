package blazepose

import (
	"context"
	"errors"
	"image"

	"github.com/posefleet/posefleet/pose"
	"gocv.io/x/gocv"
)

// Estimator finds people and their points with one model. It is not safe for concurrent use: it owns work
// buffers. Close frees its native memory.
type Estimator struct{}

var errUnfinished = errors.New("blazepose: inference is not connected yet")

// Open loads and checks the models of c. The caller must Close the estimator.
func Open(c Config) (*Estimator, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return nil, errUnfinished
}

// Close frees the native sessions and buffers. A second call does nothing.
func (e *Estimator) Close() error { return nil }

// Info names the landmark model.
func (e *Estimator) Info() pose.ModelInfo { return pose.ModelInfo{} }

// Engine is the name of the engine in use: onnxruntime or opencv.
func (e *Estimator) Engine() string { return "" }

// Detect looks once at one region of img (BGR, 8 bits) and returns the people in it, best first. The region is
// cut to the picture; an empty one means the whole picture.
func (e *Estimator) Detect(ctx context.Context, img gocv.Mat, region image.Rectangle) ([]Detection, error) {
	return nil, errUnfinished
}

// DetectPyramid looks at the whole picture and then, while nobody is found, at finer and finer tiles, so that
// distant people are found too. A person seen in several tiles is returned once. Best first.
func (e *Estimator) DetectPyramid(ctx context.Context, img gocv.Mat) ([]Detection, error) {
	return nil, errUnfinished
}

// Landmarks returns the pose of the person in roi.
func (e *Estimator) Landmarks(ctx context.Context, img gocv.Mat, roi ROI) (Landmarks, error) {
	return Landmarks{}, errUnfinished
}
