package pipeline

import (
	"sync"

	"github.com/posefleet/posefleet/control/store"
)

// waiting are the runs of this process that wait for a decision.
type waiting struct {
	mu   sync.Mutex
	runs map[store.RunKey]chan struct{}
}

// watch returns a channel that gets a token with each hint, and what ends the watch. A run waits once at a time; if it was taken up
// again while it waited, the newer wait counts.
func (w *waiting) watch(k store.RunKey) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[k] = c

	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.runs[k] == c {
			delete(w.runs, k)
		}
	}
}

// hint makes a run look.
func (w *waiting) hint(k store.RunKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.runs[k] <- struct{}{}:
	default:
	}
}

// any tells whether somebody waits.
func (w *waiting) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	return len(w.runs) > 0
}
