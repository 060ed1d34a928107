package signal_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/signal"
)

// only filters the first point at a cut-off.
func only(cutoff float64) []pose.SignalGroup {
	return []pose.SignalGroup{{Name: "all", Points: []int{0}, CutoffHz: cutoff, MaxGapMs: 200}}
}

// gain is the amplitude of the smoothed sine in the middle of the clip by the raw one's, and its lag in seconds.
func gain(t *testing.T, c signal.Config, times []float64, hz float64) (amplitude, lag float64) {
	t.Helper()
	out := xs(smooth(t, c, film(times, sine(hz*1, 100))), 0)
	var s, q, n float64
	for i := len(times) / 4; i < 3*len(times)/4; i++ {
		a := 2 * math.Pi * hz * times[i] / 1000
		s += (out[i] - 300) * math.Sin(a)
		q += (out[i] - 300) * math.Cos(a)
		n++
	}
	return 2 * math.Hypot(s, q) / n / 100, math.Atan2(-q, s) / (2 * math.Pi * hz)
}

func TestSineAtTheCutoffKeepsThreeDecibelLessAndHasNoLag(t *testing.T) {
	t.Parallel()
	ragged := even(2400, 240)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range ragged {
		ragged[i] += (r.Float64() - 0.5) * 2 // ±1 ms of 4.2
	}
	mixed := even(600, 240) // then at 60
	for range 600 {
		mixed = append(mixed, mixed[len(mixed)-1]+1000.0/60)
	}
	tests := []struct {
		name      string
		times     []float64
		cutoff    float64
		hz        float64
		want      float64
		tolerance float64
	}{
		{"at 240 frames a second", even(2400, 240), 20, 20, math.Sqrt(0.5), 0.005},
		{"at 60", even(1200, 60), 8, 8, math.Sqrt(0.5), 0.005},
		{"at 30, near the highest that it can show", even(600, 30), 12, 12, math.Sqrt(0.5), 0.005},
		{"uneven frames", ragged, 20, 20, math.Sqrt(0.5), 0.02},
		{"two rates", mixed, 8, 8, math.Sqrt(0.5), 0.02},
		{"far below the cut-off", even(2400, 240), 20, 4, 1, 0.002},
		{"an octave above", even(2400, 240), 20, 40, 1.0 / 13, 0.03},
		{"far above", even(2400, 240), 8, 64, 0, 0.001},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			amplitude, lag := gain(t, signal.Config{Skeleton: skeleton("nose"), Groups: only(tt.cutoff)}, tt.times, tt.hz)
			if math.Abs(amplitude-tt.want) > tt.tolerance {
				t.Errorf("amplitude %.4f, want %.4f ± %v", amplitude, tt.want, tt.tolerance)
			}
			if tt.want > 0.1 && math.Abs(lag) > 0.0003 {
				t.Errorf("lag %.3f ms", lag*1000)
			}
		})
	}
}

func TestSlowMotionIsFilteredInRealTime(t *testing.T) {
	t.Parallel()
	// Captured at 240, played at 30: 20 Hz of the arm are 2.5 Hz of the file.
	c := signal.Config{Skeleton: skeleton("nose"), Groups: only(20), TimeScale: 0.125, Rate: 240}
	amplitude, _ := gain(t, c, even(1200, 30), 2.5)
	if math.Abs(amplitude-math.Sqrt(0.5)) > 0.005 {
		t.Errorf("amplitude %.4f at the real cut-off", amplitude)
	}
}

// TestElbowExtensionSurvives: what the coach wants to see must not be smoothed away.
func TestElbowExtensionSurvives(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ rate, least float64 }{{240, 14.5}, {120, 14.3}, {60, 13.6}} {
		n := int(2 * tt.rate)
		elbow := func(s float64) float64 { // 150° until 1 s, 165° from 1.07 s on, and back
			up, down := math.Min(1, math.Max(0, (s-1)/0.07)), math.Min(1, math.Max(0, (s-1.07)/0.07))
			return 150 + 7.5*(1-math.Cos(math.Pi*up)) - 7.5*(1-math.Cos(math.Pi*down))
		}
		wrist := func(s float64) (float64, float64) {
			a := (180 - elbow(s)) * math.Pi / 180
			return 200 + 100*math.Cos(a), 200 + 100*math.Sin(a)
		}
		names := skeleton("right_shoulder", "right_elbow", "right_wrist")
		frames := smooth(t, signal.Config{Skeleton: names, Rate: tt.rate}, film(even(n, tt.rate), still(100, 200), still(200, 200), wrist))
		low, high := 180.0, 0.0
		for _, f := range frames {
			k := f.People[0].Smooth.Keypoints
			a := 180 - math.Atan2(k[2].Y-k[1].Y, k[2].X-k[1].X)*180/math.Pi
			low, high = math.Min(low, a), math.Max(high, a)
		}
		t.Logf("%v frames a second: %.2f° of 15°", tt.rate, high-low)
		if high-low < tt.least {
			t.Errorf("%v frames a second: %.2f° of 15° are left, want %v", tt.rate, high-low, tt.least)
		}
	}
}

func TestConstantsAndStraightLinesAreUnchanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		times := raggedTimes(t)
		x, v := rapid.Float64Range(-1e4, 1e4).Draw(t, "x"), rapid.Float64Range(-2000, 2000).Draw(t, "v")
		cutoff := rapid.Float64Range(1, 60).Draw(t, "cutoff")
		if rapid.Bool().Draw(t, "at rest") {
			v = 0
		}
		out := xs(smoothRapid(t, signal.Config{Skeleton: skeleton("nose"), Groups: only(cutoff)},
			film(times, func(s float64) (float64, float64) { return x + v*s, 5 })), 0)
		for i, got := range out {
			want := x + v*times[i]/1000
			if !(math.Abs(got-want) <= 1e-9*(math.Abs(x)+math.Abs(v))+1e-9) {
				t.Fatalf("frame %d: %v, want %v", i, got, want)
			}
		}
	})
}

// raggedTimes are times with steps of 2 to 40 ms.
func raggedTimes(t *rapid.T) []float64 {
	times := []float64{0}
	for _, d := range rapid.SliceOfN(rapid.Float64Range(2, 40), 4, 120).Draw(t, "steps") {
		times = append(times, times[len(times)-1]+d)
	}
	return times
}

func smoothRapid(t *rapid.T, c signal.Config, frames []pose.Frame) []pose.Frame {
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
	return out
}

func TestAnyInputGivesBoundedOutputAndLeavesRawPointsAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		times := raggedTimes(t)
		frames := film(times, still(0, 0), still(0, 0))
		for i := range frames {
			for j := range frames[i].People[0].Keypoints {
				k := &frames[i].People[0].Keypoints[j]
				k.X, k.Y = rapid.Float64Range(0, 1000).Draw(t, "x"), rapid.Float64Range(0, 1000).Draw(t, "y")
				k.Found = rapid.IntRange(0, 5).Draw(t, "found") > 0
			}
		}
		raw := film(times, still(0, 0), still(0, 0))
		for i := range frames {
			copy(raw[i].People[0].Keypoints, frames[i].People[0].Keypoints)
		}
		out := smoothRapid(t, signal.Config{Skeleton: skeleton("left_ankle", "right_ankle")}, frames)
		for i := range out {
			for j, k := range out[i].People[0].Smooth.Keypoints {
				if k.Found && !(math.Abs(k.X) < 1e4 && math.Abs(k.Y) < 1e4) {
					t.Fatalf("frame %d: %+v", i, k)
				}
				if got := out[i].People[0].Keypoints[j]; got != raw[i].People[0].Keypoints[j] {
					t.Fatalf("frame %d: raw point %+v was %+v", i, got, raw[i].People[0].Keypoints[j])
				}
			}
		}
	})
}

func TestTimeReversalReversesTheResult(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	times := even(400, 120)
	noise := make([]float64, len(times))
	for i := range noise {
		noise[i] = r.NormFloat64() * 3
	}
	at := func(f func(int) int) path {
		return func(s float64) (float64, float64) {
			i := f(int(math.Round(s * 120)))
			return 300 + 100*math.Sin(float64(i)/20) + noise[i], 0
		}
	}
	c := signal.Config{Skeleton: skeleton("nose"), Groups: only(15)}
	forward := xs(smooth(t, c, film(times, at(func(i int) int { return i }))), 0)
	back := xs(smooth(t, c, film(times, at(func(i int) int { return len(times) - 1 - i }))), 0)
	for i := range forward {
		if d := math.Abs(forward[i] - back[len(back)-1-i]); d > 0.05 {
			t.Errorf("frame %d: %.3f px between the directions", i, d)
		}
	}
}

