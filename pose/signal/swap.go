package signal

import (
	"math"
	"slices"
)

// Costs of the search for exchanged sides. Distances are in parts of the person's size: a point that jumps from one leg to the other
// in a stride costs about 0.3 on each side in two frames.
const (
	// switchCost is for every change between straight and exchanged, exchangedCost for each exchanged second: labels are right most
	// of the time, and what is exchanged for long is the model's view, not a slip.
	switchCost, exchangedCost = 0.3, 2.0
	maxStepCost               = 1.0
	// nearStep is how far apart two frames may be for a speed to mean anything.
	nearStep = 0.15
)

// unswap finds the frames in which left and right of the pairs are exchanged and changes them back. Of all ways to label the frames it
// takes the one in which the points move most steadily (least change of speed, so that legs may cross), with a cost for each exchange:
// dynamic programming over the labels of two frames in a row.
func (p *person) unswap(pairs [][2]int) {
	frames := p.comparable(pairs)
	if len(frames) < 3 {
		return
	}
	// state = 2·(label of the frame before) + label of this frame; label 1 is exchanged.
	cost := [4]float64{0, switchCost, switchCost, 0}
	from := make([][4]uint8, len(frames))
	for k := 1; k < len(frames); k++ {
		step := p.times[frames[k]] - p.times[frames[k-1]]
		if k == 1 {
			for s := range cost {
				cost[s] += float64(s&1) * exchangedCost * step
			}
			continue
		}
		var next [4]float64
		for s := range next {
			before, now := s>>1, s&1
			next[s] = math.Inf(1)
			for older := range 2 {
				c := cost[2*older+before] + p.unsteady(pairs, frames[k-2:k+1], older, before, now)
				if c < next[s] {
					next[s], from[k][s] = c, uint8(2*older+before)
				}
			}
			next[s] += float64(now) * exchangedCost * step
			if before != now {
				next[s] += switchCost
			}
		}
		cost = next
	}
	p.relabel(pairs, frames, from, cost)
}

// comparable lists the frames in which at least half of the pairs are found on both sides.
func (p *person) comparable(pairs [][2]int) []int {
	var frames []int
	for i := range p.times {
		n := 0
		for _, pair := range pairs {
			if p.points[pair[0]].ok[i] && p.points[pair[1]].ok[i] {
				n++
			}
		}
		if n > 0 && 2*n >= len(pairs) {
			frames = append(frames, i)
		}
	}
	return frames
}

// unsteady is the cost of three frames with the given labels: how far the pairs are from where their speed would have taken them.
func (p *person) unsteady(pairs [][2]int, f []int, older, before, now int) float64 {
	d1, d2 := p.times[f[1]]-p.times[f[0]], p.times[f[2]]-p.times[f[1]]
	if d1 > nearStep || d2 > nearStep || d1 <= 0 {
		return 0
	}
	ratio := math.Min(2, d2/d1)
	sum, n := 0.0, 0
	for _, pair := range pairs {
		sides := [2]*series{p.points[pair[0]], p.points[pair[1]]}
		if !bothFound(sides, f) {
			continue
		}
		for side := range 2 {
			a, b, c := sides[side^older], sides[side^before], sides[side^now]
			x := b.x[f[1]] + ratio*(b.x[f[1]]-a.x[f[0]])
			y := b.y[f[1]] + ratio*(b.y[f[1]]-a.y[f[0]])
			sum += math.Hypot(c.x[f[2]]-x, c.y[f[2]]-y)
		}
		n++
	}
	if n == 0 {
		return 0
	}
	return math.Min(maxStepCost, sum/float64(n)/p.size[f[2]])
}

func bothFound(sides [2]*series, frames []int) bool {
	for _, i := range frames {
		if !sides[0].ok[i] || !sides[1].ok[i] {
			return false
		}
	}
	return true
}

// relabel walks the best way back and changes what is exchanged.
func (p *person) relabel(pairs [][2]int, frames []int, from [][4]uint8, cost [4]float64) {
	state := 0
	for s := range cost {
		if cost[s] < cost[state] {
			state = s
		}
	}
	for k, frame := range slices.Backward(frames) {
		if state&1 == 1 {
			for _, pair := range pairs {
				p.points[pair[0]].swapAt(p.points[pair[1]], frame)
			}
		}
		state = step(from, k, state)
	}
}

// step is the state of the frame before k; of the first frame it is its label alone.
func step(from [][4]uint8, k, state int) int {
	if k >= 2 {
		return int(from[k][state])
	}
	return state >> 1
}
