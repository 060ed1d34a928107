package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

const (
	// recallTimeout bounds what is done about one cancelled analysis at one place.
	recallTimeout = 10 * time.Second
	// recallBacklog is how many may wait; what comes on top is left to the renewals.
	recallBacklog = 256
	// recallsAtOnce is how many are looked at at the same time, and how many doors are told.
	recallsAtOnce = 8
)

// recaller has the work at a cancelled analysis end at once. The row has been written; all of this is haste:
//
//	the job waits        it is removed, if we added it: with no worker there it would wait for one for ever
//	a worker is at it    a hint (protocol.HintRenew) has it renew its lease now, and the answer is that nobody needs the claim
//	… by the HTTP door   the door is told as well
//	a step fails         the worker learns it at its next renewal, a third of a lease later; a job that stayed ends at its next start
//
// Several are looked at at once, and the doors are told by others again: one that hangs keeps no hint back.
type recaller struct {
	store store.Store
	queue *queue.Queue
	hints *queue.Queue
	door  *door
	// ids are cancelled analyses, doors those of them that came by the door.
	ids, doors chan string
	log        *slog.Logger
}

func newRecaller(s store.Store, q, hints *queue.Queue, d *door, log *slog.Logger) *recaller {
	return &recaller{store: s, queue: q, hints: hints, door: d, ids: make(chan string, recallBacklog), doors: make(chan string, recallBacklog), log: log}
}

// tell has the analysis looked at soon. It never waits.
func (c *recaller) tell(id string) { leave(c.ids, id) }

// leave puts the id on the list, unless that is full.
func leave(list chan<- string, id string) {
	select {
	case list <- id:
	default:
	}
}

// Run works until ctx ends.
func (c *recaller) Run(ctx context.Context) {
	var all sync.WaitGroup
	for range recallsAtOnce { // each ends with ctx
		all.Go(func() { c.each(ctx, c.ids, c.recall) })
		all.Go(func() { c.each(ctx, c.doors, c.door.cancel) })
	}
	all.Wait()
}

// each has what comes on a list done, one after the other.
func (c *recaller) each(ctx context.Context, list <-chan string, do func(context.Context, string) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-list:
			if err := bounded(ctx, id, do); err != nil && ctx.Err() == nil {
				c.log.WarnContext(ctx, "work at a cancelled analysis goes on until the next renewal", slog.String("analysis_id", id), slog.Any("error", err))
			}
		}
	}
}

func bounded(ctx context.Context, id string, do func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()

	return do(ctx, id)
}

func (c *recaller) recall(ctx context.Context, id string) error {
	a, err := c.store.Analysis(ctx, id)
	if err != nil || a.Status != store.StatusCancelled {
		return err
	}
	if a.Holder.Source == protocol.SourceHTTP {
		leave(c.doors, id)
	}

	return errors.Join(c.hints.PublishEvent(ctx, protocol.HintRenew, 0, "jobId", id), c.take(ctx, a))
}

// take removes the job that we added, unless a worker has it or had it to the end.
func (c *recaller) take(ctx context.Context, a store.Analysis) error {
	run, err := c.store.Run(ctx, store.RunKey{AnalysisID: a.ID, Round: a.Round})
	if errors.Is(err, store.ErrUnknown) || err == nil && run.Reason == store.RunFollowed {
		return nil
	}
	if err != nil {
		return err
	}
	state, err := c.queue.State(ctx, a.ID)
	if err != nil {
		return err
	}
	switch state {
	case queue.StateWaiting, queue.StateDelayed, queue.StatePrioritized:
		if err = c.queue.RemoveAlone(ctx, a.ID); errors.Is(err, queue.ErrJobLocked) {
			return nil // a worker was faster, and is told by the claim
		}
	}

	return err
}

// cancel asks the worker behind the door to stop. A balancer may lead to another one, which answers 404: then it is as without a door.
func (d *door) cancel(ctx context.Context, id string) error {
	if d.url == "" {
		return nil
	}
	response, err := d.send(ctx, strings.TrimSuffix(d.url, "/")+"/"+id+"/cancel", webhook.NewID("cnl"), []byte("{}"))
	if err != nil {
		return fmt.Errorf("cancel at the door: %w", withoutURL(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted && response.StatusCode != http.StatusNotFound {
		return fmt.Errorf("cancel at the door: it answered %d", response.StatusCode)
	}

	return nil
}
