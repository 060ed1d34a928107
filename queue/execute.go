package queue

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// Reasons of failures that no handler has caused, in BullMQ's words.
const reasonStartedTooOften = "job started more than allowable limit"

// runSlot works on a job, and then on those that its finishes take in its place.
func (w *Worker) runSlot(work context.Context, c *claimed, slot Slot) {
	defer slot.Release()

	for c != nil {
		c = w.runClaimed(work, c)
	}
}

// runClaimed works on one job, or gives it back. It answers the job that was taken in its place.
func (w *Worker) runClaimed(work context.Context, c *claimed) *claimed {
	h, bad := w.holdTaken(work, c.job, c.token, c.sent)
	h.chained, h.order = w.chains(), c.order

	if c.back || w.stopped.Load() {
		w.putBack(h) // nothing has begun yet, so nobody is told of an end
		w.held.drop(h)

		return nil
	}

	w.execute(h, bad)

	return h.next
}

// chains: finishes may take the next jobs, since all slots are this worker's own and nobody wants to be asked before.
func (w *Worker) chains() bool { return w.slots != nil && w.opts.BeforeClaim == nil }

// execute runs one job from its start to the write of its outcome. bad is set if the job's options could not be read.
func (w *Worker) execute(h *hold, bad error) {
	w.watch.JobStarted(h.job)
	w.end(h, w.work(h, bad))
}

// end is the last step of every hold.
func (w *Worker) end(h *hold, outcome Outcome) {
	w.held.drop(h)
	w.log.LogAttrs(h.ctx, slog.LevelDebug, "job ended", slog.String("job_id", h.job.ID), slog.String("outcome", string(outcome)))
	w.watch.JobEnded(h.job, outcome)

	if w.heldBack.Load() && h.next == nil {
		w.wakeNext(h)
	}
}

// wakeNext matters where a global concurrency was used up: the end of a job frees a place of which nobody is told otherwise.
func (w *Worker) wakeNext(h *hold) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), callTimeout)
	defer cancel()

	if _, err := w.scripts.rewake.run(ctx, w.client, w.keys); err != nil {
		w.log.Debug("nobody woken", slog.Any("error", err))
	}
}

func (w *Worker) work(h *hold, bad error) Outcome {
	if outcome, over := w.prepare(h, bad); over {
		return outcome
	}

	result, err := w.call(h)
	if h.isLost() {
		return OutcomeLost
	}

	return w.conclude(h, result, err)
}

// prepare is what has to happen before a handler may run. over: the job has been ended and its handler does not run.
func (w *Worker) prepare(h *hold, bad error) (outcome Outcome, over bool) {
	j := h.job

	if bad != nil {
		return w.fail(h, Unrecoverable(bad)), true
	}

	if j.SchedulerID != "" {
		w.continueSchedule(h)
	}

	if j.DeferredFailure != "" {
		return w.failDeferred(h, j.DeferredFailure), true
	}

	if most := w.opts.MaxStartedAttempts; most > 0 && j.AttemptsStarted > most {
		return w.failDeferred(h, reasonStartedTooOften), true
	}

	return "", false
}

// call runs the handler; a panic is its error.
func (w *Worker) call(h *hold) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: string(debug.Stack())}
			w.log.Error("handler panicked", slog.String("job_id", h.job.ID), slog.Any("value", v))
		}
	}()

	return w.handler(h.ctx, h.job)
}

// failDeferred fails a job that somebody else has sentenced, without running its handler and whatever attempts are left.
func (w *Worker) failDeferred(h *hold, reason string) Outcome {
	if hook := w.opts.OnDeferredFailure; hook != nil {
		func() {
			defer func() {
				if v := recover(); v != nil {
					w.log.Error("hook for deferred failures panicked", slog.String("job_id", h.job.ID), slog.Any("value", v))
				}
			}()

			hook(h.ctx, h.job, reason)
		}()
	}

	if h.isLost() {
		return OutcomeLost
	}

	return w.fail(h, Unrecoverable(errors.New(reason)))
}

// conclude writes what the handler's answer means.
func (w *Worker) conclude(h *hold, result any, err error) Outcome {
	if err == nil {
		return w.complete(h, result)
	}

	if back, ok := errors.AsType[*PutBackError](err); ok {
		w.log.Info("job put back", slog.String("job_id", h.job.ID), slog.Any("reason", back.Err))
		return w.putBack(h)
	}

	if _, ok := errors.AsType[*WaitForChildrenError](err); ok {
		return w.waitForChildren(h)
	}

	if later, ok := errors.AsType[*DelayError](err); ok {
		w.log.Info("job put off", slog.String("job_id", h.job.ID), slog.Int64("delay_ms", later.Delay.Milliseconds()), slog.Any("reason", later.Err))
		return w.delay(h, later.Delay)
	}

	if limit, ok := errors.AsType[*RateLimitError](err); ok {
		w.log.Info("job put back by a rate limit", slog.String("job_id", h.job.ID), slog.Int64("pause_ms", limit.Pause.Milliseconds()),
			slog.Any("reason", limit.Err))

		return w.limit(h, limit.Pause)
	}

	return w.fail(h, err)
}

// nextTry decides about a failed attempt: final, or the pause before the next one.
func (w *Worker) nextTry(j *Job, err error) (pause time.Duration, final bool) {
	if _, ok := errors.AsType[*UnrecoverableError](err); ok || j.LastAttempt() {
		return 0, true
	}

	if most := w.opts.MaxStartedAttempts; most > 0 && most <= j.AttemptsStarted {
		return 0, true
	}

	attempt := j.AttemptsMade + 1

	pause, known := j.Opts.Backoff.retryDelay(attempt, random)
	if known {
		return pause, false
	}

	kind := j.Opts.Backoff.Type
	if strategy := w.opts.BackoffStrategy; strategy != nil {
		pause = strategy(attempt, kind, err, j)
		return max(pause, 0), pause < 0
	}

	// BullMQ leaves such a job active until it stalls; its delay is the better guess.
	w.log.Error("unknown backoff type, taken as fixed", slog.String("job_id", j.ID), slog.String("type", kind))

	return j.Opts.Backoff.Delay, false
}
