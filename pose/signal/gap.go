package signal

import "iter"

// slopeFrames is from how many frames beside a gap the speed at its end is taken.
const slopeFrames = 3

// fill interpolates gaps whose ends are at most maxGap seconds apart, by the cubic that fits the points and speeds on both sides.
func (s *series) fill(times []float64, maxGap float64) {
	last := -1
	for i, ok := range s.ok {
		if !ok {
			continue
		}
		if last >= 0 && i-last > 1 && times[i]-times[last] <= maxGap+1e-9 {
			s.bridge(times, last, i)
		}
		last = i
	}
}

// bridge fills between frames a and b.
func (s *series) bridge(times []float64, a, b int) {
	span := times[b] - times[a]
	for _, v := range [][]float64{s.x, s.y} {
		secant := (v[b] - v[a]) / span
		in := s.slope(times, v, a, -1, secant)
		out := s.slope(times, v, b, 1, secant)
		for i := a + 1; i < b; i++ {
			u := (times[i] - times[a]) / span
			h := u * u * (3 - 2*u)
			v[i] = (1-h)*v[a] + h*v[b] + span*u*(1-u)*((1-u)*in-u*out)
		}
	}
	for i := a + 1; i < b; i++ {
		s.ok[i] = true
		s.marks[i] |= filled
		s.score[i] = min(s.score[a], s.score[b])
	}
}

// slope is the speed of v at frame i, from raw points on the side away from the gap; other where there are none.
func (s *series) slope(times, v []float64, i, step int, other float64) float64 {
	j := i
	for range slopeFrames {
		if n := j + step; n >= 0 && n < len(v) && s.ok[n] && s.marks[n]&filled == 0 {
			j = n
		} else {
			break
		}
	}
	if j == i {
		return other
	}
	return (v[i] - v[j]) / (times[i] - times[j])
}

// runs yields the stretches, from and to, of found points without a step of more than maxGap seconds.
func (s *series) runs(times []float64, maxGap float64) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		start := -1
		for i := 0; i <= len(s.ok); i++ {
			on := i < len(s.ok) && s.ok[i]
			if start >= 0 && (!on || times[i]-times[i-1] > maxGap+1e-9) {
				if !yield(start, i) {
					return
				}
				start = -1
			}
			if on && start < 0 {
				start = i
			}
		}
	}
}
