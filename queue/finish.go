package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	finishPauseFirst = 50 * time.Millisecond
	finishPauseMost  = time.Second
)

func random() float64 { return rand.Float64() }

// settle writes an outcome and keeps trying until it is written, refused, or the lock must be gone. doubt: an earlier try may have been
// written although its answer was lost. The lock is renewed meanwhile, so that a finish outlives a short outage of Redis.
func (w *Worker) settle(h *hold, write func() error) (doubt bool, err error) {
	h.startFinish()

	pause := newBackoff(finishPauseFirst, finishPauseMost)
	told := false

	for {
		if h.isLost() {
			return doubt, fmt.Errorf("%w before its outcome was written: %w", ErrLockLost, errOrNone(err))
		}

		err = write()
		if err == nil {
			return doubt, nil
		}

		if _, refused := errors.AsType[*ScriptError](err); refused {
			return doubt, err
		}

		doubt = doubt || uncertain(err) && !errors.Is(err, errNotSent)

		if isTimeout(err) {
			// What has silenced this connection has probably silenced the one for claims; finding out would cost the free slot a timeout.
			w.claims.renew()
		}

		if !told {
			told = true
			w.log.Warn("outcome not written, trying again", slog.String("job_id", h.job.ID), slog.Any("error", err))
		}

		h.pause(pause.pause())
	}
}

// isTimeout tells a connection that says nothing any more from one that was refused or broken.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)

	return ok && timeout.Timeout()
}

func (w *Worker) writeOnce(h *hold, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), callTimeout)
	defer cancel()

	return write(ctx)
}

// pause waits, but not longer than the job is ours.
func (h *hold) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()

	select {
	case <-t.C:
	case <-h.whenLost():
	}
}

var errNone = errors.New("not tried")

func errOrNone(err error) error {
	if err == nil {
		return errNone
	}

	return err
}

// complete ends the job with its result.
func (w *Worker) complete(h *hold, result any) Outcome {
	value, err := encodeJSON(result)
	if err != nil {
		return w.fail(h, fmt.Errorf("result of job %s: %w", h.job.ID, err))
	}

	err = w.finish(h, keyCompleted, value, keepRule(h.job.Opts.RemoveOnComplete, w.opts.RemoveOnComplete), nil)

	switch {
	case err == nil:
		return OutcomeCompleted
	case errors.Is(err, ErrPendingChildren):
		return w.fail(h, err)
	case errors.Is(err, ErrFailedChildren):
		return w.fail(h, Unrecoverable(err))
	}

	return w.unwritten(h, err)
}

// fail ends an attempt with an error: the job is tried again or failed for good.
func (w *Worker) fail(h *hold, cause error) Outcome {
	pause, final := w.nextTry(h.job, cause)
	reason := strings.ToValidUTF8(cause.Error(), "\uFFFD")

	fields, err := failureFields(h.job, cause, reason)
	if err != nil {
		w.log.Error("stack trace not stored", slog.String("job_id", h.job.ID), slog.Any("error", err))
	}

	fields = w.tracedFailure(h, fields)

	w.log.Info("job failed", slog.String("job_id", h.job.ID), slog.String("reason", reason), slog.Bool("final", final))

	outcome := OutcomeRetried

	switch {
	case final:
		outcome = OutcomeFailed
		err = w.finish(h, keyFailed, []byte(reason), keepRule(h.job.Opts.RemoveOnFail, w.opts.RemoveOnFail), fields)
	case pause <= 0:
		err = w.move(h, func(ctx context.Context) error { return w.runRetry(ctx, h, fields) })
	default:
		err = w.move(h, func(ctx context.Context) error { return w.runDelay(ctx, h, pause, false, fields) })
	}

	if err != nil {
		return w.unwritten(h, err)
	}

	return outcome
}

// delay puts the job off without spending an attempt.
func (w *Worker) delay(h *hold, d time.Duration) Outcome {
	if err := w.move(h, func(ctx context.Context) error { return w.runDelay(ctx, h, d, true, nil) }); err != nil {
		return w.unwritten(h, err)
	}

	return OutcomeDelayed
}

// putBack gives the job back to where it is served next.
func (w *Worker) putBack(h *hold) Outcome {
	err := w.move(h, func(ctx context.Context) error {
		_, err := w.scripts.putback.code(ctx, w.client, w.keys, h.job.ID, h.job.ID, h.token, "1")
		return err
	})
	if err != nil {
		return w.unwritten(h, err)
	}

	return OutcomePutBack
}

// limit gives the job back and keeps this worker, and those that obey the queue's limiter, from taking one for a while.
func (w *Worker) limit(h *hold, pause time.Duration) Outcome {
	var left int64

	w.limitFor(pause) // before the job is back: a free slot of ours would take it at once

	err := w.move(h, func(ctx context.Context) (err error) {
		if pause > 0 {
			err = w.client.get().Set(ctx, w.keys.of(keyLimiter), manualLimit, max(pause, time.Millisecond)).Err()
			if err != nil {
				return err
			}
		}

		left, err = w.scripts.putback.code(ctx, w.client, w.keys, h.job.ID, h.job.ID, h.token, "")

		return err
	})
	if pause <= 0 {
		// With a pause of its own, what is left of the key may be an ordinary window that another start has opened meanwhile.
		w.limitFor(time.Duration(left) * time.Millisecond)
	}

	if err != nil {
		return w.unwritten(h, err)
	}

	return OutcomeRateLimited
}

