package pose_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/pose"
)

// body returns a person of 100 pixels height with the middle of its box at x, y. The colour is its look.
func body(x, y float64, from, colour int) pose.Observation {
	look := make([]float32, 8)
	look[colour] = 1
	points := make([]pose.Keypoint, 0, 9)
	for i := range 9 {
		points = append(points, pose.Keypoint{X: x + 20*math.Sin(float64(i)*2.1), Y: y - 50 + 12.5*float64(i), Score: 1, Found: true})
	}
	box, _ := pose.Bounds(points)
	return pose.Observation{From: from, Score: 0.9, Box: box, Keypoints: points, Look: look}
}

// step is one frame of a story: what is seen, and who that should be.
type step struct {
	at   float64
	seen []pose.Observation
	want []int
}

func tell(t *testing.T, k *pose.Tracker, story []step) {
	t.Helper()
	for i, s := range story {
		if diff := cmp.Diff(s.want, k.Update(s.at, s.seen)); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
}

func TestTrackerKeepsIDs(t *testing.T) {
	t.Parallel()
	see := func(o ...pose.Observation) []pose.Observation { return o }
	tests := []struct {
		name  string
		story []step
	}{
		{"in motion", []step{
			{0, see(body(100, 100, 0, 0)), []int{1}}, {33, see(body(110, 100, 1, 0)), []int{1}}, {66, see(body(120, 100, 1, 0)), []int{1}},
		}},
		{"of two at once", []step{
			{0, see(body(100, 100, 0, 0), body(300, 100, 0, 1)), []int{1, 2}}, {33, see(body(104, 100, 1, 0), body(296, 100, 2, 1)), []int{1, 2}},
		}},
		{"of one who leaves and comes back elsewhere", []step{
			{0, see(body(100, 100, 0, 0)), []int{1}}, {33, nil, []int{}}, {5000, see(body(900, 120, 0, 0)), []int{1}},
		}},
		{"but gives a stranger a new one", []step{
			{0, see(body(100, 100, 0, 0)), []int{1}}, {33, nil, []int{}}, {5000, see(body(110, 100, 0, 5)), []int{2}},
		}},
		{"when both search regions slide onto one body", []step{
			{0, see(body(100, 100, 0, 0), body(200, 100, 0, 1)), []int{1, 2}},
			{33, see(body(110, 100, 1, 0), body(190, 100, 2, 1)), []int{1, 2}},
			{66, see(body(120, 100, 1, 0), body(121, 100, 2, 0)), []int{1, 0}},
			{99, see(body(130, 100, 1, 0), body(175, 100, 0, 1)), []int{1, 2}},
		}},
		{"when a search region jumps to another person", []step{
			{0, see(body(100, 100, 0, 0), body(180, 100, 0, 1)), []int{1, 2}},
			{33, see(body(180, 100, 1, 1)), []int{2}},
			{66, see(body(181, 100, 2, 1), body(101, 100, 0, 0)), []int{2, 1}},
		}},
		{"when a find of the detector repeats a tracked body", []step{
			{0, see(body(100, 100, 0, 0)), []int{1}}, {33, see(body(101, 100, 1, 0), body(102, 100, 0, 0)), []int{1, 0}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tell(t, &pose.Tracker{}, tt.story)
		})
	}
}

func TestTwoWhoCrossKeepTheirIDs(t *testing.T) {
	t.Parallel()
	var k pose.Tracker
	// Nobody can tell the detector's order of two people: it changes from frame to frame, and regions are lost in the middle.
	for i := range 40 {
		at := float64(i) * 33
		a, b := body(100+5*float64(i), 100, 0, 0), body(300-5*float64(i), 103, 0, 1)
		hidden := i > 17 && i < 23
		switch {
		case hidden:
			k.Update(at, []pose.Observation{a})
		case i%2 == 0:
			if ids := k.Update(at, []pose.Observation{a, b}); !cmp.Equal(ids, []int{1, 2}) {
				t.Fatalf("frame %d: ids %v", i, ids)
			}
		default:
			if ids := k.Update(at, []pose.Observation{b, a}); !cmp.Equal(ids, []int{2, 1}) {
				t.Fatalf("frame %d: ids %v", i, ids)
			}
		}
	}
}

func TestNoTrackCrossesACut(t *testing.T) {
	t.Parallel()
	var k pose.Tracker
	tell(t, &k, []step{{0, []pose.Observation{body(100, 100, 0, 0)}, []int{1}}})
	k.Cut()
	tell(t, &k, []step{{33, []pose.Observation{body(100, 100, 0, 0)}, []int{2}}})
	if diff := cmp.Diff([]int{2}, k.Live()); diff != "" {
		t.Error(diff)
	}
}

// person is a body in a frame.
func person(track int, x, y, score float64) pose.Person {
	o := body(x, y, 0, 0)
	return pose.Person{Track: track, Score: score, Box: o.Box, Keypoints: o.Keypoints}
}

func TestAthleteIsWhoMovesMost(t *testing.T) {
	t.Parallel()
	c := pose.Chooser{Height: 200}
	for i := range 60 {
		f := pose.Frame{T: float64(i) * 33, People: []pose.Person{person(1, 50, 100, 1), person(2, 100+4*float64(i), 100, 1)}}
		if i < 5 {
			f.People = append(f.People, person(3, 300+50*float64(i), 100, 1))
		}
		c.Add(f)
	}
	a := c.Choose()
	if a == nil || a.Track != 2 || !(a.Margin > 0.3 && a.Margin < 1) || a.Reason == "" {
		t.Errorf("athlete %+v, want track 2 with a margin", a)
	}
	c.Forget(2)
	if a := c.Choose(); a == nil || a.Track == 2 {
		t.Errorf("athlete %+v after track 2 was forgotten", a)
	}
}

func TestAthleteIsWhoWasAskedFor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		hint pose.Hint
		want int
	}{
		{"on a person", pose.Hint{T: 300, X: 52, Y: 90}, 1},
		{"beside a person", pose.Hint{T: 300, X: 10, Y: 10}, 1},
		{"a bit late", pose.Hint{T: 2100, X: 52, Y: 90}, 1},
		{"when nobody is there", pose.Hint{T: 9000, X: 52, Y: 90}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := pose.Chooser{Height: 200, Hint: &tt.hint}
			for i := range 60 {
				c.Add(pose.Frame{T: float64(i) * 33, People: []pose.Person{person(1, 50, 100, 1), person(2, 200+4*float64(i), 100, 1)}})
			}
			if a := c.Choose(); a == nil || a.Track != tt.want {
				t.Errorf("athlete %+v, want track %d", a, tt.want)
			}
		})
	}
}

