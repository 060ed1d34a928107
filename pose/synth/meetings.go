package synth

import "math"

// Meeting is a scene of two people that is hard on whoever tells them apart. Actor 0 is the athlete: the one who moves most.
type Meeting struct {
	Name  string
	Scene Scene
	// Seconds is how long it lasts.
	Seconds float64
}

// Meetings are people side by side, crossing, leaving and returning, in pictures of the given size.
func Meetings(width, height int) []Meeting {
	w, h := float64(width), float64(height)
	stroll := func(from, to, start, seconds, tall, depth float64) func(float64) (Place, bool) {
		return walker(w*from, w*to, 0.92*h+depth*0.02*h, start, seconds, tall*h, depth*h)
	}
	meet := func(name string, seconds float64, athlete, other func(float64) (Place, bool)) Meeting {
		return Meeting{Name: name, Seconds: seconds, Scene: Scene{Width: width, Height: height, Actors: []Actor{
			{Clothes: Wardrobe(0), At: athlete}, {Clothes: Wardrobe(2), At: other},
		}}}
	}
	return []Meeting{
		meet("side by side", 4, jumper(0.42*w, 0.93*h, 0.6*h), stroll(0.56, 0.62, 0, 4, 0.56, -0.5)),
		meet("crossing", 4, stroll(0.08, 0.92, 0, 4, 0.6, 1), stroll(0.8, 0.25, 0, 4, 0.55, -1)),
		meet("leaving", 4, stroll(0.1, 0.85, 0, 4, 0.6, 0), stroll(0.4, -0.25, 0, 3, 0.55, -1)),
		meet("returning", 6, jumper(0.3*w, 0.93*h, 0.58*h), there(stroll(0.62, 1.2, 0, 1.8, 0.56, 0), 3.4, stroll(1.2, 0.6, 3.4, 2.2, 0.56, 0))),
	}
}

// walker walks on a line from one x to another, from a time on, and looks where it goes.
func walker(from, to, ground, start, seconds, tall, depth float64) func(float64) (Place, bool) {
	return func(t float64) (Place, bool) {
		part := min(max((t-start)/seconds, 0), 1)
		x := from + (to-from)*part
		// A step with each leg takes the body 0.8 of its height further.
		stance := Walk(math.Abs(x-from)/(0.8*tall), math.Copysign(1.35, to-from))
		return Place{X: x, Y: ground, Height: tall, Depth: depth, Stance: stance}, t >= start
	}
}

// jumper does jumping jacks on the spot.
func jumper(x, ground, tall float64) func(float64) (Place, bool) {
	return func(t float64) (Place, bool) {
		return Place{X: x, Y: ground, Height: tall, Stance: Jack(t, 0.2)}, true
	}
}

// there goes on with another way from a time on.
func there(first func(float64) (Place, bool), at float64, then func(float64) (Place, bool)) func(float64) (Place, bool) {
	return func(t float64) (Place, bool) {
		if t < at {
			return first(t)
		}
		return then(t)
	}
}
