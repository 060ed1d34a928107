package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// hintLinger is how long hints are followed after the last run: short jobs in a row need no connection each, and an idle worker none.
const hintLinger = 10 * time.Second

// followHints has the lease of a run renewed at once when the control plane says that it is worth asking, until ctx ends. Without the right
// to read, or without Redis, a run learns of its end at the next renewal.
func (w *Worker) followHints(ctx context.Context) {
	o := w.queueOptions()
	o.Prefix, o.Name = protocol.HintPrefix(w.cfg.Prefix, w.cfg.Queue), protocol.HintQueue
	// From the oldest there is at first: what came before the connection stood may be about the run that it was made for.
	after := "0"
	for {
		select {
		case <-w.engine.runs.busy():
		case <-ctx.Done():
			return
		}
		hints, err := queue.NewEvents(o)
		if err != nil {
			w.log.Warn("hints of the control plane are not followed", slog.String("error", err.Error()))
			return
		}
		o.Logger = nil // what Redis refuses is said once, not for each job
		w.hintsWhileBusy(ctx, hints, &after)
	}
}

// hintsWhileBusy passes hints on until nothing has run for a while.
func (w *Worker) hintsWhileBusy(ctx context.Context, hints *queue.Events, after *string) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with ctx, which is cancelled below
		defer close(done)
		w.engine.runs.quiet(ctx, hintLinger)
		cancel()
	}()
	_ = hints.RunFrom(ctx, *after, func(e queue.Event) error { // has no faults of its own
		*after = e.ID
		if e.Gap { // others may have been lost
			w.engine.runs.hintAll()
		}
		if e.Name == protocol.HintRenew {
			w.engine.runs.hint(e.JobID)
		}
		return nil
	})
	cancel()
	<-done
}
