package eval

import (
	"context"
	"math"
	"path/filepath"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/pose/synth"
	"github.com/posefleet/posefleet/protocol"
)

const groupBowler = "Bowling arm, drawn with exact truth"

const (
	bowlerRate, bowlerWidth, bowlerHeight = 60.0, 1280, 720
	// runUp and delivery are how long the bowler runs, and how long the arm takes from behind the back to the front, in seconds.
	runUp, delivery = 0.7, 0.4
	// bowlerTall is the body's height in pixels.
	bowlerTall = 520.0
)

// bowlerScene is a right-arm bowler seen from the side, the bowling arm towards the camera.
func bowlerScene() synth.Scene {
	at := func(t float64) (synth.Place, bool) {
		p := synth.Place{X: 250 + 420*t, Y: 680, Height: bowlerTall, Stance: synth.Walk(1.6*t, math.Pi/2)}
		if t >= runUp {
			p.Stance = synth.Bowl(min(1, (t-runUp)/delivery), math.Pi/2)
		}
		return p, true
	}
	return synth.Scene{Width: bowlerWidth, Height: bowlerHeight, Actors: []synth.Actor{{Clothes: synth.Wardrobe(1), At: at}}}
}

// bowler measures the bowling arm while it goes over.
func (r *runner) bowler(ctx context.Context) ([]Row, error) {
	path := filepath.Join(r.scratch, "bowler.mp4")
	w, err := media.Create(ctx, path, bowlerWidth, bowlerHeight, media.Config{})
	if err != nil {
		return nil, err
	}
	painter, picture := synth.NewPainter(bowlerScene()), make([]byte, 3*bowlerWidth*bowlerHeight)
	var truth []synth.Truth
	for i := range int((runUp + delivery) * bowlerRate) {
		t := float64(i) / bowlerRate
		truth = append(truth, painter.Draw(t, picture)[0])
		if err := w.Write(1000*t, picture); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	c, err := r.extract(ctx, path, protocol.Params{})
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, b := range []struct {
		joint string
		bar   float64
	}{{"wrist", 9}, {"elbow", 11}, {"shoulder", 7}} {
		release := int(runUp * bowlerRate)
		off, missed := c.jointError("right_"+b.joint, truth, release, len(truth), shift{})
		rows = append(rows, row(groupBowler, b.joint+": median error at a height of 520 px", median(lengths(off)), len(off)).in("px").atMost(b.bar).
			note("frames of 60 a second; %d without the point", missed))
		if b.joint == "shoulder" {
			before, _ := c.jointError("right_"+b.joint, truth, 0, release, shift{})
			same := middle(before)
			off, _ = c.jointError("right_"+b.joint, truth, release, len(truth), same)
			rows = append(rows, row(groupBowler, "shoulder: the same less what is constant in the run-up", median(lengths(off)), len(off)).in("px").
				note("frames; constant are %.1f px up along the trunk and %.1f px across", same.up, same.across))
		}
	}
	return rows, nil
}

// shift is the way from a true joint to ours, along the trunk towards the head and across it.
type shift struct{ up, across float64 }

// lengths are those of the shifts.
func lengths(all []shift) []float64 {
	var out []float64
	for _, s := range all {
		out = append(out, math.Hypot(s.up, s.across))
	}
	return out
}

// middle is the median of shifts in both directions.
func middle(all []shift) shift {
	var up, across []float64
	for _, s := range all {
		up, across = append(up, s.up), append(across, s.across)
	}
	return shift{median(up), median(across)}
}

// jointError is how far one of the athlete's joints is from the truth, less a constant, in the frames from one to before another, and in how
// many of them it is missing.
func (c *clip) jointError(name string, truth []synth.Truth, from, to int, less shift) (off []shift, missed int) {
	skeleton := pose.BlazePose33()
	i := skeleton.Index(name)
	shoulder, hip := skeleton.Index("right_shoulder"), skeleton.Index("right_hip")
	for f := from; f < min(to, len(c.frames)); f++ {
		if c.Athlete == nil {
			missed++
			continue
		}
		p, ok := c.person(f, c.Athlete.Track)
		if !ok || !p.Keypoints[i].Found {
			missed++
			continue
		}
		joints := truth[f].Points
		x, y := joints[shoulder].X-joints[hip].X, joints[shoulder].Y-joints[hip].Y
		trunk := math.Hypot(x, y)
		dx, dy := p.Keypoints[i].X-joints[i].X, p.Keypoints[i].Y-joints[i].Y
		off = append(off, shift{(dx*x+dy*y)/trunk - less.up, (dy*x-dx*y)/trunk - less.across})
	}
	return off, missed
}
