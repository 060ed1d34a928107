package signal_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/signal"
)

func TestGapsAreFilledUpToTheBoundAndFlagged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]float64{30, 60, 120, 240}).Draw(t, "rate")
		times := even(200, rate)
		gap := rapid.IntRange(1, 60).Draw(t, "gap")
		from := rapid.IntRange(20, 100).Draw(t, "from")
		absent := rapid.Bool().Draw(t, "the whole person is absent")
		frames := film(times, func(s float64) (float64, float64) { return 100 + 200*s, 300 - 50*s })
		for i := from; i < from+gap; i++ {
			if absent {
				frames[i].People = nil
			} else {
				frames[i].People[0].Keypoints[0] = pose.Keypoint{}
			}
		}
		out := smoothRapid(t, signal.Config{Skeleton: skeleton("nose"), Groups: only(8)}, frames)
		span := times[from+gap] - times[from-1]
		x, flags := xs(out, 0), marked(out, 0, filledOf)
		for i := from; i < from+gap; i++ {
			switch {
			case span > 200.001 && !math.IsNaN(x[i]):
				t.Fatalf("a gap of %.0f ms was filled", span)
			case span < 199.999 && !(math.Abs(x[i]-100-0.2*times[i]) < 0.5):
				t.Fatalf("frame %d of a gap of %.0f ms: %v, want %v", i, span, x[i], 100+0.2*times[i])
			}
		}
		if span < 199.999 && len(flags) != gap || span > 200.001 && len(flags) != 0 {
			t.Fatalf("%d frames are flagged, the gap has %d", len(flags), gap)
		}
		for i := range frames {
			if absent && len(out[i].People) != len(frames[i].People) {
				t.Fatalf("frame %d has people who were not seen", i)
			}
		}
	})
}

func TestFilledPointHasTheLowerScoreOfItsEnds(t *testing.T) {
	t.Parallel()
	frames := film(even(20, 60), still(10, 10))
	frames[9].People[0].Keypoints[0].Score = 0.4
	frames[10].People[0].Keypoints[0] = pose.Keypoint{}
	if got := smooth(t, signal.Config{Skeleton: skeleton("nose")}, frames)[10].People[0].Smooth.Keypoints[0].Score; got != 0.4 {
		t.Errorf("score %v", got)
	}
}

// wheel is a hand that goes round as a bowling arm does: up to 1750 degrees a second.
func wheel(s float64) (float64, float64) {
	a := 30.5 * 0.15 * (1 - math.Cos(math.Pi*s/0.3)) // there and back within 0.6 s
	return 300 + 200*math.Cos(a), 300 + 200*math.Sin(a)
}

func TestSingleFaultsAreFoundAndFastArmsAreNone(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{30, 60, 120, 240} {
		r := rand.New(rand.NewPCG(9, uint64(rate)))
		noisy := func(s float64) (float64, float64) {
			x, y := wheel(s)
			return x + r.NormFloat64()*2, y + r.NormFloat64()*2
		}
		times := even(int(3*rate), rate)
		c := signal.Config{Skeleton: skeleton("left_wrist"), Rate: rate}
		if at := marked(smooth(t, c, film(times, noisy)), 0, rejectedOf); len(at) > 1 {
			t.Errorf("%v frames a second: frames %v of an arm without faults are rejected", rate, at)
		}
		frames := film(times, noisy)
		var faults []int
		for i := 12; i < len(frames)-12; i += 23 {
			frames[i].People[0].Keypoints[0].X += 180
			faults = append(faults, i)
		}
		at := marked(smooth(t, c, frames), 0, rejectedOf)
		found := 0
		for _, i := range faults {
			if slices.Contains(at, i) {
				found++
			}
		}
		// At 30 frames a second the arm itself bends as sharply as a fault, and all three are in its swing.
		if least := map[float64]int{60: len(faults) * 6 / 10, 120: len(faults) * 8 / 10, 240: len(faults) * 9 / 10}[rate]; found < least || len(at)-found > 1 {
			t.Errorf("%v frames a second: %d of %d faults found, %d others", rate, found, len(faults), len(at)-found)
		}
	}
}

