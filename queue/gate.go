package queue

import (
	"context"
	"fmt"
	"sync"
)

// Gate hands out the slots in which jobs run. Several workers, and other takers of the same capacity, can share one. An idle worker
// holds no slot: it waits with Wait, blocks on the queue, and takes a slot only for the milliseconds of a claim.
type Gate interface {
	// Wait returns when a slot may be free, or with an error when ctx has ended. It takes nothing.
	Wait(ctx context.Context) error
	// TryClaim takes a slot for the time of one claim, or says at once that there is none.
	TryClaim() (Slot, bool)
}

// Slot is a taken slot.
type Slot interface {
	// Confirm: a job was claimed and runs in the slot from now on.
	Confirm()
	// Release gives the slot back, whether confirmed or not. Further calls do nothing.
	Release()
}

// Slots is a Gate of a fixed or changing number of slots.
type Slots struct {
	mu      sync.Mutex
	size    int
	taken   int
	changed chan struct{} // closed and replaced when a slot may have become free
}

// NewGate is a Gate of n slots, at least 1.
func NewGate(n int) *Slots { return &Slots{size: max(n, 1), changed: make(chan struct{})} }

// Wait implements Gate.
func (g *Slots) Wait(ctx context.Context) error {
	for {
		g.mu.Lock()
		free, changed := g.taken < g.size, g.changed
		g.mu.Unlock()

		if free {
			return nil
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for a slot: %w", context.Cause(ctx))
		}
	}
}

// TryClaim implements Gate.
func (g *Slots) TryClaim() (Slot, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if g.taken >= g.size {
		return nil, false
	}

	g.taken++

	return &gateSlot{gate: g}, true
}

// Taken is how many slots are taken now, tentative claims included.
func (g *Slots) Taken() int {
	g.mu.Lock()
	defer g.mu.Unlock()

	return g.taken
}

// Resize changes the number of slots, at least 1. Jobs that run in slots above it go on.
func (g *Slots) Resize(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.size = max(n, 1)
	g.announce()
}

// surplus is how many more slots are taken than there are, after a Resize.
func (g *Slots) surplus() int {
	g.mu.Lock()
	defer g.mu.Unlock()

	return max(g.taken-g.size, 0)
}

func (g *Slots) release() {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.taken--
	g.announce()
}

func (g *Slots) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}

type gateSlot struct {
	gate *Slots
	once sync.Once
}

// Confirm implements Slot; a slot of Slots does not tell claimed from busy.
func (*gateSlot) Confirm() {}

// Release implements Slot.
func (s *gateSlot) Release() { s.once.Do(s.gate.release) }
