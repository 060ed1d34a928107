package extract

import (
	"cmp"
	"context"
	"image"
	"maps"
	"math"
	"slices"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
	"github.com/posefleet/posefleet/pose/models"
	"github.com/posefleet/posefleet/pose/vision"
)

// wholeScout finds people with a model that sees all of them at once. It looks at the whole picture of every frame, closer at people who
// are small in it, and at tiles while nobody is found. Somebody is followed by the overlap with the box of the frame before.
type wholeScout struct {
	model  *models.Model
	size   image.Point
	slots  int
	gate   gate
	finder *finder
	// boxes are those of the live tracks, by id; seen are the last look's.
	boxes map[int]pose.Box
	seen  []pose.Observation
}

const (
	// smallShare is the share of the picture's shorter side under which a person is looked at closer, closeSide the side of that look
	// in parts of the person's height.
	smallShare, closeSide = 0.3, 2.5
	// followOverlap is the least overlap with the box of the frame before.
	followOverlap = 0.3
)

func newWholeScout(m *models.Model, size image.Point, slots int) *wholeScout {
	return &wholeScout{model: m, size: size, slots: slots, gate: newGate(m, size), finder: newFinder(size, defaultRefresh), boxes: map[int]pose.Box{}}
}

func (s *wholeScout) look(ctx context.Context, pic *picture) ([]pose.Observation, error) {
	sweep, due := s.finder.plan(len(s.boxes), s.slots, image.Rectangle{})
	found, err := s.model.Multi.EstimateAll(ctx, s.gate.picture(pic), s.regions(due))
	if err == nil && sweep && len(found) == 0 {
		found, err = s.closer(ctx, pic)
	}
	if err != nil {
		return nil, err
	}
	s.seen = s.pick(found, pic)
	return s.seen, nil
}

// regions are the whole picture, what is due to be looked at closer, and the surroundings of small people.
func (s *wholeScout) regions(due []image.Rectangle) []image.Rectangle {
	whole := image.Rectangle{Max: s.size}
	regions := []image.Rectangle{whole}
	for _, r := range due {
		if r != whole {
			regions = append(regions, r)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.boxes)) {
		box := s.boxes[id]
		if box.Side() < smallShare*float64(min(s.size.X, s.size.Y)) {
			x, y := box.Centre()
			half := closeSide * box.Side() / 2
			r := image.Rect(int(x-half), int(y-half), int(x+half), int(y+half)).Intersect(image.Rectangle{Max: s.size})
			if !r.Empty() {
				regions = append(regions, r)
			}
		}
	}
	return regions
}

// closer looks at finer and finer tiles until somebody is found.
func (s *wholeScout) closer(ctx context.Context, pic *picture) ([]vision.Pose, error) {
	for level := 1; level < blazepose.Levels; level++ {
		tiles := blazepose.Tiles(s.size, level)
		if len(tiles) == 0 {
			continue
		}
		found, err := s.model.Multi.EstimateAll(ctx, s.gate.picture(pic), tiles)
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, nil
}

// pick makes observations of poses: each body once, those who are followed first, then the largest, as many as there are slots.
func (s *wholeScout) pick(found []vision.Pose, pic *picture) []pose.Observation {
	var all []pose.Observation
	for _, p := range found {
		o, ok := s.gate.observe(p, pic, 0)
		if ok && !slices.ContainsFunc(all, func(other pose.Observation) bool { return pose.SameBody(other, o) }) {
			all = append(all, o)
		}
	}
	s.follow(all)
	slices.SortStableFunc(all, func(a, b pose.Observation) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Box.Area(), a.Box.Area()))
	})
	return all[:min(len(all), s.slots)]
}

// rank puts followed people in the order of their ids before all others.
func rank(o pose.Observation) int {
	if o.From == 0 {
		return math.MaxInt
	}
	return o.From
}

// follow says whom the observations show, by the overlap of boxes, best pair first.
func (s *wholeScout) follow(all []pose.Observation) {
	type pair struct {
		overlap float64
		id, at  int
	}
	var pairs []pair
	for _, id := range slices.Sorted(maps.Keys(s.boxes)) {
		for i, o := range all {
			if v := s.boxes[id].IoU(o.Box); v >= followOverlap {
				pairs = append(pairs, pair{v, id, i})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.overlap, a.overlap) })
	taken := map[int]bool{}
	for _, p := range pairs {
		if all[p.at].From == 0 && !taken[p.id] {
			all[p.at].From, taken[p.id] = p.id, true
		}
	}
}

func (s *wholeScout) named(ids []int) {
	clear(s.boxes)
	for i, id := range ids {
		if id != 0 {
			s.boxes[id] = s.seen[i].Box
		}
	}
}

func (s *wholeScout) cut() {
	s.finder.cut()
	clear(s.boxes)
}
