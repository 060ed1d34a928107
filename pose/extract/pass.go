package extract

import (
	"context"
	"errors"
	"image"
	"io"
	"maps"
	"slices"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
	"github.com/posefleet/posefleet/pose/media"
)

// pass is the work on one clip, frame by frame.
type pass struct {
	estimator *blazepose.Estimator
	pump      *pump
	slots     int
	scale     scale
	spool     *spool

	finder  *finder
	tracker pose.Tracker
	cuts    cutFinder
	cutAt   []float64
	// regions are the search regions of the live tracks, by id.
	regions map[int]blazepose.ROI
	chooser pose.Chooser
	counts  map[int]*trackCount
	frames  int
	last    float64
}

// trackCount is what the choice of real tracks needs.
type trackCount struct {
	frames int
	score  float64
}

// scale leads from pixels of the decoded frame to pixels of the upright picture. Pixel centres are whole numbers on both sides.
type scale struct{ x, y float64 }

func (s scale) point(k pose.Keypoint) pose.Keypoint {
	k.X = (k.X+0.5)*s.x - 0.5
	k.Y = (k.Y+0.5)*s.y - 0.5
	return k
}

func newPass(e *blazepose.Estimator, p *pump, sp *spool, info *media.Info, slots int, hint *pose.Hint) *pass {
	return &pass{
		estimator: e, pump: p, slots: slots, scale: scale{p.reader.ScaleX, p.reader.ScaleY}, spool: sp,
		finder:  newFinder(image.Pt(p.reader.Width, p.reader.Height)),
		regions: map[int]blazepose.ROI{}, counts: map[int]*trackCount{},
		chooser: pose.Chooser{Height: float64(info.Height), Hint: hint},
	}
}

// run goes through the clip. progress is called after each frame with its time in ms.
func (p *pass) run(ctx context.Context, progress func(frames int, t float64)) error {
	for {
		pic, err := p.pump.next()
		if errors.Is(err, io.EOF) {
			return p.spool.finish()
		}
		if err != nil {
			return err
		}
		err = p.frame(ctx, pic)
		p.pump.put(pic)
		if err != nil {
			return err
		}
		progress(p.frames, p.last)
	}
}

func (p *pass) frame(ctx context.Context, pic *picture) error {
	if p.cuts.sees(pic.pixels, p.pump.reader.Width, p.pump.reader.Height) {
		p.cutAt = append(p.cutAt, pic.T)
		p.tracker.Cut()
		p.finder.cut()
		clear(p.regions)
	}
	seen, next, err := p.follow(ctx, pic)
	if err != nil {
		return err
	}
	if seen, next, err = p.discover(ctx, pic, seen, next); err != nil {
		return err
	}
	ids := p.tracker.Update(pic.T, seen)
	clear(p.regions)
	frame := pose.Frame{T: pic.T, People: []pose.Person{}}
	for i, id := range ids {
		if id != 0 {
			p.regions[id] = next[i]
			frame.People = append(frame.People, p.person(id, seen[i]))
		}
	}
	return p.keep(frame)
}

// follow looks for the tracked people where they should be.
func (p *pass) follow(ctx context.Context, pic *picture) (seen []pose.Observation, next []blazepose.ROI, err error) {
	for _, id := range slices.Sorted(maps.Keys(p.regions)) {
		roi := p.regions[id]
		lm, err := p.estimator.Landmarks(ctx, pic.mat, roi)
		if err != nil {
			return nil, nil, err
		}
		o, ok := p.observe(lm, pic, id)
		if !ok {
			p.finder.lose(roi.Bounds())
			continue
		}
		seen, next = append(seen, o), append(next, lm.Next)
	}
	return seen, next, nil
}

// discover adds people whom the detector sees and who are not followed yet, while there are slots.
func (p *pass) discover(ctx context.Context, pic *picture, seen []pose.Observation, next []blazepose.ROI) ([]pose.Observation, []blazepose.ROI, error) {
	found, err := p.finder.look(ctx, p.estimator, pic.mat, len(seen), p.slots)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range found {
		known := slices.ContainsFunc(next, func(r blazepose.ROI) bool { return sameRegion(r, d.ROI) })
		if known || len(seen) >= p.slots {
			continue
		}
		lm, ok, err := p.settle(ctx, pic, d.ROI)
		if err != nil {
			return nil, nil, err
		}
		o, shown := p.observe(lm, pic, 0)
		if !ok || !shown || slices.ContainsFunc(seen, func(s pose.Observation) bool { return pose.SameBody(s, o) }) {
			continue
		}
		seen, next = append(seen, o), append(next, lm.Next)
	}
	return seen, next, nil
}

// settle takes the landmarks of a region that the detector guessed, and again of the better region that follows from them. It is
// false where they are not to be trusted.
func (p *pass) settle(ctx context.Context, pic *picture, roi blazepose.ROI) (blazepose.Landmarks, bool, error) {
	first, err := p.estimator.Landmarks(ctx, pic.mat, roi)
	if err != nil || !(first.Presence >= newPresence) || !first.Next.Valid() {
		return first, false, err
	}
	second, err := p.estimator.Landmarks(ctx, pic.mat, first.Next)
	return second, err == nil && trusted(first, second), err
}

func (p *pass) observe(lm blazepose.Landmarks, pic *picture, from int) (pose.Observation, bool) {
	w, h := p.pump.reader.Width, p.pump.reader.Height
	o, ok := observe(lm, w, h, from)
	if ok {
		o.Look = look(pic.pixels, w, h, o.Keypoints)
	}
	return o, ok
}

// person is an observation in pixels of the upright picture.
func (p *pass) person(id int, o pose.Observation) pose.Person {
	points := make([]pose.Keypoint, len(o.Keypoints))
	for i, k := range o.Keypoints {
		if k.Found {
			points[i] = p.scale.point(k)
		}
	}
	box, _ := pose.Bounds(points)
	return pose.Person{Track: id, Score: o.Score, Box: box, Keypoints: points}
}

func (p *pass) keep(f pose.Frame) error {
	p.frames++
	p.last = f.T
	p.chooser.Add(f)
	for _, person := range f.People {
		c := p.counts[person.Track]
		if c == nil {
			c = &trackCount{}
			p.counts[person.Track] = c
		}
		c.frames++
		c.score += person.Score
	}
	return p.spool.add(f)
}

const (
	// blinkMs is how short a track may be before it is taken for a fault of the detector, in clips of at least blinkClipMs.
	blinkMs, blinkClipMs = 200, 1000
)

// names numbers the real tracks in the order of their appearance; those that only blinked up have no name.
func (p *pass) names() map[int]int {
	names := map[int]int{}
	step := p.last / float64(max(1, p.frames-1))
	for _, id := range slices.Sorted(maps.Keys(p.counts)) {
		if p.last >= blinkClipMs && step*float64(p.counts[id].frames) < blinkMs {
			continue
		}
		names[id] = len(names) + 1
	}
	return names
}
