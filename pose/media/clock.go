package media

import "math"

// clock turns presentation stamps into times in ms from the first shown frame. Times rise strictly.
//
// A frame without a stamp gets the next time by the frame rate. A stamp that does not rise starts a new stretch: it, and those
// after it, are moved so that they go on one frame after the last; if the stamps then return to the former stretch, so does the
// clock.
type clock struct {
	// tick is one unit of the stamps in ms, interval one frame by the declared rate in ms.
	tick, interval float64
	// jumps says that the container may jump ahead in time at a splice (MPEG-TS).
	jumps bool
	// guessed says that frames at the start have no stamps in the file: what the decoder gives for them is its guess. It is not
	// used; the frame rate is, until the stamps start anew.
	guessed bool

	lastRaw   float64
	frames    int
	last      float64
	shift     float64 // added to stamp × tick
	before    float64 // shift of the former stretch
	stretched bool
	stamped   bool
	estimated bool

	minStep, maxStep, lastStep float64
}

// spliceGap is the forward jump in ms that is a splice and no pause, where splices occur.
const spliceGap = 10_000

// next returns the time of the next frame; stamp is nil where the frame has none.
func (c *clock) next(stamp *int64) float64 {
	t := c.place(stamp)
	if c.frames > 0 {
		c.lastStep = t - c.last
		c.maxStep = math.Max(c.maxStep, c.lastStep)
		if c.minStep == 0 || c.lastStep < c.minStep {
			c.minStep = c.lastStep
		}
	}
	c.last = t
	c.frames++
	return t
}

func (c *clock) place(stamp *int64) float64 {
	due := c.last + c.interval
	if c.frames == 0 {
		due = 0
	}
	if stamp == nil {
		c.estimated = true
		return due
	}
	raw := float64(*stamp) * c.tick
	restart := raw <= c.lastRaw
	c.lastRaw = raw
	if c.guessed {
		c.estimated = true
		c.guessed = c.frames == 0 || !restart
		c.stamped = true
		c.shift = due - raw
		return due
	}
	if !c.stamped {
		c.stamped = true
		c.shift = due - raw
		return due
	}
	t := raw + c.shift
	if t > c.last && !(c.jumps && t-c.last > spliceGap) {
		if c.stretched {
			return c.maybeReturn(raw, t)
		}
		return t
	}
	c.estimated = true
	c.stretched = true
	c.before = c.shift
	c.shift = due - raw
	return due
}

// maybeReturn goes back to the former stretch of stamps if that gives the nearer time.
func (c *clock) maybeReturn(raw, t float64) float64 {
	old := raw + c.before
	if old > c.last && old < t && old-c.last < 4*c.interval {
		c.shift = c.before
		c.stretched = false
		return old
	}
	return t
}

// variable reports whether frames are not equally far apart, beyond what the stamps' unit rounds away.
func (c *clock) variable() bool {
	return c.frames > 2 && c.maxStep-c.minStep > 1.5*c.tick+0.02*c.minStep
}

// duration is the length of all frames in ms. The last frame lasts as the container says, or as the one before it.
func (c *clock) duration(declared float64) float64 {
	if c.frames == 0 {
		return 0
	}
	step := c.lastStep
	if c.frames == 1 {
		step = c.interval
	}
	if rest := declared - c.last; rest > 0 && rest < 2*math.Max(step, c.interval) {
		return declared
	}
	return c.last + step
}
