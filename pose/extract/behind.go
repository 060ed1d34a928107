package extract

import (
	"context"
	"math"
	"slices"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// The landmark model knows one person only: of two who overlap it takes the one in front, or mixes them up, long before one hides the other
// and long after. So whoever is missed beside others is looked for once more with those others painted over.

// bone is a stroke that covers a part of a body.
type bone struct {
	from, to int
	// thick is its width in parts of the longer side of the body's box.
	thick float64
}

// bones cover a body of the blazepose33 skeleton: trunk, arms, legs, head.
var bones = []bone{
	{11, 12, 0.11},
	{23, 24, 0.11},
	{11, 23, 0.14},
	{12, 24, 0.14},
	{11, 24, 0.11},
	{12, 23, 0.11},
	{11, 13, 0.075},
	{12, 14, 0.075},
	{13, 15, 0.075},
	{14, 16, 0.075},
	{15, 19, 0.055},
	{16, 20, 0.055},
	{23, 25, 0.11},
	{24, 26, 0.11},
	{25, 27, 0.075},
	{26, 28, 0.075},
	{29, 31, 0.055},
	{30, 32, 0.055},
	{7, 11, 0.075},
	{8, 12, 0.075},
	{7, 8, 0.17},
}

// before are those of the people who may stand before a place.
func before(people []pose.Observation, at blazepose.ROI) []pose.Observation {
	bounds := at.Bounds()
	return slices.DeleteFunc(slices.Clone(people), func(o pose.Observation) bool { return !(o.Box.IoU(bounds) > 0) })
}

// strokes cover people.
func strokes(people []pose.Observation) []blazepose.Stroke {
	var out []blazepose.Stroke
	for _, o := range people {
		for _, b := range bones {
			p, q := o.Keypoints[b.from], o.Keypoints[b.to]
			if p.Found && q.Found {
				out = append(out, blazepose.Stroke{From: blazepose.Point2{X: p.X, Y: p.Y}, To: blazepose.Point2{X: q.X, Y: q.Y}, Thick: b.thick * o.Box.Side()})
			}
		}
	}
	return out
}

// part sets right what goes wrong where people overlap: of two on one body the one stays who is where they should be; who is unsure beside
// others, and who is missed, is looked for behind them. ids are all who were looked for.
func (s *blazeScout) part(ctx context.Context, pic *picture, seen []pose.Observation, ids []int) ([]pose.Observation, error) {
	for i, ok := s.stray(seen); ok; i, ok = s.stray(seen) {
		seen, s.next = slices.Delete(seen, i, i+1), slices.Delete(s.next, i, i+1)
	}
	for _, id := range ids {
		at, i := s.places[id], slices.IndexFunc(seen, func(o pose.Observation) bool { return o.From == id })
		others := slices.DeleteFunc(slices.Clone(seen), func(o pose.Observation) bool { return o.From == id })
		if i >= 0 && seen[i].Trust >= lostHeat || len(before(others, at.ROI)) == 0 {
			continue
		}
		o, next, ok, err := s.peek(ctx, pic, at.ROI, others, id)
		switch {
		case err != nil:
			return nil, err
		case ok && i >= 0:
			seen[i], s.next[i] = o, at.then(next)
		case ok:
			seen, s.next = append(seen, o), append(s.next, at.then(next))
		}
	}
	return seen, nil
}

// stray is one of the people whose joints lie on those of another one: the one who is further from where they should be.
func (s *blazeScout) stray(seen []pose.Observation) (int, bool) {
	for i := range seen {
		for j := range i {
			switch {
			case pose.Apart(seen[i], seen[j]) >= apart:
			case s.strays(seen[j], s.next[j]) > s.strays(seen[i], s.next[i]):
				return j, true
			default:
				return i, true
			}
		}
	}
	return 0, false
}

// strays is how far a followed person went from where they should be, in parts of the region.
func (s *blazeScout) strays(o pose.Observation, next place) float64 {
	at := s.places[o.From]
	return math.Hypot(next.Cx-at.Cx-at.vx, next.Cy-at.Cy-at.vy) / at.Size
}

// peek looks for somebody at a place where others may stand before them, and returns the next region.
func (s *blazeScout) peek(ctx context.Context, pic *picture, at blazepose.ROI, seen []pose.Observation, from int) (pose.Observation, blazepose.ROI, bool, error) {
	front, near, heat := before(seen, at), apart, lostHeat
	if len(front) > 0 {
		heat = heatBehind
	}
	if len(front) > 0 && from != 0 {
		near = apartBehind
	}
	lm, err := s.estimator.Landmarks(ctx, pic.Picture, at, strokes(front)...)
	if err != nil {
		return pose.Observation{}, blazepose.ROI{}, false, err
	}
	o, shown := s.observe(lm, pic, from)
	return o, lm.Next, shown && lm.Presence >= newPresence && lm.Score >= heat && !taken(seen, o, near), nil
}