func TestSingleFaultsOfACalmArmAreFoundAtAnyRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]float64{25, 30, 60, 240}).Draw(t, "rate")
		jump := rapid.Float64Range(40, 400).Draw(t, "jump")
		at := rapid.IntRange(4, 40).Draw(t, "frame")
		frames := film(even(60, rate), sine(0.7, 100))
		frames[at].People[0].Keypoints[0].Y += jump
		out := smoothRapid(t, signal.Config{Skeleton: skeleton("left_wrist"), Rate: rate}, frames)
		if got := marked(out, 0, rejectedOf); !slices.Equal(got, []int{at}) {
			t.Fatalf("rejected in frames %v, want %d", got, at)
		}
		if y := out[at].People[0].Smooth.Keypoints[0].Y; math.Abs(y-200) > 3 {
			t.Fatalf("y is %v after the repair", y)
		}
	})
}

func TestBonesDoNotGrow(t *testing.T) {
	t.Parallel()
	frames := film(even(120, 60), still(100, 100), sine(1, 60))
	for i := 50; i < 54; i++ { // four frames in a row: no spike
		frames[i].People[0].Keypoints[1] = pose.Keypoint{X: 800, Y: 300, Score: 0.9, Found: true}
	}
	out := smooth(t, signal.Config{Skeleton: skeleton("left_hip", "left_knee")}, frames)
	if at := marked(out, 1, rejectedOf); !slices.Equal(at, []int{50, 51, 52, 53}) {
		t.Errorf("rejected in frames %v", at)
	}
	for i, x := range xs(out, 1) {
		if math.IsNaN(x) || x > 380 {
			t.Errorf("frame %d: knee at %v", i, x)
		}
	}
}

// runner are legs that cross: hips, knees and ankles of both sides at strides a second.
func runner(strides float64) []path {
	leg := func(reach, y, phase float64) path {
		return func(s float64) (float64, float64) {
			a := 2*math.Pi*strides*s + phase
			return 400 + 300*s + reach*math.Sin(a), y - 0.3*reach*math.Max(0, math.Cos(a))
		}
	}
	return []path{
		leg(5, 250, 0), leg(5, 250, math.Pi), leg(60, 370, 0), leg(60, 370, math.Pi), leg(120, 480, -0.4), leg(120, 480, math.Pi-0.4),
	}
}

var legNames = []string{"left_hip", "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle"}

func noisyLegs(rate float64, r *rand.Rand, strides float64) []pose.Frame {
	frames := film(even(int(3*rate), rate), runner(strides)...)
	for i := range frames {
		for j := range frames[i].People[0].Keypoints {
			frames[i].People[0].Keypoints[j].X += r.NormFloat64() * 3
			frames[i].People[0].Keypoints[j].Y += r.NormFloat64() * 3
		}
	}
	return frames
}

func TestCrossingLegsAreNotExchanged(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{30, 60, 240} {
		for _, strides := range []float64{0.8, 1.5, 2.2} {
			r := rand.New(rand.NewPCG(11, uint64(rate*strides)))
			out := smooth(t, signal.Config{Skeleton: skeleton(legNames...), Rate: rate}, noisyLegs(rate, r, strides))
			for point := range legNames {
				if at := marked(out, point, swappedOf); len(at) > 0 {
					t.Errorf("%v frames, %v strides a second: %s exchanged in frames %v", rate, strides, legNames[point], at)
				}
			}
		}
	}
}

func TestExchangedLegsAreFoundAndRepaired(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]float64{30, 60, 120}).Draw(t, "rate")
		length := rapid.Float64Range(1/rate, 0.3).Draw(t, "seconds")
		// Starts where the legs are apart; where they meet nobody can tell.
		start := (1 + rapid.SampledFrom([]float64{0.25, 0.75}).Draw(t, "phase") + 0.0637) / 1.2
		r := rand.New(rand.NewPCG(13, rapid.Uint64().Draw(t, "seed")))
		frames := noisyLegs(rate, r, 1.2)
		from, to := int(start*rate), int((start+length)*rate)+1
		for i := from; i < to; i++ {
			k := frames[i].People[0].Keypoints
			k[2], k[3], k[4], k[5] = k[3], k[2], k[5], k[4]
		}
		out := smoothRapid(t, signal.Config{Skeleton: skeleton(legNames...), Rate: rate}, frames)
		at := marked(out, 4, swappedOf)
		// Beside the ends the legs may be so near that a frame more or less is the same.
		if missed := wrong(from, to, at); missed > 1+(to-from)/8 {
			t.Fatalf("frames %d to %d were exchanged, %v were found", from, to-1, at)
		}
	})
}

// wrong counts the frames that are on one side only.
func wrong(from, to int, at []int) int {
	n := 0
	for i := from; i < to; i++ {
		if !slices.Contains(at, i) {
			n++
		}
	}
	for _, i := range at {
		if i < from || i >= to {
			n++
		}
	}
	return n
}
