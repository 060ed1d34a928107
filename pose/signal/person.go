package signal

import (
	"math"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/pose"
)

// body is what is known of a skeleton: its bones and its partners by name.
type body struct {
	points int
	// cutoff and gap of each point, in Hz and real seconds; a negative gap leaves the point alone.
	cutoff, gap []float64
	// swaps are groups of left and right partners that a model exchanges together.
	swaps [][][2]int
	// bones are proximal and distal point, from the trunk outwards.
	bones [][2]int
}

func newBody(c Config) body {
	n := len(c.Skeleton.Keypoints)
	b := body{points: n, cutoff: make([]float64, n), gap: slices.Repeat([]float64{-1}, n)}
	for _, g := range c.Groups {
		for _, p := range g.Points {
			b.cutoff[p], b.gap[p] = g.CutoffHz, g.MaxGapMs/1000
		}
	}
	b.swaps = partners(c.Skeleton)
	for _, pair := range [][2]string{
		{"shoulder", "elbow"},
		{"elbow", "wrist"},
		{"wrist", "pinky"},
		{"wrist", "index"},
		{"wrist", "thumb"},
		{"hip", "knee"},
		{"knee", "ankle"},
		{"ankle", "heel"},
		{"ankle", "foot_index"},
		{"ankle", "big_toe"},
		{"ankle", "small_toe"},
	} {
		for _, side := range []string{"left_", "right_"} {
			from, to := c.Skeleton.Index(side+pair[0]), c.Skeleton.Index(side+pair[1])
			if from >= 0 && to >= 0 {
				b.bones = append(b.bones, [2]int{from, to})
			}
		}
	}
	return b
}

// partners groups left and right points that change sides together: the arms, the legs, and by themselves shoulders and hips, which
// a model may still see right when it mistakes the limbs below them.
func partners(s pose.Skeleton) [][][2]int {
	var groups [4][][2]int
	for i, name := range s.Keypoints {
		rest, ok := strings.CutPrefix(name, "left_")
		if !ok {
			continue
		}
		j := s.Index("right_" + rest)
		group := map[limb]int{arms: 0, legs: 1}
		g, limbed := group[limbOf(rest)]
		switch {
		case j < 0:
			continue
		case rest == "shoulder":
			g = 2
		case rest == "hip":
			g = 3
		case !limbed:
			continue // eyes and ears
		}
		groups[g] = append(groups[g], [2]int{i, j})
	}
	return slices.DeleteFunc(groups[:], func(g [][2]int) bool { return len(g) == 0 })
}

// mark is what was done to a point in a frame.
type mark uint8

const (
	filled mark = 1 << iota
	rejected
	swapped
)

// series is one point of one person over a window.
type series struct {
	x, y, score []float64
	ok          []bool
	marks       []mark
}

func newSeries(n int) *series {
	return &series{x: make([]float64, n), y: make([]float64, n), score: make([]float64, n), ok: make([]bool, n), marks: make([]mark, n)}
}

func (s *series) swapAt(o *series, i int) {
	s.x[i], o.x[i] = o.x[i], s.x[i]
	s.y[i], o.y[i] = o.y[i], s.y[i]
	s.score[i], o.score[i] = o.score[i], s.score[i]
	s.ok[i], o.ok[i] = o.ok[i], s.ok[i]
	s.marks[i] |= swapped
	o.marks[i] |= swapped
}

func (s *series) reject(i int) {
	s.ok[i] = false
	s.marks[i] |= rejected
}

// apart is the distance of two points in one frame.
func apart(a, b *series, i int) float64 { return math.Hypot(a.x[i]-b.x[i], a.y[i]-b.y[i]) }

// person is one track over a window.
type person struct {
	body  *body
	track int
	times []float64
	// seen tells in which frames the person is, size how large there: the longer side of the box, evened out over sizeSpan frames.
	seen   []bool
	size   []float64
	points []*series
}

// sizeSpan is how many frames to both sides the person's size is taken from.
const sizeSpan = 30

func (w *window) person(track int) *person {
	n := len(w.frames)
	p := &person{body: &w.filter.body, track: track, times: w.times, seen: make([]bool, n), size: make([]float64, n)}
	for range p.body.points {
		p.points = append(p.points, newSeries(n))
	}
	sides := make([]float64, n)
	for i, f := range w.frames {
		k := slices.IndexFunc(f.People, func(o pose.Person) bool { return o.Track == track })
		if k < 0 {
			continue
		}
		p.seen[i], sides[i] = true, f.People[k].Box.Side()
		for j, point := range f.People[k].Keypoints {
			if j < len(p.points) && point.Found {
				s := p.points[j]
				s.x[i], s.y[i], s.score[i], s.ok[i] = point.X, point.Y, point.Score, true
			}
		}
	}
	for i := range n {
		p.size[i] = math.Max(1, quantile(sides, p.seen, i, sizeSpan, 0.5))
	}
	return p
}

// filter does all steps.
func (p *person) filter() {
	for _, pairs := range p.body.swaps {
		p.unswap(pairs)
	}
	p.rejectLongBones()
	for i, s := range p.points {
		if p.body.gap[i] < 0 {
			continue
		}
		p.rejectSpikes(s)
		s.fill(p.times, p.body.gap[i])
		for lo, hi := range s.runs(p.times, p.body.gap[i]) {
			if p.body.cutoff[i] > 0 {
				smoothRun(p.times[lo:hi], s.x[lo:hi], p.body.cutoff[i])
				smoothRun(p.times[lo:hi], s.y[lo:hi], p.body.cutoff[i])
			}
		}
	}
}

// put adds the person's smoothed points of frame i to f.
func (p *person) put(f *pose.Frame, i int) {
	out := &pose.Smooth{Keypoints: make([]pose.Keypoint, len(p.points))}
	any := false
	for j, s := range p.points {
		if s.ok[i] {
			out.Keypoints[j] = pose.Keypoint{X: s.x[i], Y: s.y[i], Score: s.score[i], Found: true}
			any = true
		}
		for m, list := range map[mark]*[]int{filled: &out.Filled, rejected: &out.Rejected, swapped: &out.Swapped} {
			if s.marks[i]&m != 0 {
				*list = append(*list, j)
			}
		}
	}
	if k := slices.IndexFunc(f.People, func(o pose.Person) bool { return o.Track == p.track }); k >= 0 {
		f.People[k].Smooth = out
		return
	}
	if any {
		f.Filled = append(f.Filled, pose.Person{Track: p.track, Smooth: out})
	}
}

// quantile is the q-quantile of the values at i and span places to both sides that are ok; 0 if there is none.
func quantile(values []float64, ok []bool, i, span int, q float64) float64 {
	var near []float64
	for j := max(0, i-span); j <= min(len(values)-1, i+span); j++ {
		if ok[j] {
			near = append(near, values[j])
		}
	}
	if len(near) == 0 {
		return 0
	}
	slices.Sort(near)
	return near[int(q*float64(len(near)-1)+0.5)]
}
