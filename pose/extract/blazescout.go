package extract

import (
	"context"
	"image"
	"maps"
	"slices"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// blazeScout follows people by the regions that the BlazePose landmarks set, and finds new ones with its detector.
type blazeScout struct {
	estimator *blazepose.Estimator
	size      image.Point
	slots     int
	finder    *finder
	// regions are the search regions of the live tracks, by id; next are those of the last look's observations.
	regions map[int]blazepose.ROI
	next    []blazepose.ROI
}

func newBlazeScout(e *blazepose.Estimator, size image.Point, slots int) *blazeScout {
	return &blazeScout{estimator: e, size: size, slots: slots, finder: newFinder(size), regions: map[int]blazepose.ROI{}}
}

func (s *blazeScout) look(ctx context.Context, pic *picture) ([]pose.Observation, error) {
	seen, next, err := s.follow(ctx, pic)
	if err != nil {
		return nil, err
	}
	seen, s.next, err = s.discover(ctx, pic, seen, next)
	return seen, err
}

func (s *blazeScout) named(ids []int) {
	clear(s.regions)
	for i, id := range ids {
		if id != 0 {
			s.regions[id] = s.next[i]
		}
	}
}

func (s *blazeScout) cut() {
	s.finder.cut()
	clear(s.regions)
}

// follow looks for the tracked people where they should be.
func (s *blazeScout) follow(ctx context.Context, pic *picture) (seen []pose.Observation, next []blazepose.ROI, err error) {
	for _, id := range slices.Sorted(maps.Keys(s.regions)) {
		roi := s.regions[id]
		lm, err := s.estimator.Landmarks(ctx, pic.mat, roi)
		if err != nil {
			return nil, nil, err
		}
		o, ok := s.observe(lm, pic, id)
		if !ok {
			s.finder.lose(roi.Bounds())
			continue
		}
		seen, next = append(seen, o), append(next, lm.Next)
	}
	return seen, next, nil
}

// discover adds people whom the detector sees and who are not followed yet, while there are slots.
func (s *blazeScout) discover(ctx context.Context, pic *picture, seen []pose.Observation, next []blazepose.ROI) ([]pose.Observation, []blazepose.ROI, error) {
	found, err := s.finder.look(ctx, s.estimator, pic.mat, len(seen), s.slots)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range found {
		known := slices.ContainsFunc(next, func(r blazepose.ROI) bool { return sameRegion(r, d.ROI) })
		if known || len(seen) >= s.slots {
			continue
		}
		lm, ok, err := s.settle(ctx, pic, d.ROI)
		if err != nil {
			return nil, nil, err
		}
		o, shown := s.observe(lm, pic, 0)
		if !ok || !shown || slices.ContainsFunc(seen, func(other pose.Observation) bool { return pose.SameBody(other, o) }) {
			continue
		}
		seen, next = append(seen, o), append(next, lm.Next)
	}
	return seen, next, nil
}

// settle takes the landmarks of a region that the detector guessed, and again of the better region that follows from them. It is
// false where they are not to be trusted.
func (s *blazeScout) settle(ctx context.Context, pic *picture, roi blazepose.ROI) (blazepose.Landmarks, bool, error) {
	first, err := s.estimator.Landmarks(ctx, pic.mat, roi)
	if err != nil || !(first.Presence >= newPresence) || !first.Next.Valid() {
		return first, false, err
	}
	second, err := s.estimator.Landmarks(ctx, pic.mat, first.Next)
	return second, err == nil && trusted(first, second), err
}

func (s *blazeScout) observe(lm blazepose.Landmarks, pic *picture, from int) (pose.Observation, bool) {
	w, h := s.size.X, s.size.Y
	o, ok := observe(lm, w, h, from)
	if ok {
		o.Look = look(pic.pixels, w, h, o.Keypoints)
	}
	return o, ok
}
