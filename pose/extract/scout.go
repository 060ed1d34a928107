package extract

import (
	"context"
	"image"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/models"
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

// newScout returns the scout for a model's family.
func newScout(m *models.Model, size image.Point, slots int) scout {
	switch {
	case m.BlazePose != nil:
		return newBlazeScout(m.BlazePose, size, slots)
	case m.Multi != nil:
		return newWholeScout(m, size, slots)
	}
	return newPointScout(m, size, slots)
}
