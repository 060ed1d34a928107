package queuetest

import (
	"context"
	"testing"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// longestList bounds Jobs.
const longestList = 10_000

// AssertState fails the test if the job is not in the state now.
func AssertState(t testing.TB, q *queue.Queue, id string, want queue.State) {
	t.Helper()

	switch got, err := q.State(t.Context(), id); {
	case err != nil:
		t.Errorf("queuetest: %v", err)
	case got != want:
		t.Errorf("queuetest: job %s is %s, want %s%s", id, got, want, why(t.Context(), q, id))
	}
}

// why tells what a job says of itself, for the message of a failed assertion.
func why(ctx context.Context, q *queue.Queue, id string) string {
	j, err := q.Job(ctx, id)
	if err != nil || j.FailedReason == "" {
		return ""
	}

	return " (it failed last with: " + j.FailedReason + ")"
}

// AssertCounts fails the test if the queue does not hold that many jobs in each state.
func AssertCounts(t testing.TB, q *queue.Queue, want queue.Counts) {
	t.Helper()

	switch got, err := q.Counts(t.Context()); {
	case err != nil:
		t.Errorf("queuetest: %v", err)
	case got != want:
		t.Errorf("queuetest: queue %s holds\n%+v, want\n%+v", q.Name(), got, want)
	}
}

// AwaitState waits until the job is in the state, and fails the test for good if it is not within that time. It looks whenever something
// has changed in the server, so no state that lasts for longer than a look is missed.
func (r *Redis) AwaitState(t testing.TB, q *queue.Queue, id string, want queue.State, within time.Duration) {
	t.Helper()

	var got queue.State

	r.Await(t, within, "job "+id+" to be "+string(want), func(ctx context.Context) (bool, error) {
		var err error
		got, err = q.State(ctx, id)

		return got == want, err
	}, func() string { return "it is " + string(got) + why(t.Context(), q, id) })
}

// Await waits until ok answers true. It asks whenever something has changed in the server. what is what is waited for, and state, which
// may be nil, what there is instead, for the message if the time is over or ok fails: then the test ends.
func (r *Redis) Await(
	t testing.TB, within time.Duration, what string, ok func(context.Context) (bool, error), state func() string,
) {
	t.Helper()

	limit := time.NewTimer(within)
	defer limit.Stop()

	for {
		changed := r.srv.changes()

		done, err := ok(t.Context())
		if err != nil {
			t.Fatalf("queuetest: waited for %s: %v", what, err)
		}

		if done {
			return
		}

		select {
		case <-changed:
		case <-limit.C:
			text := ""
			if state != nil {
				text = ": " + state()
			}

			t.Fatalf("queuetest: waited %v for %s%s", within, what, text)
		}
	}
}

// changes is closed when a command may have changed a key. What the waits of other clients do to keys changes nothing.
func (s *server) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.changed
}

// Jobs reads the jobs that are in a state now, in the order of queue.Queue.IDs: those that are served next, or have finished last, first.
func Jobs(t testing.TB, q *queue.Queue, state queue.State) []*queue.Job {
	t.Helper()

	jobs, err := q.Jobs(t.Context(), state, 0, longestList)
	if err != nil {
		t.Fatalf("queuetest: %v", err)
	}

	return jobs
}
