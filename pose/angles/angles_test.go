package angles_test

import (
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/angles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// figure is a person of 500 px who stands straight, seen from the side, arms hanging; points by name.
func figure() map[string][2]float64 {
	f := map[string][2]float64{"nose": {320, 60}}
	for _, side := range []string{"left_", "right_"} {
		for name, p := range map[string][2]float64{
			"shoulder": {300, 100}, "elbow": {300, 193}, "wrist": {300, 266}, "index": {300, 306}, "hip": {300, 244},
			"knee": {300, 366}, "ankle": {300, 489}, "heel": {290, 500}, "foot_index": {345, 500},
		} {
			f[side+name] = p
		}
	}
	return f
}

func person(points map[string][2]float64, score float64) pose.Person {
	s := pose.BlazePose33()
	p := pose.Person{Track: 1, Score: 1, Keypoints: make([]pose.Keypoint, len(s.Keypoints))}
	for name, at := range points {
		p.Keypoints[s.Index(name)] = pose.Keypoint{X: at[0], Y: at[1], Score: score, Found: true}
	}
	return p
}

func frames(people ...pose.Person) iter.Seq2[pose.Frame, error] {
	var c pose.Clip
	for i, p := range people {
		c.Frames = append(c.Frames, pose.Frame{T: float64(i) * 1000 / 60, People: []pose.Person{p}})
	}
	return c.All()
}

type reporter interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// measured are the angles by name, frame by frame.
func measured(t reporter, c angles.Config, in iter.Seq2[pose.Frame, error]) []map[string]pose.Angle {
	c.Skeleton = pose.BlazePose33()
	defs := angles.Defs(c.Skeleton)
	var out []map[string]pose.Angle
	for f, err := range angles.Frames(c, in) {
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]pose.Angle{}
		for i, a := range f.People[0].Angles {
			all[defs[i].Name] = a
		}
		if len(all) != len(defs) {
			t.Fatalf("%d angles, want %d", len(all), len(defs))
		}
		out = append(out, all)
	}
	return out
}

func TestStandingStraight(t *testing.T) {
	t.Parallel()
	got := measured(t, angles.Config{Rate: 60}, frames(person(figure(), 1)))[0]
	want := map[string]float64{
		"left_knee": 180, "right_hip": 180, "left_elbow": 180, "left_shoulder": 0, "right_wrist": 180,
		"trunk": 0, "left_thigh": 0, "right_shank": 0, "left_upper_arm": -90, "left_forearm": -90, "left_foot": 0,
	}
	for name, degrees := range want {
		if a := got[name]; a.Reason != "" || math.Abs(a.Degrees-degrees) > 0.01 {
			t.Errorf("%s is %+v, want %v", name, a, degrees)
		}
	}
	// From the side shoulders and hips lie behind each other.
	for _, name := range []string{"shoulders", "hips"} {
		if got[name].Reason != pose.ReasonView {
			t.Errorf("%s: %+v", name, got[name])
		}
	}
}

func TestSignsAreThoseOfTheDefinition(t *testing.T) {
	t.Parallel()
	f := figure()
	// The trunk leans to the picture's left by 30°, the right arm points to the upper right.
	for _, side := range []string{"left_", "right_"} {
		f[side+"shoulder"] = [2]float64{300 - 144*math.Sin(math.Pi/6), 244 - 144*math.Cos(math.Pi/6)}
	}
	s := f["right_shoulder"]
	f["right_elbow"] = [2]float64{s[0] + 66, s[1] - 66}
	got := measured(t, angles.Config{Rate: 60}, frames(person(f, 1)))[0]
	if a := got["trunk"]; math.Abs(a.Degrees-30) > 0.01 {
		t.Errorf("trunk %+v, want 30 (counter-clockwise)", a)
	}
	if a := got["right_upper_arm"]; math.Abs(a.Degrees-45) > 0.01 {
		t.Errorf("upper arm %+v, want 45", a)
	}
}

// bent is the figure with its left lower leg turned about the knee.
func bent(degrees float64) map[string][2]float64 {
	f := figure()
	k, a := f["left_knee"], degrees*math.Pi/180
	f["left_ankle"] = [2]float64{k[0] - 123*math.Sin(a), k[1] + 123*math.Cos(a)}
	return f
}

func TestJointsDoNotDependOnPlaceSizeTurnOrMirror(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bend := rapid.Float64Range(0, 170).Draw(t, "bend")
		turn := rapid.Float64Range(-math.Pi, math.Pi).Draw(t, "turn")
		scale := rapid.Float64Range(0.3, 3).Draw(t, "scale")
		mirror := rapid.SampledFrom([]float64{1, -1}).Draw(t, "mirror")
		f := bent(bend)
		for name, p := range f {
			x, y := p[0]*scale*mirror, p[1]*scale
			f[name] = [2]float64{x*math.Cos(turn) - y*math.Sin(turn) + 700, x*math.Sin(turn) + y*math.Cos(turn) - 90}
		}
		a := measured(t, angles.Config{Rate: 60}, frames(person(f, 1)))[0]["left_knee"]
		if a.Reason != "" || math.Abs(a.Degrees-(180-bend)) > 1e-6 {
			t.Fatalf("knee %+v, want %v", a, 180-bend)
		}
	})
}

