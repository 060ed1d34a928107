package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// Events of the timeline.
const (
	eventAnalysing = "analysing"
	eventAwake     = "fleet_awake"
	eventReported  = "reported"
	eventNoReport  = "report_failed"
	eventChecked   = "prechecked"
)

// Pauses between two tries, doubled each time.
const (
	pauseFirst = 100 * time.Millisecond
	pauseMost  = 15 * time.Second
)

// analysing marks the round as begun.
func (r *run) analysing(ctx context.Context) (progress, error) {
	event := eventAnalysing
	if !r.sends() {
		event = "" // somebody else's beginning
	}

	return r.seen(r.cfg.Store.AdvanceRun(ctx, r.in.key(), store.StageAnalysing, event, ""))
}

// askFleet asks once. A fleet that can't be asked is no reason to let anybody wait: what is in the queue wakes it as well.
func (r *run) askFleet(ctx context.Context) (progress, error) {
	now, err := r.seen(r.cfg.Store.Run(ctx, r.in.key()))
	if err != nil || now.ended() || r.cfg.Waker == nil {
		return now, err
	}
	var ready bool
	var again time.Duration
	fault := r.tries(ctx, stepWake, func() error {
		var err error
		ready, again, err = r.cfg.Waker.Wake(ctx)

		return err
	})
	if ctx.Err() != nil {
		return now, ctx.Err()
	}
	if fault != nil || ready {
		return r.seen(r.cfg.Store.AdvanceRun(ctx, r.in.key(), store.StageAwake, "", ""))
	}
	now.Again = min(max(again, wakeAgainLeast), wakeAgainMost)

	return now, nil
}

// precheck lets the plugged function look at the analysis.
func (r *run) precheck(ctx context.Context) (progress, error) {
	if r.cfg.Precheck == nil {
		return r.seen(r.cfg.Store.Run(ctx, r.in.key()))
	}
	now, err := r.plugged(ctx, stepPrecheck, r.cfg.Precheck)
	if err != nil || now.Fault != nil {
		return now, err
	}

	return r.seen(r.cfg.Store.AdvanceRun(ctx, r.in.key(), store.StageChecked, eventChecked, ""))
}

// dispatch writes the intent into the outbox, in the transaction that notes that it did.
func (r *run) dispatch(ctx context.Context) (progress, error) {
	return r.seen(r.cfg.Store.DispatchRun(ctx, r.in.key(), r.cfg.Rollout.Way(r.in.AnalysisID)))
}

// lookSoon is the part of cfg.Look in which a run looks that was taken up.
const lookSoon = 10

// patience is how long a wait for the decision lasts without a hint: cfg.Look, and no longer than the round may. A run that has not moved for
// that long when it begins to wait here has waited in a process that ended. It looks soon: where processes never live as long as cfg.Look nobody
// would ever look, and all runs of one at the same moment after its start.
func (r *run) patience(row store.Run) time.Duration {
	now, wait := r.cfg.Now(), r.cfg.Look
	if !r.looked && now.Sub(row.UpdatedAt) >= wait {
		wait = rand.N(wait / lookSoon) //nolint:gosec // it spreads them
	}
	r.looked = true

	return min(wait, max(r.cfg.Limit-now.Sub(row.CreatedAt), 0)+time.Millisecond)
}

// look waits for the decision, at most for cfg.Look. Then it finds out whether the analysis is somewhere. A hint only makes it look; what
// it sees is the row.
func (r *run) look(ctx context.Context) (progress, error) {
	hint, stop := r.waiting.watch(r.in.key())
	defer stop()
	patience := time.NewTimer(r.cfg.Look)
	defer patience.Stop()
	for first := true; ; first = false {
		row, err := r.cfg.Store.Run(ctx, r.in.key())
		now, err := r.seen(row, err)
		if err != nil || now.ended() {
			return now, err
		}
		if first && row.Reason != store.RunFollowed {
			patience.Reset(r.patience(row))
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-hint:
		case <-patience.C:
			if row.Reason != store.RunFollowed {
				return r.missing(ctx, row)
			}
			// Somebody else sees to it, and there is no limit: each look that ended would be kept with the run.
			patience.Reset(r.cfg.Look)
		}
	}
}