func (w *Worker) runRetry(ctx context.Context, h *hold, fields []any) error {
	args := append([]any{h.job.ID, time.Now().UnixMilli(), h.token, flag(h.job.Opts.LIFO)}, fields...)
	_, err := w.scripts.retry.code(ctx, w.client, w.keys, h.job.ID, args...)

	return err
}

func (w *Worker) runDelay(ctx context.Context, h *hold, d time.Duration, free bool, fields []any) error {
	args := append([]any{
		h.job.ID, time.Now().UnixMilli(), h.token, formatMillis(toMillis(d.Truncate(time.Millisecond))), flag(free),
		"", "", "", "", "",
	}, fields...)
	_, err := w.scripts.delay.code(ctx, w.client, w.keys, h.job.ID, args...)

	return err
}

// move writes an outcome after which the job waits again. If an earlier try's answer was lost and the lock is gone now, that try has
// done it: nobody else takes the lock from a job that is ours.
func (w *Worker) move(h *hold, write func(context.Context) error) error {
	doubt, err := w.settle(h, func() error { return w.writeOnce(h, write) })
	if doubt && (errors.Is(err, ErrLockLost) || errors.Is(err, ErrJobNotFound)) && isRefusal(err) {
		return nil
	}

	return err
}

// finish writes a final outcome. The second run of a finish whose answer was lost finds no lock: the job's state tells whether the first
// one did it.
func (w *Worker) finish(h *hold, target string, value []byte, keep *Keep, fields []any) error {
	e := h.final(target, value, keep, fields)

	doubt, err := w.settle(h, func() error { return w.exchange.write(e) })
	if err != nil && doubt && isRefusal(err) && w.finishedBefore(h, target, e.now) {
		return nil
	}

	return err
}

// finishedBefore reports whether the job is finished with our time stamp, or was removed on finishing.
func (w *Worker) finishedBefore(h *hold, target string, now int64) bool {
	pause := newBackoff(finishPauseFirst, finishPauseMost)

	for {
		var found map[string]string

		err := w.writeOnce(h, func(ctx context.Context) (err error) {
			found, err = w.client.get().HGetAll(ctx, w.keys.job(h.job.ID)).Result()
			return err
		})
		if err == nil {
			_, failed := found["failedReason"]
			return len(found) == 0 || found["finishedOn"] == strconv.FormatInt(now, 10) && (target == keyCompleted || failed)
		}

		if h.isLost() {
			return false
		}

		h.pause(pause.pause())
	}
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*ScriptError](err)

	return ok
}

// unwritten names the outcome of a write that was refused or given up.
func (w *Worker) unwritten(h *hold, err error) Outcome {
	id := slog.String("job_id", h.job.ID)

	switch {
	case errors.Is(err, ErrJobNotFound):
		w.log.Warn("job was removed while it ran", id)
		w.unlock(h)

		return OutcomeRemoved
	case errors.Is(err, ErrLockLost) && (isRefusal(err) || errors.Is(err, errNone)):
		w.log.Error("lock was lost before the outcome was written", id, slog.Any("error", err))

		return OutcomeLost
	}

	w.log.Error("outcome not written; the job runs again when its lock has run out", id, slog.Any("error", err))

	return OutcomeUnwritten
}

// unlock leaves no key behind for a job that no longer exists.
func (w *Worker) unlock(h *hold) {
	err := w.writeOnce(h, func(ctx context.Context) error {
		_, err := w.scripts.unlock.run(ctx, w.client, w.keys, h.job.ID, h.token)
		return err
	})
	if err != nil {
		w.log.Debug("lock of a removed job not deleted", slog.String("job_id", h.job.ID), slog.Any("error", err))
	}
}

// keepRule is the job's own rule, else the worker's.
func keepRule(own, workers *Keep) *Keep {
	if own != nil {
		return own
	}

	return workers
}

// failureFields are what each failed attempt leaves in the hash.
func failureFields(j *Job, cause error, reason string) ([]any, error) {
	trace := reason
	if p, ok := errors.AsType[*PanicError](cause); ok {
		trace += "\n" + p.Stack
	}

	traces := append(append([]string{}, j.Stacktrace...), trace)
	if limit := j.Opts.StackTraceLimit; limit != nil {
		traces = traces[max(len(traces)-max(*limit, 0), 0):]
	}

	text, err := encodeJSON(traces)
	if err != nil {
		return []any{"failedReason", reason}, err
	}

	return []any{"failedReason", reason, "stacktrace", text}, nil
}
