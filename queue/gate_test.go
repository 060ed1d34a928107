package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

func TestSlots(t *testing.T) {
	t.Parallel()

	g := NewGate(1)

	slot, ok := g.TryClaim()
	if !ok {
		t.Fatal("a free gate refuses")
	}

	if _, ok := g.TryClaim(); ok {
		t.Fatal("a full gate gives a slot")
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	waited := make(chan error, 1)

	go func() { waited <- g.Wait(ctx) }()
	cancel(errBoom)

	if err := <-waited; !errors.Is(err, errBoom) {
		t.Errorf("wait ended with %v", err)
	}

	go func() { waited <- g.Wait(t.Context()) }()

	slot.Confirm()
	slot.Release()
	slot.Release()

	if err := <-waited; err != nil || g.Taken() != 0 {
		t.Errorf("%v, %d taken", err, g.Taken())
	}

	g.Resize(2)

	_, first := g.TryClaim()
	_, second := g.TryClaim()

	if !first || !second {
		t.Error("a gate of two refuses the second")
	}
}

// countingGate fails the test when more jobs than slots run.
type countingGate struct {
	*Slots
	t       *testing.T
	size    int32
	running atomic.Int32
}

func (g *countingGate) job() (done func()) {
	if n := g.running.Add(1); n > g.size {
		g.t.Errorf("%d jobs in %d slots", n, g.size)
	}

	return func() { g.running.Add(-1) }
}

// Two doors race for the same slots: the queue's worker, and callers that come in by themselves. Never are there more jobs than slots, and
// no job of the queue is left behind although wake-ups are popped while no slot is free.
func TestTwoDoors(t *testing.T) {
	t.Parallel()

	const rounds = 300

	for _, size := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d slots", size), func(t *testing.T) {
			t.Parallel()

			k := newKit(t)
			q := k.queue("q")
			g := &countingGate{Slots: NewGate(size), t: t, size: int32(size)}
			o := k.workerOptions("q")
			o.Gate = g

			started := make(chan string, rounds)
			w, _ := k.run(o, func(_ context.Context, j *Job) (any, error) {
				defer g.job()()

				started <- j.ID

				return nil, nil
			})

			wait.For(t, testTimeout, func() bool { return w.Status().Blocked })

			worst := time.Duration(0)

			for range rounds {
				worst = max(worst, raceOnce(t, k, q, g, started))
			}

			t.Logf("worst time from add to start: %v", worst)
			wait.For(t, testTimeout, func() bool { c, _ := q.Counts(t.Context()); return c.Completed == rounds })
			wait.For(t, testTimeout, func() bool { return g.Taken() == 0 })
		})
	}
}

// raceOnce adds a job while the other door takes all slots it can get for a moment.
func raceOnce(t *testing.T, k *kit, q *Queue, g *countingGate, started <-chan string) time.Duration {
	t.Helper()

	var door sync.WaitGroup

	door.Go(func() {
		for range 2 {
			if slot, ok := g.TryClaim(); ok {
				slot.Confirm()

				done := g.job()

				sleep(t.Context(), time.Millisecond) // the door's work
				done()
				slot.Release()
			}
		}
	})

	began := time.Now()

	k.add(q, "n", nil, JobOptions{})

	select {
	case <-started:
	case <-time.After(soon):
		t.Fatal("a job was left behind")
	}

	took := time.Since(began)

	door.Wait()

	return took
}

// While a slot is held elsewhere, a popped wake-up goes back, so that another worker of the queue gets the job.
func TestWakeUpGoesBack(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	full := NewGate(1)
	o := k.workerOptions("q")
	o.Gate = full
	w, _ := k.run(o, func(context.Context, *Job) (any, error) { return nil, nil })
	wait.For(t, testTimeout, func() bool { return w.Status().Blocked })

	slot, ok := full.TryClaim()
	if !ok {
		t.Fatal("the gate of an idle worker is taken")
	}

	var ran atomic.Bool

	id := k.add(q, "n", nil, JobOptions{})
	wait.For(t, testTimeout, func() bool { return w.Status().AwaitingSlot && k.r.ZCard(t.Context(), "bull:q:marker").Val() == 1 })

	_, stop := k.run(k.workerOptions("q"), func(context.Context, *Job) (any, error) { ran.Store(true); return nil, nil })
	k.awaitState(q, id, StateCompleted)
	stop()
	slot.Release()

	if !ran.Load() {
		t.Error("the full worker did the job")
	}
}

// BeforeClaim holds claims off without losing wake-ups.
func TestBeforeClaim(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")

	var calls atomic.Int32

	o := k.workerOptions("q")
	o.BeforeClaim = func(context.Context) error {
		if calls.Add(1) < 4 {
			return errBoom
		}

		return nil
	}
	k.run(o, func(context.Context, *Job) (any, error) { return nil, nil })
	k.awaitState(q, k.add(q, "n", nil, JobOptions{}), StateCompleted)
}
