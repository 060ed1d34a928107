package angles

import (
	"iter"
	"math"

	"github.com/posefleet/posefleet/pose"
)

const (
	// pointShare is the standard error of a sure point along one axis, in parts of the body's height; doubtShare what is added as its
	// score falls from 1 to 0; pixelError the least error, of the pixels themselves.
	pointShare, doubtShare, pixelError = 0.012, 0.024, 0.5
	// minScore is the least score of a point that angles are taken from.
	minScore = 0.3
	// minLength is the least length of a bone in parts of what it should be: half of it points 60° out of the picture.
	minLength = 0.5
	// maxError is the largest error of an angle in degrees, maxTurn the farthest that a bone may turn from frame to frame.
	maxError, maxTurn = 20.0, 40.0
	// forget is in how many real seconds the memory of a body's height fades to a third: near and far are not the same height.
	forget = 4.0
)

// Config says what is measured.
type Config struct {
	Skeleton pose.Skeleton
	// TimeScale is real seconds per second of the clip. 0: 1.
	TimeScale float64
	// Rate is how many frames there are per real second. 0: unknown, then no angle is refused for it.
	Rate float64
	// Breaks are the times in ms of first frames that have nothing to do with the ones before.
	Breaks []float64
}

// Frames yields the frames of in with the angles of each person, from the smoothed points where there are any. Points of the
// frames on both sides are looked at, to see how fast bones turn.
func Frames(c Config, in iter.Seq2[pose.Frame, error]) iter.Seq2[pose.Frame, error] {
	if c.TimeScale == 0 {
		c.TimeScale = 1
	}
	return func(yield func(pose.Frame, error) bool) {
		m := &meter{config: c, angles: fit(c.Skeleton), trunk: newBodyHeight(c.Skeleton), heights: map[int]height{}}
		for f, err := range in {
			if err != nil {
				yield(pose.Frame{}, err)
				return
			}
			if out, ok := m.next(f); ok && !yield(out, nil) {
				return
			}
		}
		if out, ok := m.last(); ok {
			yield(out, nil)
		}
	}
}

// meter measures the frame between two.
type meter struct {
	config  Config
	angles  []angle
	trunk   bodyHeight
	heights map[int]height
	before  *pose.Frame // nil at the start of a scene
	now     *pose.Frame
}

// next takes the next frame in and returns the one before it with its angles.
func (m *meter) next(f pose.Frame) (pose.Frame, bool) {
	broken := false
	for len(m.config.Breaks) > 0 && f.T >= m.config.Breaks[0]-0.0005 {
		m.config.Breaks = m.config.Breaks[1:]
		broken = true
	}
	after := &f
	if broken {
		after = nil
	}
	out, ok := m.measure(after)
	m.before, m.now = m.now, &f
	if broken {
		m.before = nil
		clear(m.heights)
	}
	return out, ok
}

func (m *meter) last() (pose.Frame, bool) { return m.measure(nil) }

func (m *meter) measure(after *pose.Frame) (pose.Frame, bool) {
	if m.now == nil {
		return pose.Frame{}, false
	}
	out := *m.now
	out.People = m.people(m.now.People, after)
	out.Filled = m.people(m.now.Filled, after)
	return out, true
}

func (m *meter) people(in []pose.Person, after *pose.Frame) []pose.Person {
	if in == nil {
		return nil
	}
	out := make([]pose.Person, len(in))
	for i, p := range in {
		at := m.now.T / 1000 * m.config.TimeScale
		v := view{
			points: p.Best(), height: m.grow(p, at), rate: m.config.Rate,
			around: [2][]pose.Keypoint{pointsOf(m.before, p.Track), pointsOf(after, p.Track)},
		}
		p.Angles = make([]pose.Angle, len(m.angles))
		for j, a := range m.angles {
			p.Angles[j] = v.measure(a)
		}
		out[i] = p
	}
	return out
}

func pointsOf(f *pose.Frame, track int) []pose.Keypoint {
	if f == nil {
		return nil
	}
	for _, list := range [][]pose.Person{f.People, f.Filled} {
		for _, p := range list {
			if p.Track == track {
				return p.Best()
			}
		}
	}
	return nil
}

// height is how tall a person was last seen to be, in pixels.
type height struct{ pixels, at float64 }

// grow takes the person's height in this frame in. Foreshortened and crouching bodies look small, so that the greatest height lately
// counts.
func (m *meter) grow(p pose.Person, at float64) float64 {
	now := m.trunk.of(p.Best())
	if h, ok := m.heights[p.Track]; ok {
		now = math.Max(now, h.pixels*math.Exp(-math.Max(0, at-h.at)/forget))
	}
	m.heights[p.Track] = height{now, at}
	return now
}

// bodyHeight estimates a standing person's height from trunk and legs, however they are bent.
type bodyHeight struct{ trunk, left, right []fitted }

func newBodyHeight(s pose.Skeleton) bodyHeight {
	chain := func(names ...[]string) []fitted {
		var out []fitted
		for i := range len(names) - 1 {
			f := fitted{from: indices(s, names[i]), to: indices(s, names[i+1])}
			if f.from == nil || f.to == nil {
				return nil
			}
			out = append(out, f)
		}
		return out
	}
	leg := func(side string) []fitted {
		return chain([]string{side + "_hip"}, []string{side + "_knee"}, []string{side + "_ankle"})
	}
	return bodyHeight{
		trunk: chain([]string{"left_hip", "right_hip"}, []string{"left_shoulder", "right_shoulder"}), left: leg("left"), right: leg("right"),
	}
}

// of is the height of a body with these points, at least the longer side of their bounds; the latter alone where trunk or legs are
// not whole.
func (b bodyHeight) of(points []pose.Keypoint) float64 {
	box, _ := pose.Bounds(points)
	trunk, ok := length(b.trunk, points)
	left, okLeft := length(b.left, points)
	right, okRight := length(b.right, points)
	if !ok || !okLeft && !okRight {
		return box.Side()
	}
	return (trunk + math.Max(left, right)) / thighDownShare
}

func length(chain []fitted, points []pose.Keypoint) (float64, bool) {
	sum := 0.0
	for _, f := range chain {
		a, ok1 := place(points, f.from)
		b, ok2 := place(points, f.to)
		if !ok1 || !ok2 {
			return 0, false
		}
		sum += math.Hypot(b.X-a.X, b.Y-a.Y)
	}
	return sum, len(chain) > 0
}

// place is the middle of points, with the lowest of their scores.
func place(points []pose.Keypoint, at []int) (pose.Keypoint, bool) {
	out := pose.Keypoint{Score: 1, Found: true}
	for _, i := range at {
		if i >= len(points) || !points[i].Found {
			return pose.Keypoint{}, false
		}
		out.X += points[i].X / float64(len(at))
		out.Y += points[i].Y / float64(len(at))
		out.Score = math.Min(out.Score, points[i].Score)
	}
	return out, true
}