// TestErrorBarIsTheSpreadThatThePointsErrorMakes shakes the points by what the package says of them and compares.
func TestErrorBarIsTheSpreadThatThePointsErrorMakes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, score := range []float64{1, 0.6} {
		truth := measured(t, angles.Config{Rate: 60}, frames(person(bent(60), score)))[0]
		sigma := 500 * 0.984 * (0.012 + 0.024*(1-score))
		sums := map[string][3]float64{}
		for range 3000 {
			f := bent(60)
			for name, p := range f {
				f[name] = [2]float64{p[0] + r.NormFloat64()*sigma, p[1] + r.NormFloat64()*sigma}
			}
			for name, a := range measured(t, angles.Config{}, frames(person(f, score)))[0] {
				if a.Reason == "" {
					d := a.Degrees - truth[name].Degrees
					s := sums[name]
					sums[name] = [3]float64{s[0] + 1, s[1] + d, s[2] + d*d}
				}
			}
		}
		for _, name := range []string{"left_knee", "trunk", "left_thigh", "right_upper_arm"} {
			s := sums[name]
			spread := math.Sqrt(s[2]/s[0] - s[1]*s[1]/s[0]/s[0])
			if e := truth[name].Error; math.Abs(spread/e-1) > 0.12 {
				t.Errorf("score %v, %s: error bar %.2f°, spread %.2f°", score, name, e, spread)
			}
		}
	}
}

func TestNotMeasurable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		rate   float64
		change func(*pose.Person)
		angle  string
		want   pose.Reason
	}{
		{"all is well", 60, nil, "left_knee", ""},
		{"unknown rate", 0, nil, "left_knee", ""},
		{"few frames", 15, nil, "left_knee", pose.ReasonRate},
		{"enough for legs, not for arms", 22, nil, "left_elbow", pose.ReasonRate},
		{"enough for legs", 22, nil, "left_knee", ""},
		{"point missing", 60, func(p *pose.Person) { p.Keypoints[27].Found = false }, "left_knee", pose.ReasonMissing},
		{"point unsure", 60, func(p *pose.Person) { p.Keypoints[27].Score = 0.2 }, "left_knee", pose.ReasonUnsure},
		{"thigh towards the camera", 60, func(p *pose.Person) { p.Keypoints[25].Y = 290 }, "left_thigh", pose.ReasonView},
		{"foot of few pixels", 60, func(p *pose.Person) {
			for _, i := range []int{29, 31} {
				p.Keypoints[i].Score = 0.35
			}
		}, "left_foot", pose.ReasonShort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := person(figure(), 1)
			if tt.change != nil {
				tt.change(&p)
			}
			a := measured(t, angles.Config{Rate: tt.rate}, frames(p))[0][tt.angle]
			if a.Reason != tt.want {
				t.Errorf("%s is %+v, want reason %q", tt.angle, a, tt.want)
			}
		})
	}
}

func TestBonesThatTurnTooFarBetweenFramesAreNotMeasured(t *testing.T) {
	t.Parallel()
	turned := func(degrees float64) pose.Person {
		f := figure()
		s, a := f["right_shoulder"], degrees*math.Pi/180
		f["right_elbow"] = [2]float64{s[0] + 93*math.Cos(a), s[1] - 93*math.Sin(a)}
		f["right_wrist"] = [2]float64{s[0] + 166*math.Cos(a), s[1] - 166*math.Sin(a)}
		return person(f, 1)
	}
	// A bowling arm: 7° a frame at 240 frames a second, 58° at 30.
	slow := measured(t, angles.Config{Rate: 240}, frames(turned(0), turned(7), turned(14), turned(21)))
	fast := measured(t, angles.Config{Rate: 30}, frames(turned(0), turned(58), turned(116)))
	if a := slow[1]["right_elbow"]; a.Reason != "" || math.Abs(a.Degrees-180) > 0.01 {
		t.Errorf("at 240 frames a second: %+v", a)
	}
	for i, f := range fast {
		if f["right_elbow"].Reason != pose.ReasonRate || f["left_knee"].Reason != "" {
			t.Errorf("at 30, frame %d: elbow %+v, knee %+v", i, f["right_elbow"], f["left_knee"])
		}
	}
	// A cut is no movement.
	cut := measured(t, angles.Config{Rate: 30, Breaks: []float64{1000.0 / 60}}, frames(turned(0), turned(90)))
	if cut[0]["right_elbow"].Reason != "" || cut[1]["right_elbow"].Reason != "" {
		t.Errorf("across a cut: %+v, %+v", cut[0]["right_elbow"], cut[1]["right_elbow"])
	}
}

func TestSmoothedPointsAreTakenWhereThereAreAny(t *testing.T) {
	t.Parallel()
	p := person(figure(), 1)
	p.Smooth = &pose.Smooth{Keypoints: person(bent(90), 1).Keypoints}
	if a := measured(t, angles.Config{Rate: 60}, frames(p))[0]["left_knee"]; math.Abs(a.Degrees-90) > 0.01 {
		t.Errorf("knee %+v", a)
	}
}

func TestSkeletonsGetTheAnglesThatTheyHavePointsFor(t *testing.T) {
	t.Parallel()
	count := map[string]int{}
	for _, s := range []pose.Skeleton{pose.BlazePose33(), pose.COCO17(), pose.Body25(), {}} {
		seen := map[string]bool{}
		for _, d := range angles.Defs(s) {
			if seen[d.Name] || d.Zero == "" || d.Positive == "" || d.Plane != "picture" || d.Range[0] >= d.Range[1] || len(d.Points) < 2 {
				t.Errorf("%s: %+v", s.Name, d)
			}
			seen[d.Name] = true
		}
		count[s.Name] = len(seen)
	}
	want := map[string]int{"blazepose33": 26, "coco17": 20, "body25": 24, "": 0}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Error(diff)
	}
}
