package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// A worker whose claim stands behind its wait finds its way back when Redis dies under it and comes again.
func TestRestartWhileArmed(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.run(k.workerOptions("q"), nothing)

	for round := range 3 {
		wait.For(t, testTimeout, k.blocked, "the worker does not wait")
		k.srv.Kill()
		k.srv.Restart()

		began := time.Now()
		id := k.add(q, "n", nil, JobOptions{JobID: fmt.Sprint("round", round, "x")})
		k.awaitState(q, id, StateCompleted)

		if took := time.Since(began); took > soon {
			t.Errorf("round %d: work went on %v after the restart", round, took)
		}
	}
}

// Many idle workers, all with a claim behind their wait, and one of Node's beside them: each job that comes is started once, by one of
// them.
func TestIdleWorkersShareOneByOne(t *testing.T) {
	t.Parallel()

	const workers, n = 6, 120

	k := newKit(t)
	q := k.queue("q")
	node := k.startNode("6")
	node.ask(nil, map[string]any{"op": "work", "opts": map[string]any{"concurrency": 1}})

	for i := range workers {
		o := k.workerOptions("q")
		o.WorkerName = fmt.Sprint("go", i)
		k.run(o, nothing)
	}

	by := map[string]int{}

	for i := range n {
		id := k.add(q, "n", map[string]int{"n": i}, JobOptions{})
		wait.For(t, testTimeout, func() bool { s, err := q.State(t.Context(), id); return err == nil && s == StateCompleted }, "job %s", id)

		j, err := q.Job(t.Context(), id)
		k.must(err)

		if j.AttemptsStarted != 1 {
			t.Errorf("job %s was started %d times", id, j.AttemptsStarted)
		}

		by[j.ProcessedBy]++
	}

	// Each job wakes two workers, the second one in vain, as BullMQ has it: with an even number of them every other one gets the jobs.
	if by["node"] == 0 || len(by) < workers/2 {
		t.Errorf("the jobs went to %v only", by)
	}
}
