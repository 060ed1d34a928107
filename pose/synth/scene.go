package synth

import (
	"math"

	"github.com/posefleet/posefleet/pose"
)

// Place is where an actor stands at a time.
type Place struct {
	// X, Y are the pixel on the ground below the hips, Height the height of the upright body in pixels.
	X, Y, Height float64
	// Depth sorts actors: who has more is nearer to the camera.
	Depth float64
	// Roll turns the body in the picture, clockwise, about the ground point.
	Roll   float64
	Stance Stance
}

// Actor is a person in a scene.
type Actor struct {
	Clothes Clothes
	// At tells the place at a time in seconds, and false while the actor is not there.
	At func(t float64) (Place, bool)
}

// Scene is what the camera sees.
type Scene struct {
	// Width and Height are in pixels.
	Width, Height int
	// Backdrop paints the background, blue, green, red, 0..255; nil is Field.
	Backdrop func(x, y float64) [3]float64
	Actors   []Actor
}

// Truth is where an actor's joints are in the picture.
type Truth struct {
	// Shown is false while the actor is not there.
	Shown bool
	// Points are in the order of the blazepose33 skeleton, those outside of the picture too. Found is always true while the actor is there;
	// Score is 1 for a point that can be seen and 0 for one that a body hides or that is outside of the picture.
	Points []pose.Keypoint
	// Box bounds the points.
	Box pose.Box
}

// fine is how many pixels a side are drawn for one of the picture.
const fine = 2

// Painter draws a scene and keeps its buffers.
type Painter struct {
	scene Scene
	w, h  int
	// back is the background, fine the picture, both with three colours a pixel.
	back, fine []float32
	depth      []float32
}

// NewPainter returns a painter of the scene. It is not safe for concurrent use.
func NewPainter(s Scene) *Painter {
	if s.Backdrop == nil {
		s.Backdrop = Field(s.Width, s.Height)
	}
	w, h := fine*s.Width, fine*s.Height
	p := &Painter{scene: s, w: w, h: h, back: make([]float32, 3*w*h), fine: make([]float32, 3*w*h), depth: make([]float32, w*h)}
	for y := range h {
		for x := range w {
			for i, v := range s.Backdrop((float64(x)+0.5)/fine-0.5, (float64(y)+0.5)/fine-0.5) {
				p.back[3*(y*w+x)+i] = float32(v)
			}
		}
	}
	return p
}

// Draw paints the scene at a time in seconds into a picture of Width × Height pixels, blue, green, red, and returns the truth of each actor.
func (p *Painter) Draw(t float64, picture []byte) []Truth {
	copy(p.fine, p.back)
	for i := range p.depth {
		p.depth[i] = float32(math.Inf(-1))
	}
	truth := make([]Truth, len(p.scene.Actors))
	thick := make([]float64, len(p.scene.Actors))
	depths := make([][]float64, len(p.scene.Actors))
	for i, a := range p.scene.Actors {
		place, ok := a.At(t)
		if !ok {
			continue
		}
		b := place.Stance.bones()
		for _, part := range b.parts(a.Clothes) {
			p.tube(part, place)
		}
		truth[i], depths[i] = place.truth(b)
		thick[i] = thickest * place.Height
	}
	for i := range truth {
		p.hide(&truth[i], depths[i], thick[i])
	}
	p.shrink(picture)
	return truth
}

// project leads from parts of the height to pixels, depth in pixels too.
func (l Place) project(v vec) vec {
	sin, cos := math.Sincos(l.Roll)
	x, y := v.x*l.Height, -v.y*l.Height
	return vec{l.X + x*cos - y*sin, l.Y + x*sin + y*cos, l.Depth + v.z*l.Height}
}

func (l Place) truth(b bones) (Truth, []float64) {
	t := Truth{Shown: true, Points: make([]pose.Keypoint, len(b.joints))}
	depths := make([]float64, len(b.joints))
	for i, j := range b.joints {
		v := l.project(j)
		t.Points[i], depths[i] = pose.Keypoint{X: v.x, Y: v.y, Score: 1, Found: true}, v.z
	}
	t.Box, _ = pose.Bounds(t.Points)
	return t, depths
}

// thickest is how far a joint lies under the surface at most, in parts of the height.
const thickest = 0.09

