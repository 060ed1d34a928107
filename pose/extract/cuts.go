package extract

import "github.com/posefleet/posefleet/pose/blazepose"

// cutFinder sees hard cuts: the picture changes at once and everywhere, far more than motion did before.
type cutFinder struct {
	before, now []uint8
	usual       float64 // smoothed change from frame to frame, in levels of 255
	motion      motion  // from the frame before to this one
	frames      int
}

const (
	cutGrid = 32
	// cutChange is the least mean change of a cut in levels of 255, cutContrast how many times that of the frames before.
	cutChange, cutContrast = 28.0, 4.0
	motionRate             = 0.2
)

// sees takes the next frame and reports whether it begins another scene.
func (c *cutFinder) sees(p blazepose.Picture) bool {
	c.before, c.now = c.now, c.before[:0]
	size := p.Size()
	for y := range cutGrid {
		for x := range cutGrid {
			v := p.At((2*x+1)*size.X/(2*cutGrid), (2*y+1)*size.Y/(2*cutGrid))
			c.now = append(c.now, v[:]...)
		}
	}
	c.frames++
	if c.frames == 1 {
		return false
	}
	sum := 0
	for i, v := range c.now {
		sum += max(int(v), int(c.before[i])) - min(int(v), int(c.before[i]))
	}
	c.motion.measure(c.before, c.now)
	change := float64(sum) / float64(len(c.now))
	cut := change > cutChange && change > cutContrast*(c.usual+1)
	if !cut {
		c.usual += motionRate * (change - c.usual)
	}
	return cut
}
