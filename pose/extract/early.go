package extract

import (
	"context"
	"image"

	"github.com/posefleet/posefleet/pose/blazepose"
)

// earlyLook is a look of the detector that goes on beside those of the landmark model, at the region where it will most likely be due. Where
// another one is due after all, it was in vain: what is found never depends on it.
type earlyLook struct {
	estimator *blazepose.Estimator
	pic       *picture
	region    image.Rectangle
	done      chan struct{}
	found     []find
	err       error
}

// lookEarly begins to look at a region; none if it is empty. The caller must wait.
func lookEarly(ctx context.Context, e *blazepose.Estimator, pic *picture, region image.Rectangle) *earlyLook {
	l := &earlyLook{estimator: e, pic: pic, region: region, done: make(chan struct{})}
	if region.Empty() {
		close(l.done)
		return l
	}
	// Ends with its one look, for which the frame waits.
	go func() {
		defer close(l.done)
		l.found, l.err = detect(ctx, e, pic.Picture, []image.Rectangle{region})
	}()
	return l
}

func (l *earlyLook) wait() { <-l.done }

// at is what the detector finds in regions.
func (l *earlyLook) at(ctx context.Context, regions []image.Rectangle) ([]find, error) {
	l.wait()
	if len(regions) == 1 && regions[0] == l.region {
		return l.found, l.err
	}
	return detect(ctx, l.estimator, l.pic.Picture, regions)
}
