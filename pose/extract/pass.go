package extract

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/media"
)

// pass is the work on one clip, frame by frame.
type pass struct {
	scout scout
	pump  *pump
	scale scale
	spool *spool

	tracker pose.Tracker
	cuts    cutFinder
	cutAt   []float64
	ramps   rampFinder
	rampAt  []pose.Ramp
	chooser pose.Chooser
	counts  map[int]*trackCount
	frames  int
	last    float64
}

// trackCount is what the choice of real tracks needs.
type trackCount struct {
	frames       int
	score, trust float64
}

// scale leads from pixels of the decoded frame to pixels of the upright picture. Pixel centres are whole numbers on both sides.
type scale struct{ x, y float64 }

func (s scale) point(k pose.Keypoint) pose.Keypoint {
	k.X = (k.X+0.5)*s.x - 0.5
	k.Y = (k.Y+0.5)*s.y - 0.5
	return k
}

func newPass(s scout, p *pump, sp *spool, info *media.Info, hint *pose.Hint) *pass {
	return &pass{
		scout: s, pump: p, scale: scale{p.reader.ScaleX, p.reader.ScaleY}, spool: sp, counts: map[int]*trackCount{},
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
	if ramp, ok := p.ramps.add(pic.T); ok {
		p.rampAt = append(p.rampAt, ramp)
	}
	cut := p.cuts.sees(pic.Picture)
	if pic.motion = &p.cuts.motion; cut || p.frames == 0 {
		pic.motion = nil
	}
	if cut {
		p.cutAt = append(p.cutAt, pic.T)
		p.tracker.Cut()
		p.scout.cut()
	}
	seen, err := p.scout.look(ctx, pic)
	if err != nil {
		return err
	}
	ids := p.tracker.Update(pic.T, seen)
	p.scout.named(ids)
	frame := pose.Frame{T: pic.T, People: []pose.Person{}}
	for i, id := range ids {
		if id != 0 {
			frame.People = append(frame.People, p.person(id, seen[i]))
			p.count(id, seen[i])
		}
	}
	return p.keep(frame)
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
	return p.spool.add(f)
}

func (p *pass) count(id int, o pose.Observation) {
	c := p.counts[id]
	if c == nil {
		c = &trackCount{}
		p.counts[id] = c
	}
	c.frames++
	c.score += o.Score
	c.trust += o.Trust
}

const (
	// blinkMs is how short a track may be before it is taken for a fault of the detector, in clips of at least blinkClipMs.
	blinkMs, blinkClipMs = 200, 1000
)

// names numbers the real tracks in the order of their appearance; those that only blinked up, or that are not people over the whole track,
// have no name: they are nowhere in the document, not even in the first frames.
func (p *pass) names() map[int]int {
	names := map[int]int{}
	p.unite()
	step := p.last / float64(max(1, p.frames-1))
	for _, id := range slices.Sorted(maps.Keys(p.counts)) {
		c := p.counts[id]
		if p.last >= blinkClipMs && step*float64(c.frames) < blinkMs || c.trust < trackTrust*float64(c.frames) {
			continue
		}
		names[id] = len(names) + 1
	}
	for track, as := range p.tracker.Same() {
		if name, ok := names[as]; ok {
			names[track] = name
		}
	}
	return names
}

// unite adds up what belongs to one person under two ids.
func (p *pass) unite() {
	for track, as := range p.tracker.Same() {
		p.chooser.Same(track, as)
		if a, b := p.counts[track], p.counts[as]; a != nil && b != nil {
			b.frames, b.score, b.trust = b.frames+a.frames, b.score+a.score, b.trust+a.trust
			delete(p.counts, track)
		}
	}
}
