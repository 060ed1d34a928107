package queue

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// lifeCycle goes through the whole life of jobs: kept, retried, delayed, stalled, removed.
func lifeCycle(t *testing.T, o Options) {
	t.Helper()

	q, err := NewQueue(o)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	k := &kit{t: t}
	wo := DefaultWorkerOptions()
	wo.Options = o
	wo.StalledInterval = 100 * time.Millisecond
	k.must(q.Pause(t.Context()))

	added, err := q.AddBulk(t.Context(), []NewJob{
		{Name: "a", Opts: JobOptions{JobID: "kept"}},
		{Name: "a", Opts: JobOptions{JobID: "later", Delay: 50 * time.Millisecond}},
		{Name: "a", Opts: JobOptions{JobID: "first", Priority: 2, Deduplication: &Deduplication{ID: "d"}}},
		{Name: "a", Data: json.RawMessage(`{"failures":1}`), Opts: JobOptions{
			JobID: "retried", Attempts: 2, Backoff: &Backoff{Type: "fixed", Delay: 10 * time.Millisecond},
		}},
		{Name: "a", Data: json.RawMessage(`{"failures":1}`), Opts: JobOptions{JobID: "broken"}},
	})
	k.must(err)

	// A job whose worker is gone.
	k.must(q.client.get().HSet(t.Context(), q.keys.job("lost"), "name", "a", "data", "{}").Err())
	k.must(q.client.get().LPush(t.Context(), q.keys.of(keyActive), "lost").Err())

	_, stop := k.run(wo, goHandler)
	defer stop()

	k.must(q.Resume(t.Context()))

	for _, a := range added[:4] {
		k.awaitState(q, a.ID, StateCompleted)
	}

	k.awaitState(q, "broken", StateFailed)
	k.awaitState(q, "lost", StateCompleted)
	k.must(q.RetryWith(t.Context(), "kept", RetryOptions{ResetAttemptsMade: true}))
	k.awaitState(q, "kept", StateCompleted)
	k.must(q.Remove(t.Context(), "kept"))

	removed, err := q.Clean(t.Context(), 0, 0, StateFailed)
	if err != nil || len(removed) != 1 {
		t.Errorf("cleaned %v, %v", removed, err)
	}

	if c, err := q.Counts(t.Context()); err != nil || c != (Counts{Completed: 4}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// A server full of data refuses new jobs; what runs is still finished, and goes on when there is room.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	started, release := make(chan struct{}), make(chan struct{})
	o := k.workerOptions("q")
	rec := newRecorder()
	o.LockDuration, o.LockRenewTime, o.Observer = 20*time.Second, 200*time.Millisecond, rec
	_, stop := k.run(o, func(ctx context.Context, _ *Job) (any, error) {
		close(started)

		select {
		case <-release:
			return 1, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})

	defer stop()

	id := k.add(q, "n", nil, JobOptions{})
	<-started
	k.must(k.r.ConfigSet(t.Context(), "maxmemory", "1").Err())

	if _, err := q.Add(t.Context(), "n", nil, JobOptions{}); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("add: %v", err)
	}

	// Renewals work meanwhile.
	renewed := rec.extended()
	wait.For(t, testTimeout, func() bool { return rec.extended() > renewed+2 }, "the lock is not renewed")
	close(release)
	k.awaitState(q, id, StateCompleted)
}
