package signal

import "math"

const (
	// passShare makes each of the two passes lose 1.5 dB at the cut-off, so that both together lose 3.
	passShare = 0.80224
	// maxWarp bounds the cut-off in parts of half the frame rate where a frame comes late.
	maxWarp = 0.9
	// minRun is the least number of points that is worth a filter.
	minRun = 4
	// padTimes is how many time constants of the filter the ends are prolonged by.
	padTimes = 6
)

// smoothRun filters v in place: a Butterworth filter of second order, once forwards and once backwards, so that nothing is delayed.
// Each step is the trapezoidal rule with the step's own length, which for equal steps is the usual digital filter, exact at the
// cut-off, and for unequal ones still knows the true times. What is filtered is the way off the straight line from the first to the
// last point, so that lines stay what they are; ends are prolonged by their reflection through the last point.
func smoothRun(times, v []float64, cutoff float64) {
	n := len(v)
	if n < minRun {
		return
	}
	base := chord(times, v)
	for i := range v {
		v[i] -= base[i]
	}
	before, after := padding(times, cutoff), paddingBack(times, cutoff)
	t := make([]float64, 0, before+n+after)
	u := make([]float64, 0, cap(t))
	for i := before; i > 0; i-- {
		t, u = append(t, 2*times[0]-times[i]), append(u, 2*v[0]-v[i])
	}
	t, u = append(t, times...), append(u, v...)
	for i := 1; i <= after; i++ {
		t, u = append(t, 2*times[n-1]-times[n-1-i]), append(u, 2*v[n-1]-v[n-1-i])
	}
	pass(t, u, cutoff, 1)
	pass(t, u, cutoff, -1)
	for i := range v {
		v[i] = base[i] + u[before+i]
	}
}

// chord is the straight line from the first to the last point.
func chord(times, v []float64) []float64 {
	n := len(v)
	line := make([]float64, n)
	for i := range line {
		u := (times[i] - times[0]) / (times[n-1] - times[0])
		line[i] = (1-u)*v[0] + u*v[n-1]
	}
	return line
}

// padding is how many points at the start cover padTimes time constants.
func padding(times []float64, f float64) int {
	reach, n := padTimes/(math.Sqrt2*math.Pi*f), 1
	for n < len(times)-1 && times[n]-times[0] < reach {
		n++
	}
	return n
}

func paddingBack(times []float64, f float64) int {
	reach, last := padTimes/(math.Sqrt2*math.Pi*f), len(times)-1
	n := 1
	for n < last && times[last]-times[last-n] < reach {
		n++
	}
	return n
}

// pass filters u in place in one direction. The filter is at rest at the first point.
//
//	x' = w·v, v' = w·(u - x - √2·v), with w·step/2 = tan(π·f·step) / passShare in each step
func pass(t, u []float64, f float64, direction int) {
	i := 0
	if direction < 0 {
		i = len(u) - 1
	}
	x, v, rate := u[i], 0.0, 0.0
	before := u[i]
	for range len(u) - 1 {
		i += direction
		step := math.Abs(t[i] - t[i-direction])
		if step <= 0 {
			u[i] = x
			continue
		}
		h := math.Tan(math.Pi*math.Min(f*step, maxWarp/2)) / passShare
		// v is the speed in units of w: it keeps its value in real units when w changes with the step.
		if w := 2 * h / step; rate > 0 && w != rate {
			v *= rate / w
			rate = w
		} else {
			rate = w
		}
		now := u[i]
		next := (v*(1-math.Sqrt2*h-h*h) + h*(now+before-2*x)) / (1 + math.Sqrt2*h + h*h)
		x += h * (next + v)
		v, before = next, now
		u[i] = x
	}
}
