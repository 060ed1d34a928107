package demo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posefleet/posefleet/internal/child"
)

// partStop is how long one part may take to end before it is given up; a worker that extracts is given a second to end.
const partStop = 15 * time.Second

// errEnded stands for the end of a process that ended in order, and should not have.
var errEnded = errors.New("exit status 0")

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

// watch makes the end of a process a fault, until expect is called.
func (s *stack) watch(name string, p *child.Process) (expect func()) {
	var expected atomic.Bool

	// Ends with the process, which whoever started it ends.
	go func() {
		<-p.Done()

		if !expected.Load() {
			s.fail(fmt.Errorf("%s ended by itself: %w", name, cmp.Or(p.Err(), errEnded)))
		}
	}()

	return func() { expected.Store(true) }
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
