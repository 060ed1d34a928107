package extract

import (
	"slices"

	"github.com/posefleet/posefleet/pose"
)

// rampFinder sees where the distance of frames changes for good: a camera or a phone's editor has switched between normal speed and slow
// motion, or the camera to another rate. A dropped frame or a slow lane of jitter is neither.
type rampFinder struct {
	last  float64
	n     int
	steps []float64 // ms between the latest frames
	at    []float64 // times of the frames that end them
}

const (
	// rampSide is how many steps must be steady on both sides, rampWide how many between them may be anything: phones change speed gradually.
	rampSide, rampWide = 8, 6
	// rampSteady is how much longer than the shortest the longest steady step may be, rampRatio how much the sides must differ.
	rampSteady, rampRatio = 1.3, 1.4
)

// add takes the time of the next frame in ms and returns a change of speed that has become certain.
func (r *rampFinder) add(t float64) (pose.Ramp, bool) {
	if r.n++; r.n > 1 {
		r.steps, r.at = append(r.steps, t-r.last), append(r.at, t)
	}
	r.last = t
	if len(r.steps) > 2*rampSide+rampWide {
		r.steps, r.at = r.steps[1:], r.at[1:]
	}
	if len(r.steps) < 2*rampSide {
		return pose.Ramp{}, false
	}
	before, ok1 := steady(r.steps[:rampSide])
	after, ok2 := steady(r.steps[len(r.steps)-rampSide:])
	if !ok1 || !ok2 || max(before, after) < rampRatio*min(before, after) {
		return pose.Ramp{}, false
	}
	// The change begins with the first step that is nearer to those after it than a steady one may be.
	i := slices.IndexFunc(r.steps, func(s float64) bool { return max(s, before) > rampSteady*min(s, before) })
	ramp := pose.Ramp{T: r.at[max(0, i)], From: 1000 / before, To: 1000 / after}
	if i > 0 {
		ramp.T = r.at[i-1]
	}
	keep := len(r.steps) - rampSide
	r.steps, r.at = slices.Clone(r.steps[keep:]), slices.Clone(r.at[keep:])
	return ramp, true
}

// steady is the mean of steps that are about equal.
func steady(steps []float64) (float64, bool) {
	sum := 0.0
	for _, s := range steps {
		sum += s
	}
	least := slices.Min(steps)
	return sum / float64(len(steps)), least > 0 && slices.Max(steps) <= rampSteady*least
}
