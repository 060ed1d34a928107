package queue

import (
	"context"
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

	bound, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()

	reply, err := w.scripts.stalled.run(bound, w.client, w.keys,
		time.Now().UnixMilli(), interval.Milliseconds(), w.opts.MaxStalledCount)
	if err != nil {
		return 0, err
	}

	parts, _ := reply.([]any)
	if len(parts) < 3 {
		return 0, errBadReply
	}

	left, _ := parts[0].(int64)
	recovered, _ := parts[1].([]any)
	thrown, _ := parts[2].([]any)

	if len(recovered) > 0 {
		w.log.Warn("put stalled jobs back", slog.Int("count", len(recovered)), slog.Any("job_ids", firstFew(recovered)))
		w.watch.Stalled(len(recovered))
	}

	if len(thrown) > 0 {
		w.log.Warn("threw away active ids of jobs that do not exist", slog.Int("count", len(thrown)),
			slog.Any("job_ids", firstFew(thrown)))
	}

	next := interval
	if left > 0 {
		next = min(time.Duration(left)*time.Millisecond, interval)
	}

	return next + time.Millisecond + rand.N(interval/100+1), nil
}

func firstFew(ids []any) []any { return ids[:min(len(ids), 10)] }
