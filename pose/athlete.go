package pose

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Hint points at the athlete: a time in ms and a place in pixels of the upright picture.
type Hint struct{ T, X, Y float64 }

// Chooser finds out over a whole clip who the athlete is. Add takes the frames in order; Choose answers at the end.
// It keeps a few numbers a person, not the frames.
type Chooser struct {
	// Height is the picture's height in pixels.
	Height float64
	// Hint, if set, decides instead of movement.
	Hint   *Hint
	frames int
	people map[int]*share
}

// share is one person's part in the clip.
type share struct {
	id     int
	frames int
	// way is the path of the joints in body lengths; size, found and score are sums over the frames of the body's share
	// of the picture's height, the share of points found and the score.
	way, size, found, score float64
	// at, points and body are of the last sample of the path.
	at     float64
	points []Keypoint
	// off is the distance from the hint in time (ms) and then in pixels, the best so far.
	offTime, offPlace float64
}

const (
	// sampleEvery is the time in ms between two samples of the path: shorter steps would add up jitter.
	sampleEvery = 100
	// noiseWay is the part of a step, in body lengths, that is jitter.
	noiseWay = 0.01
	// hintWindow is how many ms from the hint's time a frame may be.
	hintWindow = 500
	// insidePlace is above the distance of every person whose box holds the hint's point, in pixels.
	insidePlace = 0.01
	// stillWay keeps clips in which nobody moves decidable by size and completeness.
	stillWay = 0.2
)

// Add takes one frame.
func (c *Chooser) Add(f Frame) {
	c.frames++
	if c.people == nil {
		c.people = map[int]*share{}
	}
	for _, p := range f.People {
		s := c.people[p.Track]
		if s == nil {
			s = &share{id: p.Track, at: math.Inf(-1), offTime: math.Inf(1), offPlace: math.Inf(1)}
			c.people[p.Track] = s
		}
		s.add(f.T, p, c.Height)
		s.hint(f.T, p, c.Hint)
	}
}

// Forget takes a person out of the choice.
func (c *Chooser) Forget(track int) { delete(c.people, track) }

// Same says that the track is, in truth, the other one; it comes after the last frame.
func (c *Chooser) Same(track, as int) {
	a, b := c.people[track], c.people[as]
	if a == nil || b == nil {
		return
	}
	b.frames, b.way, b.size, b.found, b.score = b.frames+a.frames, b.way+a.way, b.size+a.size, b.found+a.found, b.score+a.score
	if a.offTime < b.offTime {
		b.offTime, b.offPlace = a.offTime, a.offPlace
	}
	delete(c.people, track)
}

// Choose names the athlete; nil if nobody was found.
func (c *Chooser) Choose() *Athlete {
	if len(c.people) == 0 {
		return nil
	}
	if a := c.byHint(); a != nil {
		return a
	}
	all := c.sorted(func(s *share) float64 { return -s.rating(c.frames) })
	best := all[0]
	a := &Athlete{Track: best.id, Margin: 1}
	if len(all) > 1 {
		a.Margin = 1 - all[1].rating(c.frames)/math.Max(best.rating(c.frames), 1e-9)
	}
	n := float64(best.frames)
	a.Reason = fmt.Sprintf("moves most for the size: a way of %.1f body lengths, %.0f %% of the picture's height, in %.0f %% of the frames, %.0f %% of the points found",
		best.way, 100*best.size/n, 100*n/float64(c.frames), 100*best.found/n)
	if len(all) == 1 {
		a.Reason = fmt.Sprintf("the only person found, in %.0f %% of the frames", 100*n/float64(c.frames))
	}
	if c.Hint != nil {
		a.Reason += fmt.Sprintf("; nobody was found within %d ms of the point that was asked for", hintWindow)
	}
	return a
}

func (c *Chooser) byHint() *Athlete {
	if c.Hint == nil {
		return nil
	}
	all := c.sorted(func(s *share) float64 { return s.offPlace })
	best := all[0]
	if math.IsInf(best.offPlace, 1) {
		return nil
	}
	a := &Athlete{Track: best.id, Margin: 1, Reason: "asked for: the point lies on this person"}
	if best.offPlace >= insidePlace {
		a.Reason = fmt.Sprintf("asked for: nearest to the point, %.0f pixels away", best.offPlace)
	}
	if len(all) > 1 && !math.IsInf(all[1].offPlace, 1) {
		near, far := best.offPlace, all[1].offPlace
		a.Margin = (far - near) / math.Max(far, 1)
	}
	return a
}

func (c *Chooser) sorted(key func(*share) float64) []*share {
	all := make([]*share, 0, len(c.people))
	for _, s := range c.people {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *share) int {
		return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.id, b.id))
	})
	return all
}

func (s *share) add(at float64, p Person, height float64) {
	s.frames++
	s.score += unit(p.Score)
	if height > 0 {
		s.size += p.Box.Side() / height
	}
	found := 0
	for _, k := range p.Keypoints {
		if k.usable() {
			found++
		}
	}
	s.found += float64(found) / float64(max(1, len(p.Keypoints)))
	if at-s.at < sampleEvery {
		return
	}
	if at-s.at < 10*sampleEvery {
		s.way += step(s.points, p)
	}
	s.at = at
	s.points = append(s.points[:0], p.Keypoints...)
}

// step is the mean way of the joints in body lengths, jitter taken off.
func step(before []Keypoint, p Person) float64 {
	sum, weight := 0.0, 0.0
	for i := range min(len(before), len(p.Keypoints)) {
		a, b := before[i], p.Keypoints[i]
		if a.usable() && b.usable() {
			w := min(a.Score, b.Score)
			sum += w * math.Hypot(a.X-b.X, a.Y-b.Y)
			weight += w
		}
	}
	if weight == 0 {
		return 0
	}
	return math.Max(0, sum/weight/math.Max(1, p.Box.Side())-noiseWay)
}

// hint keeps how near the person was to the hint: in the nearest frame in time, and of those the distance.
func (s *share) hint(at float64, p Person, h *Hint) {
	if h == nil || math.Abs(at-h.T) > hintWindow {
		return
	}
	if off := math.Abs(at - h.T); off < s.offTime {
		s.offTime, s.offPlace = off, p.Box.Distance(h.X, h.Y)
		if s.offPlace == 0 {
			// Of several people under the point the one is meant whose middle it hits best.
			x, y := p.Box.Centre()
			s.offPlace = insidePlace * math.Min(1, math.Hypot(x-h.X, y-h.Y)/math.Max(1, p.Box.Side())) / 2
		}
	}
}

// rating weighs movement over the clip with size and completeness.
func (s *share) rating(frames int) float64 {
	n := float64(s.frames)
	present := n / float64(max(1, frames))
	return (stillWay + s.way) * math.Sqrt(s.size/n) * (s.found / n) * (s.score / n) * present
}
