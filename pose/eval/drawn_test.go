package eval

import (
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/pose/synth"
	"github.com/posefleet/posefleet/protocol"
)

// testRunner needs no media folder.
func testRunner(t *testing.T, model string) *runner {
	t.Helper()
	need.Program(t, "ffmpeg")
	x, err := extract.New(extract.Config{Assets: need.Assets(t), Model: model})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return &runner{Config: Config{Model: model, Sample: 1, Progress: io.Discard}, x: x, scratch: t.TempDir()}
}

func TestTwoDrawnPeopleKeepTheirIDs(t *testing.T) {
	t.Parallel()
	r := testRunner(t, "full")
	frames, right := 0, 0
	for _, m := range synth.Meetings(480, 270) {
		if m.Name != "crossing" && m.Name != "returning" {
			continue // these two take time enough; the evaluation has all
		}
		path, truth, err := drawMeeting(t.Context(), r.scratch, m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.meeting(t.Context(), path, variant{name: asDrawn, scale: 1}, truth)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s", m.Name, got)
		if got.athlete != 0 || got.twice > 0 {
			t.Errorf("%s: %s; want no frame with somebody twice, and actor 0", m.Name, got)
		}
		frames, right = frames+got.frames, right+got.right
	}
	if right < frames*9/10 {
		t.Errorf("%d of %d frames with everybody under the right id, want nine in ten", right, frames)
	}
}

func TestIdentitiesAreCountedAsTheyAre(t *testing.T) {
	t.Parallel()
	actor := func(x float64) synth.Truth {
		p := synth.NewPainter(synth.Scene{Width: 200, Height: 100, Actors: []synth.Actor{{At: func(float64) (synth.Place, bool) {
			return synth.Place{X: x, Y: 95, Height: 80}, true
		}}}})
		return p.Draw(0, make([]byte, 3*200*100))[0]
	}
	truth := []synth.Truth{actor(50), actor(150)}
	c := &clip{}
	add := func(ids ...int) {
		f := frameOf(truth, ids)
		c.frames = append(c.frames, f)
	}
	for range 5 {
		add(1, 2)
	}
	add(2, 1) // changed over
	add(1, 0) // one is missing
	add(1, 2, 3)
	got := c.identities(0, len(c.frames), func(int) []synth.Truth { return truth })
	if got.right != 5 || got.frames != 8 || got.twice != 1 || got.extra != 0 {
		t.Errorf("%s, want 5 of 8 right and somebody twice once", got)
	}
}

func TestConstantPartOfAJointsErrorIsTakenOff(t *testing.T) {
	t.Parallel()
	c := &clip{ClipHead: pose.ClipHead{Athlete: &pose.Athlete{Track: 1}}}
	var truth []synth.Truth
	for i := range 4 {
		p := synth.NewPainter(bowlerScene())
		truth = append(truth, p.Draw(float64(i)/10, make([]byte, 3*bowlerWidth*bowlerHeight))[0])
		f := frameOf(truth[i:], []int{1})
		f.People[0].Keypoints = slices.Clone(f.People[0].Keypoints)
		for j := range f.People[0].Keypoints {
			f.People[0].Keypoints[j].Y -= 10 // the trunk of the bowler is all but upright
		}
		c.frames = append(c.frames, f)
	}
	c.frames = append(c.frames, pose.Frame{})
	off, missed := c.jointError("right_shoulder", truth, 0, len(truth), shift{})
	if m := middle(off); math.Abs(median(lengths(off))-10) > 1e-6 || missed != 0 || m.up < 9.5 || math.Abs(m.across) > 2 {
		t.Errorf("a shoulder 10 px too high is off by %v, %d missed", off, missed)
	}
	rest, _ := c.jointError("right_shoulder", truth, 0, len(truth), middle(off))
	if median(lengths(rest)) > 0.5 {
		t.Errorf("less what is constant it is off by %v", rest)
	}
	if _, missed = c.jointError("right_shoulder", append(truth, truth[0]), 0, len(truth)+1, shift{}); missed != 1 {
		t.Errorf("%d frames without the point, want 1", missed)
	}
}

func TestDrawnAthleteIsWhereAndWhenItWasDrawn(t *testing.T) {
	t.Parallel()
	r := testRunner(t, "lite")
	const width, height, tall = 360, 480, 300.0
	scene := synth.Scene{Width: width, Height: height, Actors: []synth.Actor{{Clothes: synth.Wardrobe(1), At: func(s float64) (synth.Place, bool) {
		return synth.Place{X: 150 + 30*s, Y: 430, Height: tall, Stance: synth.Jack(s, 0.3)}, true
	}}}}
	plain := filepath.Join(r.scratch, "plain.mp4")
	w, err := media.Create(t.Context(), plain, width, height, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	painter, picture := synth.NewPainter(scene), make([]byte, 3*width*height)
	var truth []synth.Truth
	var times []float64
	for i := range 45 {
		// 50 frames a second, then 20, with a hole between.
		at := 20 * float64(i)
		if i >= 25 {
			at = 700 + 50*float64(i-25)
		}
		truth, times = append(truth, painter.Draw(at/1000, picture)[0]), append(times, at)
		if err := w.Write(at, picture); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		name string
		args []string
	}{
		{"as drawn", nil},
		{"stored on its side", []string{"-vf", "transpose=cclock"}},
		{"with wide pixels", []string{"-vf", "scale=iw/2:ih,setsar=2"}},
	} {
		path := plain
		if v.args != nil {
			path = filepath.Join(r.scratch, v.name+".mp4")
			args := append([]string{"-v", "error", "-nostdin", "-i", plain, "-fps_mode", "passthrough", "-video_track_timescale", "90000"}, v.args...)
			if out, err := exec.CommandContext(t.Context(), "ffmpeg", append(args, "-c:v", "libx264", path)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		if v.name == "stored on its side" {
			path = turned(t, path)
		}
		c, err := r.extract(t.Context(), path, protocol.Params{})
		if err != nil {
			t.Fatal(err)
		}
		compareDrawn(t, v.name, c, truth, times, tall)
	}
}

// turned says in a clip's display matrix that the picture must be turned clockwise by a quarter.
func turned(t *testing.T, path string) string {
	t.Helper()
	out := path + ".turned.mp4"
	args := []string{"-v", "error", "-nostdin", "-i", path, "-c", "copy", "-metadata:s:v:0", "rotate=270", out}
	if text, err := exec.CommandContext(t.Context(), "ffmpeg", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

func compareDrawn(t *testing.T, name string, c *clip, truth []synth.Truth, times []float64, tall float64) {
	t.Helper()
	if len(c.frames) != len(truth) || c.Athlete == nil || !c.Media.VariableRate {
		t.Fatalf("%s: %d frames of %d, athlete %v, variable rate %v", name, len(c.frames), len(truth), c.Athlete, c.Media.VariableRate)
	}
	if r := c.Media.Ramps; len(r) != 1 || math.Abs(r[0].T-480) > 1 || math.Abs(r[0].From-50) > 0.1 || math.Abs(r[0].To-20) > 0.1 {
		t.Errorf("%s: changes of speed %v, want one at 480 ms from 50 to 20 frames a second", name, r)
	}
	var off []float64
	for i, f := range c.frames {
		if math.Abs(f.T-times[i]) > 1 {
			t.Errorf("%s: frame %d is at %.3f ms, drawn for %.3f", name, i, f.T, times[i])
		}
		p, ok := c.person(i, c.Athlete.Track)
		if !ok {
			t.Fatalf("%s: nobody in frame %d", name, i)
		}
		off = append(off, offBody(p, truth[i], false))
	}
	t.Logf("%s: mean distance %.1f %% of the height", name, 100*mean(off))
	if mean(off) > 0.035 {
		t.Errorf("%s: joints are %.1f %% of the height off (%.1f px), want at most 3.5 %%", name, 100*mean(off), mean(off)*tall)
	}
}

// frameOf has one person for each id, on the actor of the same place in the list; 0 leaves the actor out, and ids without an actor are on the
// first one.
func frameOf(truth []synth.Truth, ids []int) pose.Frame {
	var f pose.Frame
	for i, id := range ids {
		if id != 0 {
			f.People = append(f.People, pose.Person{Track: id, Keypoints: truth[i%len(truth)].Points})
		}
	}
	return f
}
