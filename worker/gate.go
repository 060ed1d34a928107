package worker

import (
	"context"

	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker/internal/extractor"
	"github.com/posefleet/posefleet/worker/internal/slots"
)

// gate is the queue's view of the shared slots. It opens only while an extractor would take a job and the control
// plane answers: a worker that can't work must not use up the attempts of every job in the queue.
type gate struct {
	slots *slots.Slots
	pool  *extractor.Pool
	reach *reach
	watch *queueWatch
}

// Wait returns when a slot may be free, an extractor is usable and the control plane is not known to be away.
func (g *gate) Wait(ctx context.Context) error {
	waited := false
	for {
		if err := g.reach.wait(ctx); err != nil {
			return err
		}
		usable, changed := g.pool.Usable()
		if !usable {
			waited = true
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if waited = waited || g.slots.Full(); waited {
			defer g.watch.gotCapacity()
		}
		return g.slots.Wait(ctx)
	}
}

// TryClaim takes a slot for the time of one claim call.
func (g *gate) TryClaim() (queue.Slot, bool) {
	if usable, _ := g.pool.Usable(); !usable {
		return nil, false
	}
	slot, ok := g.slots.TryClaim()
	if !ok {
		return nil, false // not a nil *Slot in the interface
	}
	return slot, true
}
