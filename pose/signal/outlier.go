package signal

import "math"

const (
	// spikeSpan is from how many frames to both sides the usual deviation is taken, spikeTimes how many times that is a fault,
	// spikeFloor the least fault in parts of the person's size.
	spikeSpan  = 7
	spikeTimes = 4 * 1.4826
	spikeFloor = 0.03
	// spikeBend is how many times more than the path around it bends a point must be off it.
	spikeBend = 3
	// boneSpan, boneTimes and boneFloor are the same for lengths of bones; boneCount is how many lengths it takes to judge.
	boneSpan  = 32
	boneTimes = 1.5
	boneFloor = 0.05
	boneCount = 12
	// nearSeconds is how far apart frames may be that are compared.
	nearSeconds = 0.25
)

// rejectSpikes takes single points out that jump off the path of their neighbours: a Hampel filter on the distance from the cubic
// through the two points on each side. A moving median would cut the tips off fast arms; the cubic follows them, and where the path
// itself bends sharply nothing is rejected.
func (p *person) rejectSpikes(s *series) {
	n := len(s.ok)
	off, bend, known := make([]float64, n), make([]float64, n), make([]bool, n)
	for i := 2; i < n-2; i++ {
		if s.ok[i-2] && s.ok[i-1] && s.ok[i] && s.ok[i+1] && s.ok[i+2] && p.times[i+2]-p.times[i-2] <= nearSeconds {
			off[i], bend[i] = s.deviation(p.times, i)
			known[i] = true
		}
	}
	for i := range off {
		usual := quantile(off, known, i, spikeSpan, 0.5)
		limit := math.Max(spikeFloor*p.size[i], spikeTimes*usual)
		// Beside a spike the path bends because of it: only the worst point of three is at fault.
		worst := known[i] && off[i] >= off[max(0, i-1)] && off[i] >= off[min(n-1, i+1)]
		if worst && off[i] > limit && off[i] > spikeBend*bend[i] {
			s.reject(i)
		}
	}
}

// deviation is how far point i is from the cubic through its two neighbours on each side, and how far that cubic is from the
// straight line between the inner two.
func (s *series) deviation(times []float64, i int) (off, bend float64) {
	at := [4]int{i - 2, i - 1, i + 1, i + 2}
	var cx, cy float64
	for _, a := range at {
		w := 1.0
		for _, b := range at {
			if b != a {
				w *= (times[i] - times[b]) / (times[a] - times[b])
			}
		}
		cx += w * s.x[a]
		cy += w * s.y[a]
	}
	u := (times[i] - times[i-1]) / (times[i+1] - times[i-1])
	lx, ly := (1-u)*s.x[i-1]+u*s.x[i+1], (1-u)*s.y[i-1]+u*s.y[i+1]
	return math.Hypot(s.x[i]-cx, s.y[i]-cy), math.Hypot(lx-cx, ly-cy)
}

// rejectLongBones takes the outer ends of bones out that are longer than bones get: in the picture a bone may look shorter than it is,
// never longer.
func (p *person) rejectLongBones() {
	n := len(p.times)
	length, known := make([]float64, n), make([]bool, n)
	for _, bone := range p.body.bones {
		from, to := p.points[bone[0]], p.points[bone[1]]
		count := 0
		for i := range n {
			known[i] = from.ok[i] && to.ok[i]
			if known[i] {
				length[i] = apart(from, to, i)
				count++
			}
		}
		if count < boneCount {
			continue
		}
		for i := range n {
			if known[i] && length[i] > boneFloor*p.size[i] && length[i] > boneTimes*quantile(length, known, i, boneSpan, 0.8) {
				to.reject(i)
			}
		}
	}
}
