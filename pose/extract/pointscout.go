package extract

import (
	"context"
	"image"
	"maps"
	"slices"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
	"github.com/posefleet/posefleet/pose/models"
	"github.com/posefleet/posefleet/pose/vision"
)

// pointScout follows people with a model that finds the points of one person at a time: each in the region around the points of the
// frame before. New people come from the model's detector.
type pointScout struct {
	model  *models.Model
	size   image.Point
	slots  int
	gate   gate
	finder *finder
	// regions are the search regions of the live tracks, by id; next are those of the last look's observations.
	regions map[int]vision.ROI
	next    []vision.ROI
}

func newPointScout(m *models.Model, size image.Point, slots int) *pointScout {
	return &pointScout{model: m, size: size, slots: slots, gate: newGate(m, size), finder: newFinder(size, defaultRefresh), regions: map[int]vision.ROI{}}
}

func (s *pointScout) look(ctx context.Context, pic *picture) ([]pose.Observation, error) {
	s.next = nil
	seen, err := s.follow(ctx, pic)
	if err != nil {
		return nil, err
	}
	return s.discover(ctx, pic, seen)
}

func (s *pointScout) named(ids []int) {
	clear(s.regions)
	for i, id := range ids {
		if id != 0 {
			s.regions[id] = s.next[i]
		}
	}
}

func (s *pointScout) cut() {
	s.finder.cut()
	clear(s.regions)
}

// follow looks for the tracked people where they should be.
func (s *pointScout) follow(ctx context.Context, pic *picture) ([]pose.Observation, error) {
	var seen []pose.Observation
	for _, id := range slices.Sorted(maps.Keys(s.regions)) {
		p, err := s.model.Estimator.Estimate(ctx, s.gate.picture(pic), s.regions[id])
		if err != nil {
			return nil, err
		}
		o, ok := s.gate.observe(p, pic, id)
		if next := vision.NextROI(s.model.Estimator, p); ok && next.Valid() {
			seen, s.next = append(seen, o), append(s.next, next)
			continue
		}
		s.finder.lose(squareAround(s.regions[id].Bounds()), 0, 0)
	}
	return seen, nil
}

// discover adds people whom the detector sees and who are not followed yet, while there are slots.
func (s *pointScout) discover(ctx context.Context, pic *picture, seen []pose.Observation) ([]pose.Observation, error) {
	found, err := s.detect(ctx, pic, len(seen))
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		known := slices.ContainsFunc(seen, func(o pose.Observation) bool { return o.Box.IoU(f.Box) > knownOverlap })
		if known || len(seen) >= s.slots {
			continue
		}
		p, err := s.settle(ctx, pic, f)
		if err != nil {
			return nil, err
		}
		o, ok := s.gate.observe(p, pic, 0)
		next := vision.NextROI(s.model.Estimator, p)
		if !ok || !next.Valid() || slices.ContainsFunc(seen, func(other pose.Observation) bool { return pose.SameBody(other, o) }) {
			continue
		}
		seen, s.next = append(seen, o), append(s.next, next)
	}
	return seen, nil
}

// knownOverlap is the overlap with a followed person's box from which a find is that person.
const knownOverlap = 0.4

// detect runs the detector where it is due in this frame.
func (s *pointScout) detect(ctx context.Context, pic *picture, live int) ([]vision.Find, error) {
	sweep, regions := s.finder.plan(live, s.slots, image.Rectangle{})
	if watched := s.finder.around(s.finder.watch(nil)); !sweep {
		regions = append(regions, watched...)
	}
	if !sweep && len(regions) == 0 {
		return nil, nil
	}
	return s.model.Detector.Detect(ctx, s.gate.picture(pic), regions)
}

// squareAround is the region around a box.
func squareAround(b pose.Box) blazepose.ROI {
	x, y := b.Centre()
	return blazepose.ROI{Cx: x, Cy: y, Size: b.Side()}
}

// settle takes the points of a find twice: the detector's box is rough, and that of the first points is better.
func (s *pointScout) settle(ctx context.Context, pic *picture, f vision.Find) (vision.Pose, error) {
	e := s.model.Estimator
	first, err := e.Estimate(ctx, s.gate.picture(pic), e.Region(f.Box))
	if err != nil || first.Score < s.model.Scores.Person || !e.Region(first.Box).Valid() {
		return first, err
	}
	return e.Estimate(ctx, s.gate.picture(pic), e.Region(first.Box))
}
