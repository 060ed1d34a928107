package queue

import (
	"context"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// A job whose hash is deleted by hand while it runs leaves nothing of itself: no lock, no log, no place in active. The same id can be
// added again.
func TestDeletedWhileItRuns(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	started, end := make(chan struct{}, 2), make(chan struct{})

	_, stop := k.run(k.workerOptions("q"), func(ctx context.Context, j *Job) (any, error) {
		err := j.Log(ctx, "a line")
		started <- struct{}{}
		<-end

		return nil, err
	})
	defer stop()

	k.add(q, "n", nil, JobOptions{JobID: "gone-1"})
	<-started

	if n := k.r.Del(t.Context(), "bull:q:gone-1").Val(); n != 1 {
		t.Fatalf("%d hashes deleted", n)
	}

	close(end)
	wait.For(t, testTimeout, func() bool {
		return len(k.r.Keys(t.Context(), "bull:q:gone-1*").Val()) == 0 && k.r.LLen(t.Context(), "bull:q:active").Val() == 0
	}, "left: %v", k.r.Keys(t.Context(), "bull:q:gone-1*").Val())

	k.add(q, "n", nil, JobOptions{JobID: "gone-1"})
	k.awaitState(q, "gone-1", StateCompleted)
}

// The same when the worker has died as well: whoever looks for stalled jobs finds an id without a job.
func TestDeletedAfterItsWorkerDied(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	ctx := t.Context()
	k.r.RPush(ctx, "bull:q:active", "gone-2")
	k.r.RPush(ctx, "bull:q:gone-2:logs", "a line")

	o := k.workerOptions("q")
	o.StalledInterval = 100 * time.Millisecond
	_, stop := k.run(o, func(context.Context, *Job) (any, error) { return nil, nil })

	defer stop()

	wait.For(t, testTimeout, func() bool {
		return len(k.r.Keys(ctx, "bull:q:gone-2*").Val()) == 0 && k.r.LLen(ctx, "bull:q:active").Val() == 0
	})
}