// missing finds out whether a round that is still open has any future.
func (r *run) missing(ctx context.Context, row store.Run) (progress, error) {
	if r.cfg.Now().Sub(row.CreatedAt) > r.cfg.Limit {
		return progress{Fault: &Refusal{Code: protocol.CodeInternal, Message: fmt.Sprintf("no outcome within %s", r.cfg.Limit)}}, nil
	}
	if row.Stage < store.StageDispatched && row.Reason != store.RunReopened {
		// A database that forgot what it had said, as SQLite may at a power cut.
		return r.dispatch(ctx)
	}
	alive, err := r.cfg.Alive(ctx, row)

	return progress{Lost: !alive && row.Way != store.WayNone}, err
}

// retry writes the intent once more.
func (r *run) retry(ctx context.Context, n int) (progress, error) {
	return r.seen(r.cfg.Store.RetryRun(ctx, r.in.key(), n))
}

// fail decides the round, unless it was decided.
func (r *run) fail(ctx context.Context, f Refusal) (progress, error) {
	return r.seen(r.cfg.Store.FailRun(ctx, r.in.key(), f.Code, f.Message))
}

// persist notes that the run has taken in the decision that was read back. Result, credit and outcome are in the row already.
func (r *run) persist(ctx context.Context) (progress, error) {
	return r.seen(r.cfg.Store.AdvanceRun(ctx, r.in.key(), store.StagePersisted, "", ""))
}

// report lets the plugged function do its work. A delivery stays one without it.
func (r *run) report(ctx context.Context) (progress, error) {
	if r.cfg.Report == nil {
		return r.seen(r.cfg.Store.Run(ctx, r.in.key()))
	}
	now, err := r.plugged(ctx, stepReport, r.cfg.Report)
	if err != nil {
		return now, err
	}
	event, detail := eventReported, ""
	if now.Fault != nil {
		event, detail = eventNoReport, now.Fault.Error()
	}

	return r.seen(r.cfg.Store.AdvanceRun(ctx, r.in.key(), store.StageReported, event, detail))
}

// notify writes the notice and ends the run.
func (r *run) notify(ctx context.Context) (progress, error) {
	return r.seen(r.cfg.Store.NotifyRun(ctx, r.in.key()))
}

// seen turns what the store knows into progress.
func (r *run) seen(row store.Run, err error) (progress, error) {
	if errors.Is(err, store.ErrUnknown) {
		return progress{Gone: true}, nil
	}
	if err == nil {
		r.cfg.OnWrite(r.in.AnalysisID)
	}

	return progress{Outcome: row.Outcome}, err
}

// plugged runs a function that others gave us.
func (r *run) plugged(ctx context.Context, id string, fn func(context.Context, store.Analysis) error) (progress, error) {
	a, err := r.cfg.Store.Analysis(ctx, r.in.AnalysisID)
	if err != nil {
		return progress{}, err
	}
	fault := r.tries(ctx, id, func() error { return fn(ctx, a) })
	if ctx.Err() != nil {
		return progress{}, ctx.Err()
	}

	return progress{Fault: fault}, nil
}

// tries calls fn until it succeeds, refuses for good or has been tried often enough.
func (r *run) tries(ctx context.Context, id string, fn func() error) *Refusal {
	for retry := 0; ; retry++ {
		err := safely(fn)
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // the end of the process is no refusal; the caller looks for it
		}
		if refusal, ok := errors.AsType[*Refusal](err); ok {
			return refusal
		}
		r.log.WarnContext(ctx, "a step of a run failed", slog.String("analysis_id", r.in.AnalysisID), slog.String("step", id),
			slog.Int("retries", retry), slog.Any("error", err))
		if retry == maxRetries {
			return &Refusal{Code: protocol.CodeInternal, Message: fmt.Sprintf("step %s failed %d times", id, retry+1)}
		}
		pause(ctx, retry)
	}
}

// persevere runs the step until the database lets it. It does not give up: the run is kept in a database too, and without one nothing
// can be said about the round, least of all that it failed.
func (r *run) persevere(ctx context.Context, id string, do func(context.Context) (progress, error)) (progress, error) {
	defer r.standstills.goesOn(ctx, r, id)
	for try := 0; ; try++ {
		var out progress
		err := safely(func() error {
			var err error
			out, err = do(ctx)

			return err
		})
		if err == nil || ctx.Err() != nil {
			return out, errors.Join(err, ctx.Err())
		}
		r.standstills.waits(ctx, r, id, err)
		pause(ctx, try)
	}
}

// safely turns a panic into an error.
func safely(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()

	return fn()
}

// pause waits before the next try.
func pause(ctx context.Context, try int) {
	t := time.NewTimer(min(pauseFirst<<min(try, 20), pauseMost))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
