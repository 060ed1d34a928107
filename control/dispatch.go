package control

import (
	"context"
	"errors"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// dispatcher adds analyses to the queue.
type dispatcher struct {
	store store.Store
	queue *queue.Queue
	opts  queue.JobOptions
	now   func() time.Time
}

func newDispatcher(s store.Store, q *queue.Queue, cfg *Config) *dispatcher {
	return &dispatcher{store: s, queue: q, now: cfg.Now, opts: queue.JobOptions{
		Attempts: cfg.JobAttempts,
		Backoff:  &queue.Backoff{Type: "exponential", Delay: cfg.JobBackoff, Jitter: 0.5},
	}}
}

// dispatch adds the job of the analysis, whose id is the analysis's own, so that a second dispatch is no second job.
func (d *dispatcher) dispatch(ctx context.Context, id string) error {
	a, err := d.store.Analysis(ctx, id)
	if err != nil {
		return err
	}
	if a.Status.Terminal() {
		return nil
	}
	added, err := d.add(ctx, id)
	if err != nil || !added.Duplicate {
		return err
	}

	return d.revive(ctx, a)
}

func (d *dispatcher) add(ctx context.Context, id string) (queue.Added, error) {
	opts := d.opts
	opts.JobID = id

	return d.queue.Add(ctx, protocol.JobName, protocol.NewJobData(id), opts)
}

// endsSoon is when a job is looked at again that runs for a round that is over.
const endsSoon = time.Second

// revive makes a finished job of the analysis's id run again: the analysis came back from the HTTP door or to a person, or the job was added
// before there was an analysis. It is not decided, so that whatever that job ended with was not its outcome. A job that runs while nobody holds
// the analysis has either not redeemed it yet, or has reported and not ended yet: which of them the next look tells.
func (d *dispatcher) revive(ctx context.Context, a store.Analysis) error {
	state, err := d.queue.State(ctx, a.ID)
	if err != nil {
		return err
	}
	switch state {
	case queue.StateActive:
		if a.Status == store.StatusProcessing || a.LeaseUntil.After(d.now()) {
			return nil
		}

		return &laterError{after: endsSoon, why: "the job of an earlier round runs", alone: true}
	case queue.StateFailed, queue.StateCompleted:
	default:
		return nil
	}
	err = d.queue.Retry(ctx, a.ID)
	if errors.Is(err, queue.ErrNotInState) || errors.Is(err, queue.ErrJobNotFound) {
		// Somebody else was faster, or removed it.
		_, err = d.add(ctx, a.ID)
	}

	return err
}

// alive tells whether an analysis that a run waits for is still somewhere. With the HTTP door it is as long as somebody holds it or is
// about to be asked to: silent holders are the keeper's. In the queue it is as long as its job has not ended.
func (d *dispatcher) alive(ctx context.Context, r store.Run) (bool, error) {
	a, err := d.store.Analysis(ctx, r.AnalysisID)
	if err != nil {
		return false, err
	}
	waiting, err := d.store.OutboxOf(ctx, a.ID, store.OutboxDispatch, store.OutboxDoor)
	if err != nil || waiting || a.LeaseUntil.After(d.now()) {
		return true, err
	}
	if r.Way == store.WayHTTP && a.Status == store.StatusProcessing {
		return true, nil
	}
	// What went to the door may have gone on to the queue.
	state, err := d.queue.State(ctx, a.ID)

	return state != queue.StateFailed && state != queue.StateCompleted && state != queue.StateUnknown, err
}
