package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// partStop is how long one part may take to end before it is given up; each is asked to stop hard, so that it takes moments.
const partStop = 15 * time.Second

// errStopped is the cause that parts are ended with.
var errStopped = errors.New("the demo ends")

// stack is what the demo has started, in the order of starting. It ends in the reverse order: whoever uses a part ends before it.
type stack struct {
	// died is closed when a part ended by itself; fault says which and why.
	died chan struct{}

	mu    sync.Mutex
	fault error
	stops []func() error
}

func newStack() *stack { return &stack{died: make(chan struct{})} }

// onStop adds something to be undone.
func (s *stack) onStop(f func() error) { s.stops = append(s.stops, f) }

// run runs a part in a goroutine of its own, until it ends by itself, which is a fault, or stop ends it.
func (s *stack) run(ctx context.Context, name string, part func(context.Context) error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})

	// Ends when the part does; stop waits for it.
	go func() {
		defer close(done)

		err := part(ctx)
		if ctx.Err() == nil {
			s.fail(fmt.Errorf("%s ended: %w", name, errors.Join(err, errStopped)))
		}
	}()

	s.onStop(func() error {
		cancel(errStopped)

		select {
		case <-done:
			return nil
		case <-time.After(partStop):
			return fmt.Errorf("%s does not end", name)
		}
	})
}

// fail keeps the first fault.
func (s *stack) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.fault == nil {
		s.fault = err
		close(s.died)
	}
}

// err is why a part ended by itself, if one did.
func (s *stack) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.fault
}

// stop ends everything, all of it even if some part gives trouble.
func (s *stack) stop() error {
	var errs []error

	for _, f := range slices.Backward(s.stops) {
		errs = append(errs, f())
	}

	s.stops = nil

	return errors.Join(errs...)
}
