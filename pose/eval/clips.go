package eval

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/protocol"
)

const groupClips = "Clips with truth for each frame"

// clips measures the error on clips.
func (r *runner) clips(ctx context.Context) ([]Row, error) {
	truth, err := clipTruth(r.Media, "pose_1.json")
	if err != nil {
		return nil, err
	}
	before := r.x.Runs()
	c, err := r.extract(ctx, r.path("videos/tfjs_synthetic_pose_1.mp4"), protocol.Params{})
	if err != nil {
		return nil, err
	}
	after := r.x.Runs()
	rows := errorRows("rendered woman, 576 × 576", c, truth, 12)
	detector, landmark := after.Detector-before.Detector, after.Landmark-before.Landmark
	rows = append(rows, row(groupClips, "cost of a frame of one athlete, in runs of the landmark model",
		(float64(landmark)+detectorCost[r.Model]*float64(detector))/float64(len(c.frames)), len(c.frames)).atMost(1.1).
		note("frames, the search in the first one included; %d runs of the detector", detector))
	squats, err := referenceTruth(r.Media, "pose_squats.full.json")
	if err != nil {
		return nil, err
	}
	if c, err = r.extract(ctx, r.path("videos/tfjs_squats_5fps.mp4"), protocol.Params{}); err != nil {
		return nil, err
	}
	return append(rows, errorRows("squats, 720 × 1280, against a reference run of BlazePose", c, squats, 28)...), nil
}

// detectorCost is the time of one run of the detector in runs of the landmark model, as measured on one core.
var detectorCost = map[string]float64{"lite": 13.5 / 6.3, "full": 13.5 / 11.7, "heavy": 13.5 / 56}

// errorRows compares the athlete's points with the truth by frame.
func errorRows(name string, c *clip, truth []map[string]TruePoint, most float64) []Row {
	var all []float64
	missed, swapped := 0, 0
	for i, points := range truth {
		if i >= len(c.frames) || c.Athlete == nil {
			missed += len(points)
			continue
		}
		p, _ := c.person(i, c.Athlete.Track)
		at := of(p)
		for joint, want := range points {
			q, ok := at(joint)
			if !ok {
				missed++
				continue
			}
			all = append(all, math.Hypot(q.X-want.X, q.Y-want.Y))
		}
		if swap(at, points) {
			swapped++
		}
	}
	n := len(all)
	return []Row{
		row(groupClips, name+": mean error", mean(all), n).in("px").atMost(most),
		row(groupClips, name+": median error", median(all), n).in("px"),
		row(groupClips, name+": 95th percentile", percentile(all, 0.95), n).in("px"),
		row(groupClips, name+": points given as null", float64(missed)/float64(missed+n), missed+n),
		row(groupClips, name+": frames with legs or arms swapped", float64(swapped)/float64(len(truth)), len(truth)),
	}
}

// percentile of sorted values.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// swap reports whether left and right of some pair fit crossed much better than straight, where they are apart.
func swap(at pointer, truth map[string]TruePoint) bool {
	for name, left := range truth {
		joint, ok := strings.CutPrefix(name, "left_")
		right, paired := truth["right_"+joint]
		if !ok || !paired || spread(joint) < 0.05 {
			continue
		}
		l, ok1 := at("left_" + joint)
		r, ok2 := at("right_" + joint)
		if !ok1 || !ok2 {
			continue
		}
		straight := away(l, left) + away(r, right)
		crossed := away(l, right) + away(r, left)
		if apart := math.Hypot(left.X-right.X, left.Y-right.Y); crossed+apart < straight {
			return true
		}
	}
	return false
}

func away(k pose.Keypoint, p TruePoint) float64 { return math.Hypot(k.X-p.X, k.Y-p.Y) }

// frames decodes a clip and calls fn for every step-th frame. The picture is valid during the call only.
func (r *runner) frames(ctx context.Context, path string, step int, fn func(i int, img gocv.Mat) error) error {
	info, err := media.Probe(ctx, path, media.Config{})
	if err != nil {
		return err
	}
	in, err := media.Open(ctx, info, media.Config{})
	if err != nil {
		return err
	}
	defer in.Close()
	img := gocv.NewMatWithSize(in.Height, in.Width, gocv.MatTypeCV8UC3)
	defer img.Close()
	pixels, err := img.DataPtrUint8()
	if err != nil {
		return err
	}
	for {
		s, err := in.Read(pixels)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if s.Index%step != 0 {
			continue
		}
		if err := fn(s.Index, img); err != nil {
			return err
		}
	}
}
