package queue

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// brake keeps a worker's fetcher from taking jobs: while the worker is paused, and until a rate limit is over that a handler met.
type brake struct {
	mu      sync.Mutex
	resumed chan struct{} // closed by the resume; nil: not paused
	until   time.Time     // of the rate limit
}

// on reports whether nothing may be taken now.
func (b *brake) on() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.resumed != nil || time.Now().Before(b.until)
}

func (b *brake) paused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.resumed != nil
}

// wait returns when jobs may be taken; false if the context ended first.
func (b *brake) wait(ctx context.Context) bool {
	for {
		b.mu.Lock()
		resumed, until := b.resumed, b.until
		b.mu.Unlock()

		if resumed == nil {
			left := time.Until(until)
			if left <= 0 {
				return ctx.Err() == nil
			}

			if !sleep(ctx, left) {
				return false
			}

			continue // paused, or limited for longer, meanwhile
		}

		select {
		case <-resumed:
		case <-ctx.Done():
			return false
		}
	}
}

// Pause keeps this worker alone from taking jobs; those that run go on. Nobody else learns of it: Queue.Pause stops all workers.
func (w *Worker) Pause() {
	w.brake.mu.Lock()
	defer w.brake.mu.Unlock()

	if w.brake.resumed != nil {
		return
	}

	w.brake.resumed = make(chan struct{})
	w.interrupt() // a job that comes meanwhile is another worker's
}

// interrupt ends the fetcher's wait, if it waits: what was right when it began is not any more. The caller has made that known already.
func (w *Worker) interrupt() {
	if w.state.snapshot().Blocked {
		w.interrupted.Store(true)
		w.block.renew()
	}
}

// Resume ends Pause.
func (w *Worker) Resume() {
	w.brake.mu.Lock()
	defer w.brake.mu.Unlock()

	if w.brake.resumed != nil {
		close(w.brake.resumed)
		w.brake.resumed = nil
	}
}

// SetConcurrency changes how many jobs run at once. Those above a lower number go on until they end. It is refused if the capacity is a
// Gate of the caller's, who changes that.
func (w *Worker) SetConcurrency(n int) error {
	switch {
	case w.slots == nil:
		return fmt.Errorf("set concurrency: %w: the gate decides", ErrBadWorkerOptions)
	case n < 1:
		return fmt.Errorf("set concurrency: %w: %d is below 1", ErrBadWorkerOptions, n)
	}

	w.slots.Resize(n)

	if w.slots.surplus() > 0 {
		w.interrupt() // the wait may hold a slot that is none any more
	}

	return nil
}

// limitFor keeps this worker from taking jobs for a while. A worker with a Limiter looks again sooner, since the limit may be lifted.
func (w *Worker) limitFor(d time.Duration) {
	if w.opts.Limiter != nil {
		d = min(d, maxLimitPause)
	}

	w.brake.mu.Lock()
	defer w.brake.mu.Unlock()

	if until := time.Now().Add(d); d > 0 && until.After(w.brake.until) {
		w.brake.until = until
		w.interrupt()
	}
}
