package queue

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

const stalledPauseMost = 5 * time.Second

// checkStalled looks for jobs that have lost their worker, at once and then each StalledInterval. All workers of the queue share one
// check per interval; a worker that comes too early is told when to come again, so that no interval is skipped.
func (w *Worker) checkStalled(ctx context.Context) {
	trouble := newBackoff(100*time.Millisecond, min(stalledPauseMost, w.opts.StalledInterval))

	for {
		next, err := w.checkStalledOnce(ctx)
		if err != nil {
			// The fetcher tells of a Redis that is gone.
			w.log.Debug("stalled check failed, trying again", slog.Any("error", err))
			next = trouble.pause()
		} else {
			trouble.reset()
		}

		if !sleep(ctx, next) {
			return
		}
	}
}

// checkStalledOnce answers when to look again.
func (w *Worker) checkStalledOnce(ctx context.Context) (time.Duration, error) {
	interval := w.opts.StalledInterval
	step := &stalledStep{}

	for first := true; first || step.rest > 0; first = false {
		var err error
		if step, err = w.runStalled(ctx, step.rest > 0); err != nil {
			return 0, err
		}

		w.report(step)
	}

	next := interval
	if step.left > 0 {
		next = min(step.left, interval)
	}

	return next + time.Millisecond + rand.N(interval/100+1), nil
}

// stalledStep is one answer of the script.
type stalledStep struct {
	left              time.Duration // until the next check may run
	recovered, thrown []any
	rest              int64 // suspects left over for another step
}

func (w *Worker) runStalled(ctx context.Context, goOn bool) (*stalledStep, error) {
	bound, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	reply, err := w.scripts.stalled.run(bound, w.client, w.keys,
		time.Now().UnixMilli(), w.opts.StalledInterval.Milliseconds(), w.opts.MaxStalledCount, flag(goOn))
	if err != nil {
		return nil, err
	}

	parts, _ := reply.([]any)
	if len(parts) < 4 {
		return nil, fmt.Errorf("stalled check: %w", errBadReply)
	}

	step := &stalledStep{}
	left, _ := parts[0].(int64)
	step.left = time.Duration(left) * time.Millisecond
	step.recovered, _ = parts[1].([]any)
	step.thrown, _ = parts[2].([]any)
	step.rest, _ = parts[3].(int64)

	return step, nil
}

func (w *Worker) report(step *stalledStep) {
	if n := len(step.recovered); n > 0 {
		w.log.Warn("put stalled jobs back", slog.Int("count", n), slog.Any("job_ids", firstFew(step.recovered)))
		w.watch.Stalled(n)
	}

	if n := len(step.thrown); n > 0 {
		w.log.Warn("threw away active ids of jobs that do not exist", slog.Int("count", n), slog.Any("job_ids", firstFew(step.thrown)))
	}
}

func firstFew(ids []any) []any { return ids[:min(len(ids), 10)] }
