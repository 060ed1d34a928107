package claimcheck

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

var errIdle = errors.New("the transfer stood still")

// watchdog ends a transfer that stands still: its context is cancelled with errIdle when less than a minimum of
// bytes moved within a window. Silence before the first byte counts, too, and so does a drip.
type watchdog struct {
	moved   atomic.Int64
	minimum int64
	cancel  context.CancelCauseFunc
	done    chan struct{}
}

// newWatchdog starts watching; the goroutine that it starts belongs to the watchdog and ends with stop or with ctx.
func newWatchdog(ctx context.Context, window time.Duration, minRate int64) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	minimum := max(int64(window.Seconds()*float64(minRate)), 1)
	w := &watchdog{minimum: minimum, cancel: cancel, done: make(chan struct{})}
	go w.watch(ctx, window)
	return ctx, w
}

func (w *watchdog) watch(ctx context.Context, window time.Duration) {
	defer close(w.done)
	ticker := time.NewTicker(window)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if w.moved.Swap(0) < w.minimum {
				w.cancel(errIdle)
				return
			}
		}
	}
}

// progress tells that n bytes moved.
func (w *watchdog) progress(n int64) { w.moved.Add(n) }

// stop ends the watch and waits for its goroutine.
func (w *watchdog) stop() {
	w.cancel(context.Canceled)
	<-w.done
}

// meter reports what is read through it.
type meter struct {
	io.Reader
	report func(n int64)
}

func (m meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if n > 0 {
		m.report(int64(n))
	}
	return n, err
}
