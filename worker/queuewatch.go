package worker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// fetchFresh is how old the last sign of life from the queue may be.
const fetchFresh = 30 * time.Second

// queueWatch is told what the queue's worker does: it counts, and it knows whether the fetch loop is alive.
type queueWatch struct {
	queue.NopObserver
	m *metrics

	mu       sync.Mutex
	renewed  time.Time // last renewal that Redis answered
	capacity time.Time // last time that the fetch loop got going after a wait for a slot
}

// LockExtended counts renewed and lost locks.
func (w *queueWatch) LockExtended(ok, lost int) {
	w.m.locks.WithLabelValues("ok").Add(float64(ok))
	w.m.locks.WithLabelValues("lost").Add(float64(lost))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renewed = time.Now()
}

// LockRenewalFailed counts renewal calls that did not get through.
func (w *queueWatch) LockRenewalFailed(error) { w.m.locks.WithLabelValues("error").Inc() }

// gotCapacity is called when the fetch loop goes on after it had to wait for a slot.
func (w *queueWatch) gotCapacity() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.capacity = time.Now()
}

// alive returns nil if the fetch loop works. The loop awaits a slot for an instant in each turn, so only full slots explain its silence:
//
//	no round yet               nobody knows whether the queue can be reached
//	slots free                 the last fetch round is fresh, or the loop has just got going
//	slots full, some ours      no round to be expected: the renewal of the locks is the sign of life
//	slots full by HTTP alone   nothing speaks to Redis: a round follows when a slot frees
func (w *queueWatch) alive(s queue.WorkerStatus, full bool, now time.Time) error {
	if s.LastFetch.IsZero() {
		return errors.New("the queue has not answered yet")
	}
	w.mu.Lock()
	renewed, capacity := w.renewed, w.capacity
	w.mu.Unlock()
	last := later(s.LastFetch, capacity)
	if full && s.AwaitingSlot {
		if s.Active == 0 {
			return nil
		}
		last = later(last, renewed)
	}
	if age := now.Sub(last); age > fetchFresh {
		return fmt.Errorf("the queue has not answered for %s", age.Round(time.Second))
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
