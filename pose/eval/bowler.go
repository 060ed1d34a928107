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
		off, missed := c.jointError("right_"+b.joint, truth, int(runUp*bowlerRate))
		rows = append(rows, row(groupBowler, b.joint+": median error at a height of 520 px", median(off), len(off)).in("px").atMost(b.bar).
			note("frames of 60 a second; %d without the point", missed))
	}
	return rows, nil
}

// jointError is the distance of one of the athlete's joints from the truth, from a frame on, and in how many frames it is missing.
func (c *clip) jointError(name string, truth []synth.Truth, from int) (off []float64, missed int) {
	i := pose.BlazePose33().Index(name)
	for f := from; f < min(len(truth), len(c.frames)); f++ {
		if c.Athlete == nil {
			missed++
			continue
		}
		p, ok := c.person(f, c.Athlete.Track)
		if !ok || !p.Keypoints[i].Found {
			missed++
			continue
		}
		off = append(off, math.Hypot(p.Keypoints[i].X-truth[f].Points[i].X, p.Keypoints[i].Y-truth[f].Points[i].Y))
	}
	return off, missed
}
