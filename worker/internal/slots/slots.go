// Package slots is the one capacity that both doors of the worker share.
//
// A slot is one analysis at a time. The HTTP door takes a slot when a request comes and never waits for one that is
// busy. The queue door takes a slot in two steps, so that an idle worker that is blocked on Redis holds none: it
// waits until a slot may be free, takes it tentatively for the time of one claim call, and confirms it if the call
// returned a job.
//
//	free --TryClaim--> tentative --Confirm--> busy --Release--> free
//	  \                    \------Release------------------------^
//	   \--Acquire--> busy --Release--> free
//
// A tentative slot is not busy: the HTTP door waits a short bounded time for it to be decided, and while it waits
// it is served before the next claim call. So an idle worker never refuses work, and a claimed job never waits.
package slots

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Errors of Acquire.
var (
	// ErrFull says that every slot runs a job.
	ErrFull = errors.New("all slots are busy")
	// ErrUndecided says that the wait for a claim call in flight ended before the call did.
	ErrUndecided = errors.New("the last free slot is still being decided")
)

// Slots counts the analyses that run at once.
type Slots struct {
	size int
	sem  *semaphore.Weighted

	mu        sync.Mutex
	busy      int           // written by Slot, read by the gauges and by both doors
	tentative int           // written by Slot and TryClaim
	waiting   int           // HTTP requests inside Acquire; they go before claim calls
	changed   chan struct{} // closed and replaced at every change of the counts
}

// New returns n free slots, n at least 1.
func New(n int) (*Slots, error) {
	if n < 1 {
		return nil, fmt.Errorf("slots must be at least 1, not %d", n)
	}
	return &Slots{size: n, sem: semaphore.NewWeighted(int64(n)), changed: make(chan struct{})}, nil
}

// Size returns the number of slots.
func (s *Slots) Size() int { return s.size }

// InUse returns how many slots run a job; a slot that is held for a claim call is not in use.
func (s *Slots) InUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

// Full tells whether every slot runs a job.
func (s *Slots) Full() bool { return s.InUse() == s.size }

// Changed returns a channel that is closed at the next change of the counts.
func (s *Slots) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Wait returns nil when a slot may be free for a claim call, and takes nothing; it returns ctx's cause when ctx ends.
func (s *Slots) Wait(ctx context.Context) error {
	for {
		changed, free := s.claimable()
		if free {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TryClaim takes a slot tentatively, for the time of one claim call, or says that there is none to have.
func (s *Slots) TryClaim() (*Slot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free() <= s.waiting || !s.sem.TryAcquire(1) {
		return nil, false
	}
	s.tentative++
	s.notify()
	return &Slot{owner: s, state: tentative}, true
}

// Acquire takes a slot for a job that starts now. It returns ErrFull at once when every slot runs a job. When the
// last free slots are held by claim calls it waits for their decision, at most until ctx ends (ErrUndecided).
func (s *Slots) Acquire(ctx context.Context) (*Slot, error) {
	s.mu.Lock()
	s.waiting++
	defer func() {
		s.mu.Lock()
		s.waiting--
		s.notify()
		s.mu.Unlock()
	}()
	for {
		if s.sem.TryAcquire(1) {
			s.busy++
			s.notify()
			s.mu.Unlock()
			return &Slot{owner: s, state: busy}, nil
		}
		if s.busy == s.size {
			s.mu.Unlock()
			return nil, ErrFull
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ErrUndecided
		}
		s.mu.Lock()
	}
}

// claimable tells whether a claim call may start; the channel is closed at the next change.
func (s *Slots) claimable() (<-chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed, s.free() > s.waiting
}

// free returns the slots that nobody holds; the caller holds mu.
func (s *Slots) free() int { return s.size - s.busy - s.tentative }

// notify wakes everybody who waits for a change; the caller holds mu.
func (s *Slots) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// state is what a Slot is doing.
type state int

const (
	tentative state = iota
	busy
	released
)

// Slot is one taken slot. Its methods may be called from any goroutine.
type Slot struct {
	owner *Slots
	state state // guarded by owner.mu
}

// Confirm turns a tentative slot into a busy one. It does nothing to a slot that is busy or released.
func (s *Slot) Confirm() {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	if s.state != tentative {
		return
	}
	s.state = busy
	s.owner.tentative--
	s.owner.busy++
	s.owner.notify()
}

// Release gives the slot back, exactly once; every later call does nothing.
func (s *Slot) Release() {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	switch s.state {
	case tentative:
		s.owner.tentative--
	case busy:
		s.owner.busy--
	case released:
		return
	}
	s.state = released
	s.owner.sem.Release(1)
	s.owner.notify()
}
