package eval

import (
	"context"
	"math"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
)

const groupPictures = "People on pictures"

// tally sums up one way to find people.
type tally struct {
	oks        []float64
	near, far  int // points within 0.1 and 0.2 of the torso
	points     int
	right, bad []float64 // scores of points that are right, and of those that are wrong
	shown      []float64 // scores of visible points
	hidden     []float64
}

// add takes one person; ours is nil where the person was missed.
func (t *tally) add(p Person, ours *pose.Person) {
	at := func(string) (pose.Keypoint, bool) { return pose.Keypoint{}, false }
	if ours != nil {
		at = of(*ours)
	}
	t.oks = append(t.oks, p.OKS(at))
	near, _ := p.PCK(at, 0.1)
	far, all := p.PCK(at, 0.2)
	t.near, t.far, t.points = t.near+near, t.far+far, t.points+all
	for name, want := range p.Points {
		q, ok := at(name)
		if !ok || spread(name) == 0 {
			continue
		}
		if math.Hypot(q.X-want.X, q.Y-want.Y) <= 0.1*math.Sqrt(p.Box.Area()) {
			t.right = append(t.right, q.Score)
		} else {
			t.bad = append(t.bad, q.Score)
		}
		if want.Hidden {
			t.hidden = append(t.hidden, q.Score)
		} else {
			t.shown = append(t.shown, q.Score)
		}
	}
}

func (t *tally) pck(right int) float64 { return float64(right) / float64(t.points) }

// pictures measures the labelled pictures.
func (r *runner) pictures(ctx context.Context) ([]Row, error) {
	var given, found, single tally
	recall := map[string]*[2]int{}
	extra, nth := 0, 0
	for _, pic := range r.pictured {
		if !pic.Human || len(pic.Persons) == 0 {
			continue
		}
		nth++
		if !r.sampled(nth) {
			continue
		}
		img, err := r.picture(pic.File)
		if err != nil {
			return nil, err
		}
		err = r.pictureOf(ctx, pic, img, &given, &found, &single, recall, &extra)
		_ = img.Close()
		if err != nil {
			return nil, err
		}
	}
	rows := []Row{
		row(groupPictures, "OKS, box given, full view", mean(given.oks), len(given.oks)).atLeast(0.76),
		row(groupPictures, "PCK within 0.2 of the torso, box given", given.pck(given.far), given.points),
		row(groupPictures, "PCK within 0.1 of the torso, box given", given.pck(given.near), given.points),
		row(groupPictures, "OKS, found by us, a missed one counts 0", mean(found.oks), len(found.oks)).atLeast(0.65),
		row(groupPictures, "PCK within 0.2 of the torso, found by us", found.pck(found.far), found.points),
		row(groupPictures, "OKS, found by us, one person in the picture", mean(single.oks), len(single.oks)).atLeast(0.80),
		row(groupPictures, "people whom nobody labelled", float64(extra), nth).note("pictures; some are people without a label"),
		row(groupPictures, "score tells right points from wrong ones (AUC)", auc(found.right, found.bad), len(found.right)+len(found.bad)),
		row(groupPictures, "mean score of right points", mean(found.right), len(found.right)),
		row(groupPictures, "mean score of wrong points", mean(found.bad), len(found.bad)),
		row(groupPictures, "mean score of hidden points", mean(found.hidden), len(found.hidden)),
	}
	r.labelled = recall
	return append(rows, recallRows("labelled pictures, ", recall, false)...), nil
}

// pictureOf looks at one picture, first where the labels say, then by itself.
func (r *runner) pictureOf(ctx context.Context, pic Picture, img gocv.Mat, given, found, single *tally, recall map[string]*[2]int, extra *int) error {
	ours, err := r.look(ctx, img)
	if err != nil {
		return err
	}
	matched := match(pic.Persons, ours)
	*extra += unmatched(pic, ours, matched)
	for i, p := range pic.Persons {
		if !p.Full {
			continue
		}
		var mine *pose.Person
		if o := matched[i]; o >= 0 && p.found(ours[o]) {
			mine = &ours[o]
		}
		found.add(p, mine)
		if len(pic.Persons) == 1 {
			single.add(p, mine)
		}
		count(recall, band(p.Box.H/float64(pic.Height)), mine != nil)
		lm, err := r.settled(ctx, img, boxROI(p.Box))
		if err != nil {
			return err
		}
		whole := raw(lm)
		given.add(p, &whole)
	}
	return nil
}

// unmatched counts ours that lie on no label, not even a box.
func unmatched(pic Picture, ours []pose.Person, matched []int) int {
	n := 0
	for o, q := range ours {
		known := false
		for i, p := range pic.Persons {
			known = known || matched[i] == o && p.found(q) || p.Box.IoU(q.Box) > 0.3 || p.Crowd && inside(q.Box, p.Box) > 0.5
		}
		if !known {
			n++
		}
	}
	return n
}

// inside is the share of a that lies in b.
func inside(a, b pose.Box) float64 {
	w := math.Min(a.X+a.W, b.X+b.W) - math.Max(a.X, b.X)
	h := math.Min(a.Y+a.H, b.Y+b.H) - math.Max(a.Y, b.Y)
	return max(0, w) * max(0, h) / max(1, a.Area())
}

// roomScale is the side of the region that the model looks at, in parts of the body.
const roomScale = 1.25

func boxROI(b pose.Box) blazepose.ROI {
	x, y := b.Centre()
	return blazepose.ROI{Cx: x, Cy: y, Size: roomScale * b.Side()}
}

// settled is the pose in a region after a second look.
func (r *runner) settled(ctx context.Context, img gocv.Mat, roi blazepose.ROI) (blazepose.Landmarks, error) {
	first, err := r.e.Landmarks(ctx, blazepose.Mat(img), roi)
	if err != nil || !first.Next.Valid() {
		return first, err
	}
	return r.e.Landmarks(ctx, blazepose.Mat(img), first.Next)
}

// raw are all points of the model, those outside of the picture too.
func raw(lm blazepose.Landmarks) pose.Person {
	p := pose.Person{Score: lm.Score}
	for _, q := range lm.Points {
		p.Keypoints = append(p.Keypoints, pose.Keypoint{X: q.X, Y: q.Y, Score: q.Score, Found: true})
	}
	p.Box, _ = pose.Bounds(p.Keypoints)
	return p
}
