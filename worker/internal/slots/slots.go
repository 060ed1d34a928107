// Package slots is the one capacity that both doors of the worker share.
//
// A slot is one analysis at a time. The HTTP door takes a slot when a request comes and never waits for one that is
// busy. The queue door takes a slot in two steps, so that an idle worker that is blocked on Redis holds none: it
// waits until a slot may be free, takes it tentatively for the time of one claim call, and confirms it if the call
// returned a job.
//
//	free --TryClaim--> tentative --Confirm--> busy --Ending--> ending --Release--> free
//	  \                    \------Release--------------------------------------------^
//	   \--Acquire--> busy --Release--> free
//
// A tentative slot is not busy, and an ending one, whose job only has its outcome to tell, will be free in a moment:
// the HTTP door waits a short bounded time for either, and while it waits it is served before the next claim call. So
// an idle worker never refuses work, not even to a client who has just seen the end of the job before, and a claimed
// job never waits.
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
	// ErrUndecided says that the wait for a claim call in flight, or for a job's last write, ended before it did.
	ErrUndecided = errors.New("the last free slot is still being decided")
)

// Slots counts the analyses that run at once.
type Slots struct {
	size int
	sem  *semaphore.Weighted

	mu        sync.Mutex
	busy      int           // written by Slot, read by the gauges and by both doors
	tentative int           // written by Slot and TryClaim
	ending    int           // busy slots whose job only has its outcome to tell
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
	return &Slot{owner: s, state: tentative, claimed: true}, true
}

// Ending says that one claimed job only has its outcome to tell, after which its slot frees.
func (s *Slots) Ending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending++
	s.notify()
}

// Acquire takes a slot for a job that starts now. It returns ErrFull at once when every slot runs a job. When the
// last slots are held by claim calls or by jobs that are ending it waits for them, at most until ctx ends: then the
// answer is ErrUndecided, or ErrFull if no claim call is among them.
func (s *Slots) Acquire(ctx context.Context) (*Slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
	defer func() {
		s.waiting--
		s.notify()
	}()
	for !s.sem.TryAcquire(1) {
		if s.busy-s.ending == s.size {
			return nil, ErrFull
		}
		if err := s.await(ctx); err != nil {
			return nil, err
		}
	}
	s.busy++
	return &Slot{owner: s, state: busy}, nil
}

// await waits for a change; the caller holds mu, which is free meanwhile.
func (s *Slots) await(ctx context.Context) error {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return s.undecided()
	}
}

func (s *Slots) undecided() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tentative == 0 {
		return ErrFull
	}
	return ErrUndecided
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
	owner   *Slots
	claimed bool // came by TryClaim; its ending is counted by Slots.Ending
	ending  bool // said by Slot.Ending; guarded by owner.mu, as state
	state   state
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

// Ending says that the job in a slot of Acquire only has its outcome to tell.
func (s *Slot) Ending() {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	if s.state != busy || s.ending || s.claimed {
		return
	}
	s.ending = true
	s.owner.ending++
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
		if s.claimed || s.ending {
			s.owner.ending = max(0, s.owner.ending-1)
		}
	case released:
		return
	}
	s.state = released
	s.owner.sem.Release(1)
	s.owner.notify()
}
