package angles

import (
	"math"

	"github.com/posefleet/posefleet/pose"
)

// view is a person in a frame and in the frames around it.
type view struct {
	points []pose.Keypoint
	around [2][]pose.Keypoint
	height float64
	rate   float64
}

const degrees = 180 / math.Pi

// arrow is a bone in the picture, with the uncertainty of its ends in pixels.
type arrow struct {
	x, y, length float64
	from, to     float64
}

// direction is the arrow's in degrees, counter-clockwise from the picture's right.
func (a arrow) direction() float64 { return math.Atan2(-a.y, a.x) * degrees }

// measure is the angle, or the first reason why there is none.
func (v view) measure(a angle) pose.Angle {
	if v.rate > 0 && v.rate < a.def.MinRate {
		return pose.Angle{Reason: pose.ReasonRate}
	}
	arrows := make([]arrow, len(a.bones))
	for i, b := range a.bones {
		var why pose.Reason
		if arrows[i], why = v.arrow(b); why != "" {
			return pose.Angle{Reason: why}
		}
	}
	for i, b := range a.bones {
		if v.turns(b, arrows[i]) {
			return pose.Angle{Reason: pose.ReasonRate}
		}
	}
	for i, b := range a.bones {
		if arrows[i].length < minLength*b.share*v.height {
			return pose.Angle{Reason: pose.ReasonView}
		}
	}
	out := segmentAngle(arrows[0], a.upright)
	if len(arrows) == 2 {
		out = jointAngle(arrows[0], arrows[1])
	}
	if !(out.Error <= maxError) {
		return pose.Angle{Reason: pose.ReasonShort}
	}
	return out
}

func (v view) arrow(b fitted) (arrow, pose.Reason) {
	from, ok1 := place(v.points, b.from)
	to, ok2 := place(v.points, b.to)
	if !ok1 || !ok2 {
		return arrow{}, pose.ReasonMissing
	}
	if from.Score < minScore || to.Score < minScore {
		return arrow{}, pose.ReasonUnsure
	}
	a := arrow{x: to.X - from.X, y: to.Y - from.Y, from: v.uncertainty(from, len(b.from)), to: v.uncertainty(to, len(b.to))}
	a.length = math.Hypot(a.x, a.y)
	return a, ""
}

// uncertainty is a point's standard error along one axis in pixels; a middle of several points has less.
func (v view) uncertainty(k pose.Keypoint, parts int) float64 {
	e := v.height * (pointShare + doubtShare*(1-math.Max(0, math.Min(1, k.Score))))
	return math.Max(pixelError, e) / math.Sqrt(float64(parts))
}

// turns reports whether the bone turns too far to a frame beside this one. A short bone turns by the error of its ends alone, which is no
// reason: only what is more than that counts.
func (v view) turns(b fitted, now arrow) bool {
	for _, points := range v.around {
		from, ok1 := place(points, b.from)
		to, ok2 := place(points, b.to)
		if !ok1 || !ok2 {
			continue
		}
		then := arrow{x: to.X - from.X, y: to.Y - from.Y}
		if math.Abs(wrap(then.direction()-now.direction())) > maxTurn+2*segmentAngle(now, false).Error {
			return true
		}
	}
	return false
}

func segmentAngle(a arrow, upright bool) pose.Angle {
	d := a.direction()
	if upright {
		d -= 90
	}
	return pose.Angle{Degrees: wrap(d), Error: math.Hypot(a.from, a.to) / a.length * degrees}
}

// jointAngle is the angle between two bones that start at the joint. Its error is that of three points: the outer ones turn their own
// bone, the joint turns both at once.
func jointAngle(a, b arrow) pose.Angle {
	cos := (a.x*b.x + a.y*b.y) / (a.length * b.length)
	sin := (a.x*b.y - a.y*b.x) / (a.length * b.length)
	outer := math.Hypot(a.to/a.length, b.to/b.length)
	// Moving the joint across bone a turns a by 1/length, and b by its part across b.
	ax, ay := -a.y/(a.length*a.length), a.x/(a.length*a.length)
	bx, by := -b.y/(b.length*b.length), b.x/(b.length*b.length)
	inner := a.from * math.Hypot(ax-bx, ay-by)
	return pose.Angle{Degrees: math.Abs(math.Atan2(sin, cos)) * degrees, Error: math.Hypot(outer, inner) * degrees}
}

// wrap brings degrees into -180 (not included) to 180.
func wrap(d float64) float64 {
	d = math.Mod(d, 360)
	if d > 180 {
		d -= 360
	}
	if d <= -180 {
		d += 360
	}
	return d
}
