package extract

import (
	"context"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// Look finds at most the given number of people in one picture (BGR, 8 bits), just as the pass does in the first frame of a scene.
// They are numbered from 1.
func Look(ctx context.Context, e *blazepose.Estimator, img gocv.Mat, people int) ([]pose.Person, error) {
	p := blazepose.Mat(img)
	seen, err := newBlazeScout(e, p.Size(), people).look(ctx, &picture{Picture: p})
	out := make([]pose.Person, 0, len(seen))
	for i, o := range seen {
		out = append(out, pose.Person{Track: i + 1, Score: o.Score, Box: o.Box, Keypoints: o.Keypoints})
	}
	return out, err
}
