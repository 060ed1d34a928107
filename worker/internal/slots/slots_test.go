package slots_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/posefleet/posefleet/worker/internal/slots"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSlots(t testing.TB, n int) *slots.Slots {
	t.Helper()
	s, err := slots.New(n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewRefusesNoSlots(t *testing.T) {
	t.Parallel()
	if _, err := slots.New(0); err == nil {
		t.Fatal("0 slots were accepted")
	}
}

func TestReleaseIsIdempotent(t *testing.T) {
	t.Parallel()
	s := newSlots(t, 1)
	a, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.Release()
	a.Release()
	a.Confirm()
	if n := s.InUse(); n != 0 {
		t.Fatalf("in use %d after release, want 0", n)
	}
	if _, err := s.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context()); !errors.Is(err, slots.ErrFull) {
		t.Fatalf("a second slot of one: %v", err)
	}
}

func TestTentativeIsNotInUse(t *testing.T) {
	t.Parallel()
	s := newSlots(t, 1)
	c, ok := s.TryClaim()
	if !ok {
		t.Fatal("the free slot was refused")
	}
	if s.InUse() != 0 || s.Full() {
		t.Fatal("a tentative slot counts as busy")
	}
	if _, again := s.TryClaim(); again {
		t.Fatal("the slot was handed out twice")
	}
	c.Confirm()
	if s.InUse() != 1 || !s.Full() {
		t.Fatal("a confirmed slot does not count as busy")
	}
	c.Release()
}

func TestDoorWaitsForAClaimCallInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, 1)
		c, _ := s.TryClaim()
		got := make(chan error, 1)
		go func() { // ends when Acquire returns
			slot, err := s.Acquire(t.Context())
			if err == nil {
				defer slot.Release()
			}
			got <- err
		}()
		synctest.Wait()
		c.Release()
		if _, ok := s.TryClaim(); ok {
			t.Error("a claim call went before the waiting request")
		}
		if err := <-got; err != nil {
			t.Fatalf("an idle worker refused: %v", err)
		}
	})
}

func TestDoorIsRefusedWhenTheClaimFoundAJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, 1)
		c, _ := s.TryClaim()
		got := make(chan error, 1)
		go func() { // ends when Acquire returns
			_, err := s.Acquire(t.Context())
			got <- err
		}()
		synctest.Wait()
		c.Confirm()
		if err := <-got; !errors.Is(err, slots.ErrFull) {
			t.Fatalf("got %v, want ErrFull", err)
		}
		c.Release()
	})
}

func TestDoorWaitsForAJobThatIsEnding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, 1)
		c, _ := s.TryClaim()
		c.Confirm()
		if _, err := s.Acquire(t.Context()); !errors.Is(err, slots.ErrFull) {
			t.Fatalf("got %v, want ErrFull", err)
		}
		s.Ending()
		got := make(chan error, 1)
		go func() { // ends when Acquire returns
			_, err := s.Acquire(t.Context())
			got <- err
		}()
		synctest.Wait()
		c.Release()
		if err := <-got; err != nil {
			t.Fatalf("refused: %v", err)
		}
		if _, err := s.Acquire(t.Context()); !errors.Is(err, slots.ErrFull) {
			t.Fatalf("got %v, want ErrFull: the ending job is gone", err)
		}
	})
}

func TestDoorStopsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, 1)
		c, _ := s.TryClaim()
		defer c.Release()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := s.Acquire(ctx); !errors.Is(err, slots.ErrUndecided) {
			t.Fatalf("got %v, want ErrUndecided", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Fatalf("waited %v, want 1s", took)
		}
	})
}

func TestWaitWakesWhenASlotFrees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(t, 1)
		a, _ := s.Acquire(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Wait(t.Context()) }() // ends with the release below
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("Wait returned %v while the slot was busy", err)
		default:
		}
		a.Release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		b, _ := s.Acquire(ctx)
		defer b.Release()
		why := errors.New("why")
		cancel(why)
		if err := s.Wait(ctx); !errors.Is(err, why) {
			t.Fatalf("got %v, want the cause", err)
		}
	})
}

// TestModel drives random operations against a plain count.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "n")
		s, _ := slots.New(n)
		var held []*slots.Slot
		busy := map[*slots.Slot]bool{}
		full, cancel := context.WithCancel(context.Background())
		cancel() // Acquire never waits here
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				if c, ok := s.TryClaim(); ok {
					held = append(held, c)
				} else if len(held) < n {
					t.Fatalf("refused with %d of %d held", len(held), n)
				}
			case 1:
				if a, err := s.Acquire(full); err == nil {
					held, busy[a] = append(held, a), true
				} else if len(held) < n {
					t.Fatalf("refused with %d of %d held: %v", len(held), n, err)
				}
			case 2:
				if len(held) > 0 {
					held[0].Confirm()
					busy[held[0]] = true
				}
			case 3:
				if len(held) > 0 {
					held[0].Release()
					delete(busy, held[0])
					held = held[1:]
				}
			}
			if s.InUse() != len(busy) || len(held) > n {
				t.Fatalf("in use %d, want %d of %d", s.InUse(), len(busy), n)
			}
		}
	})
}

// TestBothDoorsNeverOverCapacity races claims and acquires: never more than n at once, and a request is never
// refused as full while a slot is free or undecided.
func TestBothDoorsNeverOverCapacity(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2} {
		s := newSlots(t, n)
		var running, over atomic.Int64
		work := func(slot *slots.Slot) {
			if running.Add(1) > int64(n) {
				over.Add(1)
			}
			running.Add(-1)
			slot.Release()
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 500 {
					if c, ok := s.TryClaim(); ok {
						if rand.IntN(2) == 0 {
							c.Release()
							continue
						}
						c.Confirm()
						work(c)
					}
				}
			})
			wg.Go(func() {
				for range 500 {
					if a, err := s.Acquire(context.Background()); err == nil {
						work(a)
					}
				}
			})
		}
		wg.Wait()
		if over.Load() > 0 || s.InUse() != 0 {
			t.Fatalf("%d slots: over capacity %d times, %d left in use", n, over.Load(), s.InUse())
		}
	}
}
