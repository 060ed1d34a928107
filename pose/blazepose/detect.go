package blazepose

import (
	"context"
	"image"
	"slices"
)

// Detect looks once at one region of a picture and returns the people in it, best first. The region is
// cut to the picture; an empty one means the whole picture.
func (e *Estimator) Detect(ctx context.Context, p Picture, region image.Rectangle) ([]Detection, error) {
	return e.DetectRegions(ctx, p, []image.Rectangle{region})
}

// DetectRegions looks at several regions of a picture and returns the people in all of them, each once, best first.
// Regions are treated as in Detect.
func (e *Estimator) DetectRegions(ctx context.Context, p Picture, regions []image.Rectangle) ([]Detection, error) {
	if e.detector == nil {
		return nil, ErrClosed
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	var all []candidate
	for _, r := range regions {
		found, err := e.look(ctx, p, clip(r, p.Size()))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return merge(all), nil
}

// DetectPyramid looks at the whole picture and then, while nobody is found, at finer and finer tiles, so that
// distant people are found too. A person seen in several tiles is returned once, and only people whom the landmark
// model confirms are returned: fine tiles show the detector many things that resemble people. Best first.
func (e *Estimator) DetectPyramid(ctx context.Context, p Picture) ([]Detection, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	for level := range Levels {
		seen, err := e.DetectRegions(ctx, p, Tiles(p.Size(), level))
		if err != nil {
			return nil, err
		}
		found, err := e.confirmAll(ctx, p, seen)
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, nil
}

// confirmAll keeps the detections that the landmark model confirms, each person once.
func (e *Estimator) confirmAll(ctx context.Context, p Picture, seen []Detection) ([]Detection, error) {
	var found []Detection
	for _, d := range seen {
		l, ok, err := e.Confirm(ctx, p, d)
		if err != nil {
			return nil, err
		}
		if d.ROI = l.Next; ok && !slices.ContainsFunc(found, func(o Detection) bool { return samePlace(o.ROI, d.ROI) }) {
			found = append(found, d)
		}
	}
	return found, nil
}

// Confirm looks twice with the landmark model at what the detector saw, the second time where the first look led
// to, and says whether a person is there. The landmarks are those of the second look.
func (e *Estimator) Confirm(ctx context.Context, p Picture, d Detection) (Landmarks, bool, error) {
	first, err := e.Landmarks(ctx, p, d.ROI)
	if err != nil || first.Presence < minPresence || !first.Next.Valid() {
		return first, false, err
	}
	second, err := e.Landmarks(ctx, p, first.Next)
	ok := err == nil && second.Presence >= minPresence && second.Score >= minBody && second.Next.Valid()
	return second, ok, err
}

// What confirms a person: see Landmarks.
const (
	minPresence = 0.5
	minBody     = 0.5
)

// clip cuts a region to the picture; an empty one becomes the whole picture.
func clip(r image.Rectangle, size image.Point) image.Rectangle {
	whole := image.Rectangle{Max: size}
	if r = r.Canon().Intersect(whole); r.Empty() {
		return whole
	}
	return r
}

// look runs the detector on one region.
func (e *Estimator) look(ctx context.Context, p Picture, region image.Rectangle) ([]candidate, error) {
	b := e.wide.fit(p, region)
	e.runs.Detector++
	out, err := e.run(ctx, e.detector, e.detectorIn)
	if err != nil {
		return nil, err
	}
	var all []candidate
	for _, d := range decodeDetections(out[0].F32, out[1].F32, e.anchors, b, e.minScore) {
		all = append(all, candidate{d, d.Score * (0.1 + 0.9*insideShare(d.ROI, region, p.Size()))})
	}
	return all, nil
}
