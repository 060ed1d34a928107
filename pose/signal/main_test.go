package signal_test

import (
	"math"
	"testing"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/signal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// size is the side of the test person's box in pixels.
const size = 500.0

// path is where a point is at a time in seconds.
type path func(t float64) (x, y float64)

// still stands at one place.
func still(x, y float64) path { return func(float64) (float64, float64) { return x, y } }

// sine moves across.
func sine(hz, amplitude float64) path {
	return func(t float64) (float64, float64) { return 300 + amplitude*math.Sin(2*math.Pi*hz*t), 200 }
}

// even are n times at a rate, in ms.
func even(n int, rate float64) []float64 {
	times := make([]float64, n)
	for i := range times {
		times[i] = 1000 * float64(i) / rate
	}
	return times
}

// skeleton names points as told.
func skeleton(names ...string) pose.Skeleton { return pose.Skeleton{Name: "test", Keypoints: names} }

// film is one person whose points follow paths at times in ms.
func film(times []float64, paths ...path) []pose.Frame {
	frames := make([]pose.Frame, len(times))
	for i, t := range times {
		p := pose.Person{Track: 1, Score: 1, Box: pose.Box{W: size / 2, H: size}}
		for _, at := range paths {
			x, y := at(t / 1000)
			p.Keypoints = append(p.Keypoints, pose.Keypoint{X: x, Y: y, Score: 0.9, Found: true})
		}
		frames[i] = pose.Frame{T: t, People: []pose.Person{p}}
	}
	return frames
}

// smooth runs the filter.
func smooth(t testing.TB, c signal.Config, frames []pose.Frame) []pose.Frame {
	f, err := signal.New(c)
	if err != nil {
		t.Fatal(err)
	}
	clip := pose.Clip{Frames: frames}
	var out []pose.Frame
	for frame, err := range f.Frames(clip.All()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, frame)
	}
	if len(out) != len(frames) {
		t.Fatalf("%d frames came out of %d", len(out), len(frames))
	}
	return out
}

// xs are the smoothed x of a point; NaN where there is none.
func xs(frames []pose.Frame, point int) []float64 {
	v := make([]float64, len(frames))
	for i, f := range frames {
		v[i] = math.NaN()
		for _, p := range append(f.People, f.Filled...) {
			if p.Smooth.Keypoints[point].Found {
				v[i] = p.Smooth.Keypoints[point].X
			}
		}
	}
	return v
}

// marked lists the frames in which point is in the list that pick takes.
func marked(frames []pose.Frame, point int, pick func(*pose.Smooth) []int) []int {
	var at []int
	for i, f := range frames {
		for _, p := range append(f.People, f.Filled...) {
			for _, j := range pick(p.Smooth) {
				if j == point {
					at = append(at, i)
				}
			}
		}
	}
	return at
}

func filledOf(s *pose.Smooth) []int   { return s.Filled }
func rejectedOf(s *pose.Smooth) []int { return s.Rejected }
func swappedOf(s *pose.Smooth) []int  { return s.Swapped }