func TestLongClipsAreTheSameAsTheirBlocks(t *testing.T) {
	t.Parallel()
	// 5000 frames go through several blocks; the last 3000 alone must give the same once the start is forgotten.
	r := rand.New(rand.NewPCG(3, 4))
	times := even(5000, 240)
	noise := make([]float64, len(times))
	for i := range noise {
		noise[i] = r.NormFloat64() * 2
	}
	p := func(s float64) (float64, float64) {
		return 300 + 100*math.Sin(9*s) + noise[int(math.Round(s*240))], 100 * math.Cos(9*s)
	}
	c := signal.Config{Skeleton: skeleton("nose"), Rate: 240}
	frames := film(times, p)
	whole, part := xs(smooth(t, c, frames), 0), xs(smooth(t, c, frames[2000:]), 0)
	for i := 600; i < len(part); i++ {
		if d := math.Abs(part[i] - whole[2000+i]); d > 1e-4 { // a hundredth of what the document keeps
			t.Fatalf("frame %d: %g px between whole and part", i, d)
		}
	}
}

func TestNothingCrossesABreak(t *testing.T) {
	t.Parallel()
	times := even(120, 60)
	p := func(s float64) (float64, float64) {
		if s < 0.9999 {
			return 100, 100
		}
		return 900, 400
	}
	frames := film(times, p)
	frames[59].People[0].Keypoints[0].Found = false
	out := smooth(t, signal.Config{Skeleton: skeleton("nose"), Breaks: []float64{times[60]}}, frames)
	for i, x := range xs(out, 0) {
		switch {
		case i == 59 && !math.IsNaN(x):
			t.Errorf("the gap before the cut was filled with %v", x)
		case i < 59 && math.Abs(x-100) > 1e-9, i > 59 && math.Abs(x-900) > 1e-9:
			t.Errorf("frame %d is at %v", i, x)
		}
	}
}

func TestNoiseBecomesLess(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	p := func(float64) (float64, float64) { return 300 + r.NormFloat64()*4, 200 }
	sum := 0.0
	out := xs(smooth(t, signal.Config{Skeleton: skeleton("nose"), Rate: 240}, film(even(2000, 240), p)), 0)
	for _, x := range out {
		sum += (x - 300) * (x - 300)
	}
	if sd := math.Sqrt(sum / float64(len(out))); sd > 1.3 {
		t.Errorf("4 px of noise became %.2f at 8 of 120 Hz", sd)
	}
}

func TestWrongConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	s := skeleton("nose")
	for _, c := range []signal.Config{
		{Skeleton: s, TimeScale: -1},
		{Skeleton: s, Rate: math.NaN()},
		{Skeleton: s, Breaks: []float64{5, 3}},
		{Skeleton: s, Groups: []pose.SignalGroup{{Points: []int{1}}}},
		{Skeleton: s, Groups: []pose.SignalGroup{{Points: []int{0, 0}}}},
		{Skeleton: s, Groups: []pose.SignalGroup{{Points: []int{0}, CutoffHz: -3}}},
	} {
		if _, err := signal.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		fps         pose.FPS
		scale, rate float64
	}{
		{"nothing known", pose.FPS{}, 1, 0},
		{"plain", pose.FPS{Average: new(30.0)}, 1, 30},
		{"slow motion", pose.FPS{Average: new(30.0), Capture: new(240.0)}, 0.125, 240},
		{"240 played at 240", pose.FPS{Average: new(239.7), Capture: new(240.0)}, 1, 239.7},
		{"time lapse", pose.FPS{Average: new(30.0), Capture: new(2.0)}, 15, 2},
	}
	for _, tt := range tests {
		if scale, rate := signal.Clock(tt.fps); scale != tt.scale || rate != tt.rate {
			t.Errorf("%s: %v, %v, want %v, %v", tt.name, scale, rate, tt.scale, tt.rate)
		}
	}
}

func TestGroupsCoverAllPoints(t *testing.T) {
	t.Parallel()
	for _, s := range []pose.Skeleton{pose.BlazePose33(), pose.COCO17(), pose.Body25()} {
		got := map[string]string{}
		for _, g := range signal.DefaultGroups(s, 240) {
			for _, p := range g.Points {
				got[s.Keypoints[p]] = g.Name
			}
		}
		if len(got) != len(s.Keypoints) {
			t.Errorf("%s: %d points of %d are in a group", s.Name, len(got), len(s.Keypoints))
		}
		want := map[string]string{"nose": "trunk", "left_hip": "trunk", "left_shoulder": "arms", "right_wrist": "arms", "left_ankle": "legs"}
		for name, group := range want {
			if diff := cmp.Diff(group, got[name]); diff != "" {
				t.Errorf("%s: %s %s", s.Name, name, diff)
			}
		}
	}
	for _, g := range signal.DefaultGroups(pose.BlazePose33(), 30) {
		if g.CutoffHz > 12 {
			t.Errorf("%s: %v Hz at 30 frames a second", g.Name, g.CutoffHz)
		}
	}
}
