package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/internal/operator"
)

const (
	// fleetSpan is how far back a look reads.
	fleetSpan = 5 * time.Minute
	// readyLimit is how long a worker may take to get ready; it needs about a second.
	readyLimit = time.Minute
	// zeroLimit is how long the way back to zero may take: the idle time, a wish that is still open, and the end of a worker.
	zeroLimit = 30 * time.Second
)

// errNotReady points to the log, which has the worker's own words.
var errNotReady = errors.New("no worker is ready after a minute (see the lines above; run posefleet-extract --help)")

// errNotZero says that the fleet did not do its part.
var errNotZero = errors.New("the fleet does not go back to zero")

// fleetWatcher shows how the fleet comes and goes. It is used by one goroutine.
type fleetWatcher struct {
	status func(context.Context, time.Duration) (operator.Size, []operator.Size, error)
	term   *terminal

	since   time.Time // later changes have not been shown
	desired int
	ready   int
	grown   time.Time // when the first worker was asked for
	told    bool      // that a worker is ready, since the fleet was at zero
}

// look shows what has changed, and fails if a worker that was asked for never gets ready.
func (f *fleetWatcher) look(ctx context.Context) error {
	_, err := f.changes(ctx)
	if err == nil && f.desired > 0 && !f.told && time.Since(f.grown) > readyLimit {
		return errNotReady
	}

	return err
}

// works says that a worker has been seen at work: whatever the fleet says later of its first readiness is old.
func (f *fleetWatcher) works() { f.told = true }

// restarted says that another control plane starts the workers anew.
func (f *fleetWatcher) restarted(at time.Time) { f.told, f.ready, f.grown = false, 0, at }

func (f *fleetWatcher) changes(ctx context.Context) (operator.Size, error) {
	now, history, err := f.status(ctx, fleetSpan)
	if err != nil {
		return now, fmt.Errorf("watch fleet: %w", err)
	}

	for _, p := range history {
		if p.At.After(f.since) {
			f.show(p)
		}
	}

	return now, nil
}

func (f *fleetWatcher) show(p operator.Size) {
	if p.Desired != f.desired {
		f.term.line("fleet", "%d → %d worker(s): %s", f.desired, p.Desired, p.Reason)

		if f.desired == 0 {
			f.grown, f.told = p.At, false
		}
	}

	if p.Ready > f.ready && !f.told {
		f.told = true
		f.term.line("fleet", "%d worker(s) ready after %.1f s", p.Ready, p.At.Sub(f.grown).Seconds())
	}

	f.desired, f.ready, f.since = p.Desired, p.Ready, p.At
}

// followToZero shows the way of the fleet back to zero, which a command that ends by itself awaits for a bounded time; ctx ends it too.
func (f *fleetWatcher) followToZero(ctx context.Context, bounded bool) error {
	begin := time.Now()

	tick := time.NewTicker(watchInterval)
	defer tick.Stop()

	for {
		s, err := f.changes(ctx)

		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case s.Desired == 0 && s.Running == 0:
			return nil
		case bounded && time.Since(begin) > zeroLimit:
			return errNotZero
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
