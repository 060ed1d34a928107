package blazepose

import (
	"context"
	"image"

	"gocv.io/x/gocv"
)

// Detect looks once at one region of img (BGR, 8 bits) and returns the people in it, best first. The region is
// cut to the picture; an empty one means the whole picture.
func (e *Estimator) Detect(ctx context.Context, img gocv.Mat, region image.Rectangle) ([]Detection, error) {
	return e.DetectRegions(ctx, img, []image.Rectangle{region})
}

// DetectRegions looks at several regions of img and returns the people in all of them, each once, best first.
// Regions are treated as in Detect.
func (e *Estimator) DetectRegions(ctx context.Context, img gocv.Mat, regions []image.Rectangle) ([]Detection, error) {
	if e.detector == nil {
		return nil, ErrClosed
	}
	if err := checkImage(img); err != nil {
		return nil, err
	}
	size := image.Pt(img.Cols(), img.Rows())
	var all []candidate
	for _, r := range regions {
		found, err := e.look(ctx, img, clip(r, size))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return merge(all), nil
}

// DetectPyramid looks at the whole picture and then, while nobody is found, at finer and finer tiles, so that
// distant people are found too. A person seen in several tiles is returned once. Best first.
func (e *Estimator) DetectPyramid(ctx context.Context, img gocv.Mat) ([]Detection, error) {
	if err := checkImage(img); err != nil {
		return nil, err
	}
	size := image.Pt(img.Cols(), img.Rows())
	for level := range Levels {
		found, err := e.DetectRegions(ctx, img, Tiles(size, level))
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, nil
}

// clip cuts a region to the picture; an empty one becomes the whole picture.
func clip(r image.Rectangle, size image.Point) image.Rectangle {
	whole := image.Rectangle{Max: size}
	if r = r.Canon().Intersect(whole); r.Empty() {
		return whole
	}
	return r
}

// look runs the detector on one region.
func (e *Estimator) look(ctx context.Context, img gocv.Mat, region image.Rectangle) ([]candidate, error) {
	b, err := e.shrinker.shrink(img, region)
	if err != nil {
		return nil, err
	}
	out, err := e.run(ctx, e.detector, e.detectorIn)
	if err != nil {
		return nil, err
	}
	size := image.Pt(img.Cols(), img.Rows())
	var all []candidate
	for _, d := range decodeDetections(out[0].F32, out[1].F32, e.anchors, b, e.minScore) {
		all = append(all, candidate{d, d.Score * (0.1 + 0.9*insideShare(d.ROI, region, size))})
	}
	return all, nil
}