func TestNobodyIsNoAthlete(t *testing.T) {
	t.Parallel()
	var c pose.Chooser
	c.Add(pose.Frame{})
	if a := c.Choose(); a != nil {
		t.Errorf("athlete %+v", a)
	}
}

func TestWhoComesBackHalfHiddenGetsTheOldIDLater(t *testing.T) {
	t.Parallel()
	var k pose.Tracker
	see := func(o ...pose.Observation) []pose.Observation { return o }
	at := 0.0
	next := func(o ...pose.Observation) []int {
		at += 40
		return k.Update(at, see(o...))
	}
	next(body(100, 100, 0, 0))
	for range 20 {
		next(body(100, 100, 1, 0))
	}
	at += 2000
	// Only something of another colour is seen of the person at first.
	if ids := next(body(300, 100, 0, 1)); !cmp.Equal(ids, []int{2}) {
		t.Fatalf("somebody who looks different is %v", ids)
	}
	from := 2
	for range 12 {
		from = next(body(300, 100, from, 0))[0]
	}
	if from != 1 || k.Same()[2] != 1 {
		t.Errorf("in the end the id is %d, and 2 is %d", from, k.Same()[2])
	}
	c := pose.Chooser{Height: 200}
	c.Add(pose.Frame{T: 0, People: []pose.Person{person(1, 50, 100, 1)}})
	c.Add(pose.Frame{T: 40, People: []pose.Person{person(2, 50, 100, 1)}})
	c.Same(2, 1)
	if a := c.Choose(); a == nil || a.Track != 1 || a.Margin != 1 {
		t.Errorf("athlete %+v, want track 1 alone", a)
	}
}

// Not parallel: it looks at the whole process.
func TestTrackerDoesNotGrowWithTheClip(t *testing.T) {
	const frames, most = 25 * 600, 4 << 20
	var k pose.Tracker
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	for i := range frames {
		stranger := body(1000*float64(i), 100, 0, 0)
		stranger.Look = nil
		if ids := k.Update(40*float64(i), []pose.Observation{stranger}); ids[0] != i+1 {
			t.Fatalf("stranger %d got the id %d", i+1, ids[0])
		}
	}
	if grown := heap() - before; grown > most {
		t.Errorf("after ten minutes with somebody new in each frame the tracker holds %d bytes, want at most %d", grown, most)
	}
	again := body(1000*(frames-2), 100, 0, 0)
	again.Look = nil
	if ids := k.Update(40*frames, []pose.Observation{again}); ids[0] != frames-1 {
		t.Errorf("who was lost lately came back as %d, want %d", ids[0], frames-1)
	}
}
