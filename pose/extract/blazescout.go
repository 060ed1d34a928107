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
	// places are those of the live tracks, by id; next are those of the last look's observations.
	places map[int]place
	next   []place
}

// place is where to look for somebody.
type place struct {
	blazepose.ROI
	// vx, vy is the smoothed speed in pixels a frame.
	vx, vy float64
	// sure says that the detector was sure of this person.
	sure bool
}

// speedShare is the share of a new value in the smoothed speed.
const speedShare = 0.3

// then is the place after the next look.
func (p place) then(next blazepose.ROI) place {
	p.vx += speedShare * (next.Cx - p.Cx - p.vx)
	p.vy += speedShare * (next.Cy - p.Cy - p.vy)
	p.ROI = next
	return p
}

func newBlazeScout(e *blazepose.Estimator, size image.Point, slots int) *blazeScout {
	return &blazeScout{
		estimator: e, size: size, slots: slots, finder: newFinder(size, refreshOf(e)), places: map[int]place{},
	}
}

// refreshOf is after how many frames the detector takes a look while people are followed: so that its runs cost less than a tenth of
// those of the landmark model, of which they take 0.24 (heavy), 1.2 (full) and 2.1 (lite).
func refreshOf(e *blazepose.Estimator) int {
	switch e.Info().Name {
	case "blazepose-heavy":
		return 4
	case "blazepose-full":
		return 14
	}
	return 24
}

func (s *blazeScout) look(ctx context.Context, pic *picture) ([]pose.Observation, error) {
	s.next = s.next[:0]
	early := lookEarly(ctx, s.estimator, pic, s.finder.guess(len(s.places), s.slots))
	defer early.wait()
	seen, err := s.follow(ctx, pic)
	if err != nil {
		return nil, err
	}
	return s.discover(ctx, pic, seen, early)
}

func (s *blazeScout) named(ids []int) {
	for _, id := range slices.Sorted(maps.Keys(s.places)) {
		if at := s.places[id]; !slices.Contains(ids, id) {
			s.finder.lose(at.ROI, at.vx, at.vy)
		}
	}
	clear(s.places)
	for i, id := range ids {
		if id != 0 {
			s.places[id] = s.next[i]
		}
	}
}

func (s *blazeScout) cut() {
	s.finder.cut()
	clear(s.places)
}

// follow looks for the tracked people where they should be.
func (s *blazeScout) follow(ctx context.Context, pic *picture) ([]pose.Observation, error) {
	var seen []pose.Observation
	ids := slices.Sorted(maps.Keys(s.places))
	for _, id := range ids {
		at := s.places[id]
		lm, err := s.estimator.Landmarks(ctx, pic.Picture, at.ROI)
		if err != nil {
			return nil, err
		}
		if o, ok := s.observe(lm, pic, id); ok {
			seen, s.next = append(seen, o), append(s.next, at.then(lm.Next))
		}
	}
	return s.part(ctx, pic, seen, ids)
}

// discover adds people whom the detector sees and who are not followed yet, while there are slots.
func (s *blazeScout) discover(ctx context.Context, pic *picture, seen []pose.Observation, early *earlyLook) ([]pose.Observation, error) {
	before := len(seen)
	seen, err := s.await(ctx, pic, seen)
	if err != nil {
		return nil, err
	}
	var moving image.Rectangle
	if pic.motion != nil {
		moving = pic.motion.beyond(seen, s.size)
	}
	sweep, regions := s.finder.plan(len(seen), s.slots, moving)
	for level := range blazepose.Levels {
		if sweep {
			regions = blazepose.Tiles(s.size, level)
		}
		found, err := early.at(ctx, regions)
		if err != nil {
			return nil, err
		}
		if seen, err = s.add(ctx, pic, seen, found); err != nil {
			return nil, err
		}
		if !sweep || level > 0 && len(seen) > 0 {
			break
		}
	}
	s.finder.found(len(seen) > before)
	for i := range seen {
		if s.next[i].sure {
			seen[i].Trust = max(seen[i].Trust, sureTrust)
		}
	}
	return seen, nil
}

// await looks for those who were lost, where they should be by now. The landmark model sees them sooner than the detector: who comes out from
// behind somebody is hidden by half at first.
func (s *blazeScout) await(ctx context.Context, pic *picture, seen []pose.Observation) ([]pose.Observation, error) {
	hidden := func(at blazepose.ROI) bool { return len(before(seen, at)) > 0 }
	for _, lost := range s.finder.watch(hidden) {
		if len(seen) >= s.slots {
			break
		}
		o, next, ok, err := s.peek(ctx, pic, lost.ROI, seen, 0)
		if err != nil {
			return nil, err
		}
		if ok {
			seen, s.next = append(seen, o), append(s.next, place{ROI: next, vx: lost.vx, vy: lost.vy})
			s.finder.back(next)
		}
	}
	return seen, nil
}

// taken reports whether one of the people seen is this one: that is, so near that the joints are less than a part of the body apart.
func taken(seen []pose.Observation, o pose.Observation, apart float64) bool {
	return slices.ContainsFunc(seen, func(other pose.Observation) bool { return pose.SameBody(other, o) || pose.Apart(other, o) < apart })
}

// add takes the finds that are people who are not followed yet.
func (s *blazeScout) add(ctx context.Context, pic *picture, seen []pose.Observation, found []find) ([]pose.Observation, error) {
	known := recognised(found, s.next)
	for i, f := range found {
		if at := known[i]; at >= 0 {
			s.next[at].sure = s.next[at].sure || f.wide >= sureDetection
			continue
		}
		if len(seen) >= s.slots {
			continue
		}
		lm, ok, err := s.settle(ctx, pic, f)
		if err != nil {
			return nil, err
		}
		o, shown := s.observe(lm, pic, 0)
		if !ok || !shown || taken(seen, o, 0) {
			continue
		}
		seen, s.next = append(seen, o), append(s.next, place{ROI: lm.Next, sure: f.wide >= sureDetection})
		known = recognised(found, s.next)
		s.finder.back(lm.Next)
	}
	return seen, nil
}

func (s *blazeScout) observe(lm blazepose.Landmarks, pic *picture, from int) (pose.Observation, bool) {
	w, h := s.size.X, s.size.Y
	o, ok := observe(lm, w, h, from)
	if ok {
		o.Look = look(pic.Picture, o.Keypoints)
	}
	return o, ok
}