// hide marks the points that cannot be seen: something lies in front by more than a body part is thick.
func (p *Painter) hide(t *Truth, depths []float64, thick float64) {
	for i := range t.Points {
		k := &t.Points[i]
		x, y := int(math.Round((k.X+0.5)*fine-0.5)), int(math.Round((k.Y+0.5)*fine-0.5))
		if x < 0 || y < 0 || x >= p.w || y >= p.h || float64(p.depth[y*p.w+x]) > depths[i]+thick {
			k.Score = 0
		}
	}
}

// tube draws a part as a row of balls.
func (p *Painter) tube(t part, l Place) {
	a, b := l.project(t.a), l.project(t.b)
	ra, rb := t.ra*l.Height, t.rb*l.Height
	n := 1 + int(a.distance(b)/(0.12*math.Min(ra, rb)+0.25))
	for i := range n {
		f := float64(i) / math.Max(1, float64(n-1))
		p.ball(a.to(b, f), ra+(rb-ra)*f, t.paint)
	}
}

// light comes from above, from the left and from the camera.
var light = vec{-0.35, 0.6, 0.72}

func (p *Painter) ball(c vec, r float64, paint colour) {
	cx, cy, r := (c.x+0.5)*fine-0.5, (c.y+0.5)*fine-0.5, r*fine
	for y := max(0, int(math.Ceil(cy-r))); y <= min(p.h-1, int(cy+r)); y++ {
		dy := float64(y) - cy
		half := math.Sqrt(math.Max(0, r*r-dy*dy))
		for x := max(0, int(math.Ceil(cx-half))); x <= min(p.w-1, int(cx+half)); x++ {
			dx := float64(x) - cx
			dz := math.Sqrt(math.Max(0, r*r-dx*dx-dy*dy))
			at := y*p.w + x
			if z := float32(c.z + dz/fine); z > p.depth[at] {
				p.depth[at] = z
				p.shade(at, vec{dx / r, -dy / r, dz / r}, paint)
			}
		}
	}
}

// shade paints a pixel of a body: dark where the surface turns away from the light, with the grain of cloth and skin.
func (p *Painter) shade(at int, normal vec, paint colour) {
	lit := 0.5 + 0.55*math.Max(0, normal.x*light.x+normal.y*light.y+normal.z*light.z)
	lit *= 0.75 + 0.25*normal.z
	lit += 0.05 * (grain(at%p.w/fine, at/p.w/fine) - 0.5)
	for i, v := range paint {
		p.fine[3*at+i] = float32(v * lit)
	}
}

// shrink averages the fine picture.
func (p *Painter) shrink(picture []byte) {
	for y := range p.scene.Height {
		for x := range p.scene.Width {
			for c := range 3 {
				sum := float32(0)
				for dy := range fine {
					for dx := range fine {
						sum += p.fine[3*((y*fine+dy)*p.w+x*fine+dx)+c]
					}
				}
				picture[3*(y*p.scene.Width+x)+c] = byte(min(max(sum/(fine*fine), 0), 255))
			}
		}
	}
}

// Field is grass under a sky, with a fence and trees far away; nothing in it looks like a person.
func Field(width, height int) func(x, y float64) [3]float64 {
	horizon := 0.38 * float64(height)
	return func(x, y float64) [3]float64 {
		g := grain(int(x), int(y))
		if y < horizon {
			trees := horizon - float64(height)*(0.07+0.03*math.Sin(x*14/float64(width))+0.02*math.Sin(x*37/float64(width)))
			if y > trees {
				return [3]float64{45 + 25*g, 75 + 40*g, 55 + 25*g}
			}
			f := y / horizon
			return [3]float64{225 - 15*f, 190 + 20*f, 160 + 40*f}
		}
		f := (y - horizon) / (float64(height) - horizon)
		stripe := 8 * math.Sin(x*6/float64(width)+3*f)
		return [3]float64{50 + 15*g + stripe*0.4, 120 + 30*g - 20*f + stripe, 80 + 25*g}
	}
}

// grain is noise in 0..1 that depends on the place alone.
func grain(x, y int) float64 {
	h := uint32(x)*0x9E3779B1 ^ uint32(y)*0x85EBCA77
	h ^= h >> 15
	h *= 0x2C1B3C6D
	h ^= h >> 12
	h *= 0x297A2D39
	h ^= h >> 15
	return float64(h&0xFFFF) / 0xFFFF
}
