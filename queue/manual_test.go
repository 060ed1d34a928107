package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

func (k *kit) puller(o WorkerOptions) *Puller {
	k.t.Helper()

	p, err := NewPuller(o)
	k.must(err)
	k.t.Cleanup(func() { _ = p.Close() })

	return p
}

func TestPuller(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q, p := k.queue("q"), k.puller(k.workerOptions("q"))
	ctx := t.Context()

	next := func(block bool) *Claim {
		t.Helper()

		c, err := p.Next(ctx, block)
		k.must(err)

		return c
	}

	if c := next(false); c != nil {
		t.Fatalf("took %s of an empty queue", c.Job.ID)
	}

	for _, id := range []string{"good", "bad", "late", "gone", "sentenced"} {
		k.add(q, "a", nil, JobOptions{JobID: id})
	}

	k.must(k.r.HSet(ctx, "bull:q:sentenced", "defa", "because").Err())

	good, bad, late, gone := next(true), next(true), next(false), next(false)
	if c := next(false); c != nil {
		t.Errorf("took %s, which is to be failed without its worker", c.Job.ID)
	}

	k.must(good.Extend(ctx))
	k.expect(good.Finish(1), OutcomeCompleted)
	k.expect(good.Finish(2), OutcomeLost)
	k.expect(bad.Fail(errBoom), OutcomeFailed)
	k.expect(late.Fail(DelayFor(time.Minute, nil)), OutcomeDelayed)
	k.must(k.r.Set(ctx, "bull:q:gone:lock", "another", 0).Err())

	if err := gone.Extend(ctx); !errors.Is(err, ErrLockLost) || !errors.Is(context.Cause(gone.Context()), ErrLockLost) {
		t.Errorf("extend: %v, cause %v", err, context.Cause(gone.Context()))
	}

	k.expect(gone.Finish(1), OutcomeLost)

	want := map[string]State{
		"good": StateCompleted, "bad": StateFailed, "late": StateDelayed, "gone": StateActive, "sentenced": StateFailed,
	}
	for id, state := range want {
		k.awaitState(q, id, state)
	}
}

// A pause in the middle of a block: the job that comes is left to others, and taken after the resume.
func TestWorkerPause(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	ran := make(chan string, 10)
	w, _ := k.run(k.workerOptions("q"), func(_ context.Context, j *Job) (any, error) { ran <- j.ID; return nil, nil })
	wait.For(t, testTimeout, func() bool { return w.Status().Blocked })

	w.Pause()
	w.Pause()
	wait.For(t, testTimeout, func() bool { s := w.Status(); return s.Paused && !s.Blocked })
	k.add(q, "a", nil, JobOptions{JobID: "a"})

	other := k.puller(k.workerOptions("q"))
	if c, err := other.Next(t.Context(), false); err != nil || c == nil || c.Finish(nil) != OutcomeCompleted {
		t.Errorf("another worker got %v, %v", c, err)
	}

	k.add(q, "a", nil, JobOptions{JobID: "b"})

	if state, err := q.State(t.Context(), "b"); err != nil || state != StateWaiting {
		t.Errorf("b is %s, %v", state, err)
	}

	w.Resume()
	w.Resume()

	if id := <-ran; id != "b" {
		t.Errorf("ran %s, want b", id)
	}

	if err := w.SetConcurrency(0); !errors.Is(err, ErrBadWorkerOptions) {
		t.Errorf("concurrency 0: %v", err)
	}

	k.must(w.SetConcurrency(3))
}

// A handler that meets a rate limit: its job goes back and its worker takes none until the limit is over.
func TestRateLimitFor(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")

	var starts []time.Time

	done := make(chan struct{})
	k.add(q, "a", nil, JobOptions{})
	k.run(k.workerOptions("q"), func(_ context.Context, j *Job) (any, error) {
		if starts = append(starts, time.Now()); len(starts) == 1 {
			return nil, RateLimitFor(300*time.Millisecond, errBoom)
		}

		close(done)

		return j.AttemptsMade, nil
	})
	<-done

	if d := starts[1].Sub(starts[0]); d < 300*time.Millisecond {
		t.Errorf("started again after %v", d)
	}

	k.must(q.RateLimit(t.Context(), time.Hour))

	if ttl, err := q.RateLimitTTL(t.Context(), 1); err != nil || ttl < 50*time.Minute {
		t.Errorf("ttl %v, %v", ttl, err)
	}

	k.must(q.RemoveRateLimit(t.Context()))

	if ttl, err := q.RateLimitTTL(t.Context(), 1); err != nil || ttl != 0 {
		t.Errorf("ttl %v, %v", ttl, err)
	}
}

func TestRemoveOrphans(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	ctx := t.Context()

	for i := range 5 {
		k.add(q, "a", nil, JobOptions{JobID: fmt.Sprintf("j%d", i), Delay: time.Duration(i) * time.Hour})
	}

	k.must(k.r.HSet(ctx, "bull:q:lost1", "name", "a").Err())
	k.must(k.r.HSet(ctx, "bull:q:lost2", "name", "a").Err())
	k.must(k.r.HSet(ctx, "bull:other:lost3", "name", "a").Err())

	gone, err := q.RemoveOrphans(ctx)
	k.must(err)
	slices.Sort(gone)

	if fmt.Sprint(gone) != "[lost1 lost2]" || k.r.Exists(ctx, "bull:q:lost1", "bull:q:j0", "bull:q:j4", "bull:q:meta", "bull:other:lost3").Val() != 4 {
		t.Errorf("removed %v", gone)
	}
}
