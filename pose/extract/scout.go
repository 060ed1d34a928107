package extract

import (
	"context"

	"github.com/posefleet/posefleet/pose"
)

// scout finds the people of one clip, frame by frame, with the models of one family. It remembers where the followed people were;
// who is who is the tracker's business.
type scout interface {
	// look returns the people in a frame, in pixels of the frame. An observation of somebody who is followed names the track.
	look(ctx context.Context, pic *picture) ([]pose.Observation, error)
	// named tells which track each observation of the last look became; 0 means that it was dropped.
	named(ids []int)
	// cut tells that the next frame shows another scene.
	cut()
}
