package synth_test

import (
	"math"
	"slices"
	"testing"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/synth"
)

const (
	width, height = 320, 240
	tall          = 160.0
)

// draw paints one actor in front of black.
func draw(t *testing.T, at synth.Place, more ...synth.Actor) ([]byte, []synth.Truth) {
	t.Helper()
	actor := synth.Actor{Clothes: synth.Wardrobe(0), At: func(float64) (synth.Place, bool) { return at, true }}
	p := synth.NewPainter(synth.Scene{
		Width: width, Height: height, Backdrop: func(_, _ float64) [3]float64 { return [3]float64{} },
		Actors: append([]synth.Actor{actor}, more...),
	})
	picture := make([]byte, 3*width*height)
	return picture, p.Draw(0, picture)
}

func point(t *testing.T, truth synth.Truth, name string) pose.Keypoint {
	t.Helper()
	i := pose.BlazePose33().Index(name)
	if i < 0 || len(truth.Points) != 33 {
		t.Fatalf("no point %s among %d", name, len(truth.Points))
	}
	return truth.Points[i]
}

func TestTruthLiesOnTheBody(t *testing.T) {
	t.Parallel()
	for _, s := range []synth.Stance{{}, synth.Walk(0.2, 0.7), synth.Jack(0.5, 0), synth.Bowl(0.4, math.Pi/2)} {
		picture, truth := draw(t, synth.Place{X: 160, Y: 220, Height: tall, Stance: s})
		for i, k := range truth[0].Points {
			at := 3 * (int(math.Round(k.Y))*width + int(math.Round(k.X)))
			if slices.Max(picture[at:at+3]) == 0 {
				t.Errorf("%s at (%.1f, %.1f) lies on the background", pose.BlazePose33().Keypoints[i], k.X, k.Y)
			}
		}
	}
}

func TestLeftIsThePersonsOwn(t *testing.T) {
	t.Parallel()
	_, front := draw(t, synth.Place{X: 160, Y: 220, Height: tall})
	if l, r := point(t, front[0], "left_shoulder"), point(t, front[0], "right_shoulder"); l.X <= r.X {
		t.Errorf("of somebody who looks into the camera the left shoulder is at %.1f, the right one at %.1f", l.X, r.X)
	}
	_, back := draw(t, synth.Place{X: 160, Y: 220, Height: tall, Stance: synth.Stance{Yaw: math.Pi}})
	if l, r := point(t, back[0], "left_shoulder"), point(t, back[0], "right_shoulder"); l.X >= r.X {
		t.Errorf("from behind the left shoulder is at %.1f, the right one at %.1f", l.X, r.X)
	}
	if nose := point(t, back[0], "nose"); nose.Score != 0 {
		t.Error("from behind the nose can be seen")
	}
	_, side := draw(t, synth.Place{X: 160, Y: 220, Height: tall, Stance: synth.Stance{Yaw: math.Pi / 2}})
	if nose, ear := point(t, side[0], "nose"), point(t, side[0], "right_ear"); nose.X <= ear.X {
		t.Errorf("of somebody who looks to the right the nose is at %.1f, the ear at %.1f", nose.X, ear.X)
	}
}

func TestAnglesAndLengthsAreWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	_, truth := draw(t, synth.Place{X: 160, Y: 220, Height: tall, Stance: synth.Stance{
		LeftArm: synth.Limb{Spread: math.Pi / 2}, Yaw: math.Pi / 2, RightLeg: synth.Limb{Swing: math.Pi / 2, Bend: math.Pi / 2},
	}})
	hip, knee, ankle := point(t, truth[0], "right_hip"), point(t, truth[0], "right_knee"), point(t, truth[0], "right_ankle")
	if math.Abs(knee.Y-hip.Y) > 0.01 || knee.X-hip.X < 0.2*tall {
		t.Errorf("a thigh that is lifted forward goes from (%.1f, %.1f) to (%.1f, %.1f)", hip.X, hip.Y, knee.X, knee.Y)
	}
	if math.Abs(ankle.X-knee.X) > 0.01 || ankle.Y-knee.Y < 0.2*tall {
		t.Errorf("a bent knee's shank goes from (%.1f, %.1f) to (%.1f, %.1f)", knee.X, knee.Y, ankle.X, ankle.Y)
	}
	_, rolled := draw(t, synth.Place{X: 160, Y: 120, Height: tall, Roll: math.Pi / 2})
	if nose := point(t, rolled[0], "nose"); math.Abs(nose.Y-120) > 2 || nose.X-160 < 0.8*tall {
		t.Errorf("the nose of a body turned clockwise by a quarter is at (%.1f, %.1f)", nose.X, nose.Y)
	}
}

func TestWhoIsInFrontHidesTheOther(t *testing.T) {
	t.Parallel()
	front := synth.Actor{Clothes: synth.Wardrobe(1), At: func(float64) (synth.Place, bool) {
		return synth.Place{X: 160, Y: 220, Height: tall, Depth: 100}, true
	}}
	away := synth.Actor{At: func(float64) (synth.Place, bool) { return synth.Place{}, false }}
	_, truth := draw(t, synth.Place{X: 160, Y: 220, Height: tall}, front, away)
	for i := range 33 {
		if truth[0].Points[i].Score != 0 || truth[1].Points[i].Score > 1 {
			t.Errorf("point %d can be seen through a body", i)
		}
	}
	if truth[2].Shown || truth[2].Points != nil || point(t, truth[1], "nose").Score != 1 {
		t.Errorf("of those in front and away: %+v", truth[2])
	}
}
