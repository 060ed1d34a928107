package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/queue"
)

// TestDrainAmongPutOffJobs: each job that is put off makes room for the next; a worker that stops takes none of those that wait.
func TestDrainAmongPutOffJobs(t *testing.T) {
	t.Parallel()
	const slots, waiting = 2, 200
	b := newBench(t, true)
	b.plane.Lease = time.Hour // nobody gets one of them meanwhile
	for i := range waiting {
		id := fmt.Sprintf("an_%d_held", i)
		b.plane.Add(id, "ok")
		b.plane.Steal(id)
		b.add(id, 1)
	}
	w := b.start("SLOTS", "2")
	wait.For(t, long, func() bool { return len(b.plane.Calls("redeem", "")) > 3*slots }, "nothing is put off")
	w.Drain()
	before, begin := len(b.plane.Calls("redeem", "")), time.Now()
	w.wait()
	if took := time.Since(begin); took > long {
		t.Errorf("stopped after %v", took)
	}
	// What was claimed in the moment of the signal may still ask.
	if n := len(b.plane.Calls("redeem", "")) - before; n > 2*slots {
		t.Errorf("%d jobs were started after the signal", n)
	}
	c, err := b.queue.Counts(t.Context())
	if err != nil || c.Active != 0 || c.Waiting+c.Delayed != waiting {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestScriptsFlushedAgainAndAgain: a Redis that forgets its scripts all the time costs no job an attempt.
func TestScriptsFlushedAgainAndAgain(t *testing.T) {
	t.Parallel()
	const jobs = 60
	b := newBench(t, true)
	b.start("SLOTS", "3")
	ctx, stop := context.WithCancel(t.Context())
	var flusher sync.WaitGroup
	flushes := 0
	flusher.Go(func() { // ends with stop
		c := b.redis.Client()
		for ctx.Err() == nil {
			if c.ScriptFlush(ctx).Err() == nil {
				flushes++
			}
		}
	})
	for i := range jobs {
		id := fmt.Sprintf("an_%d_flushed", i)
		b.plane.Add(id, "ok")
		b.add(id, 1)
	}
	for i := range jobs {
		id := fmt.Sprintf("an_%d_flushed", i)
		// A machine that stands still for longer than a lock loses it, and the job is found and started again.
		if j := b.awaitState(id, queue.StateCompleted); j.AttemptsMade != 1 || j.AttemptsStarted != 1+j.StalledCount {
			t.Errorf("%s: %d attempts, %d starts, stalled %d times", id, j.AttemptsMade, j.AttemptsStarted, j.StalledCount)
		}
	}
	stop()
	flusher.Wait()
	if n := b.plane.Stored(); n != jobs || flushes < jobs {
		t.Errorf("%d results, %d flushes", n, flushes)
	}
}

// TestManyDeploys: a job that has one attempt and is interrupted by each of four deploys is done by the fifth worker.
func TestManyDeploys(t *testing.T) {
	t.Parallel()
	const deploys = 4
	b := newBench(t, true)
	b.plane.Add("an_1", "slow 30s")
	b.add("an_1", 1)
	for n := range deploys {
		w := b.start()
		wait.For(t, long, func() bool { return len(b.plane.Calls("get", "an_1")) > n }, "the job does not start")
		w.GiveBack()
		w.wait()
		if s := b.state("an_1"); s != queue.StateWaiting {
			t.Fatalf("after deploy %d the job is %s", n+1, s)
		}
	}
	b.plane.Add("an_1", "ok") // the work itself is short now
	b.start()
	if j := b.awaitState("an_1", queue.StateCompleted); j.AttemptsMade != 1 || j.AttemptsStarted != deploys+1 {
		t.Errorf("%d attempts, %d starts", j.AttemptsMade, j.AttemptsStarted)
	}
	if n := len(b.plane.Results("an_1")); n != 1 {
		t.Errorf("%d results", n)
	}
}
