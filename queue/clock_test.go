package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/queue/queuetest"
)

// bubble runs a test of time with a Redis in memory. The same scripts on a real redis-server: queuetest's TestFaithful and this package's
// other tests.
func bubble(t *testing.T, run func(t *testing.T, r *queuetest.Redis, q *queue.Queue)) {
	t.Helper()
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		r := queuetest.New(t)
		run(t, r, r.Queue(t, "clock"))
	})
}

func must(t *testing.T, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}

func addJob(t *testing.T, q *queue.Queue, o queue.JobOptions) queue.Added {
	t.Helper()

	added, err := q.Add(t.Context(), "n", nil, o)
	must(t, err)

	return added
}

func expectTime(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()

	if got < least || got > most {
		t.Errorf("%s after %v, want %v to %v", what, got, least, most)
	}
}

// abandon takes a job and dies: nobody renews its lock any more.
func abandon(t *testing.T, r *queuetest.Redis) {
	t.Helper()

	p, err := queue.NewPuller(r.WorkerOptions("clock"))
	must(t, err)

	c, err := p.Next(t.Context(), false)
	must(t, err)

	if c == nil {
		t.Fatal("nothing to take")
	}

	t.Cleanup(func() { _ = p.Close() })
}

func TestClockStalledJobComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		job := addJob(t, q, queue.JobOptions{})
		abandon(t, r)

		died := time.Now()
		r.Work(t, r.WorkerOptions("clock"), func(context.Context, *queue.Job) (any, error) { return time.Since(died).Seconds(), nil })
		r.AwaitState(t, q, job.ID, queue.StateCompleted, time.Hour)

		// The lock holds for 30 s; the check at 0 s has seen the job, that at 30 s may find the lock just gone or about to go.
		expectTime(t, "recovered", time.Since(died), 30*time.Second, 61*time.Second)

		j, err := q.Job(t.Context(), job.ID)
		must(t, err)

		if j.AttemptsStarted != 2 || j.AttemptsMade != 1 || j.StalledCount != 1 {
			t.Errorf("started %d times, made %d attempts, stalled %d times; want 2, 1, 1", j.AttemptsStarted, j.AttemptsMade, j.StalledCount)
		}
	})
}

func TestClockStalledTooOften(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		job := addJob(t, q, queue.JobOptions{Attempts: 5})
		o := r.WorkerOptions("clock")

		checker, err := queue.NewPuller(o)
		must(t, err)

		defer checker.Close()

		for range 2 { // the first stall is allowed
			abandon(t, r)
			must(t, checker.CheckStalled(t.Context())) // sees it
			queuetest.Advance(o.LockDuration + o.StalledInterval)
			must(t, checker.CheckStalled(t.Context())) // puts it back
			queuetest.AssertState(t, q, job.ID, queue.StateWaiting)
			queuetest.Advance(o.StalledInterval + time.Millisecond)
		}

		r.Work(t, o, func(context.Context, *queue.Job) (any, error) {
			t.Error("the handler of a sentenced job ran")
			return nil, nil
		})
		r.AwaitState(t, q, job.ID, queue.StateFailed, time.Minute)

		if j := queuetest.Jobs(t, q, queue.StateFailed)[0]; j.FailedReason != "job stalled more than allowable limit" {
			t.Errorf("failed reason %q", j.FailedReason)
		}
	})
}

// tries runs one job until it has failed for good and answers the pauses between its attempts.
func tries(t *testing.T, r *queuetest.Redis, q *queue.Queue, o queue.JobOptions) []time.Duration {
	t.Helper()

	var starts []time.Time

	r.Work(t, r.WorkerOptions("clock"), func(context.Context, *queue.Job) (any, error) {
		starts = append(starts, time.Now())
		return nil, errors.New("no")
	})
	r.AwaitState(t, q, addJob(t, q, o).ID, queue.StateFailed, 24*time.Hour)

	var pauses []time.Duration
	for i := 1; i < len(starts); i++ {
		pauses = append(pauses, starts[i].Sub(starts[i-1]).Round(time.Millisecond))
	}

	return pauses
}

func TestClockBackoff(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		want []time.Duration
	}{
		"fixed":       {"fixed", []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute}},
		"exponential": {"exponential", []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
				got := tries(t, r, q, queue.JobOptions{Attempts: 5, Backoff: &queue.Backoff{Type: c.kind, Delay: time.Minute}})
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("pauses (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestClockJitter(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		got := tries(t, r, q, queue.JobOptions{Attempts: 40, Backoff: &queue.Backoff{Type: "fixed", Delay: time.Minute, Jitter: 0.5}})

		for _, pause := range got {
			expectTime(t, "retried", pause, 30*time.Second, time.Minute)
		}

		if least, most := slices.Min(got), slices.Max(got); most-least < 10*time.Second {
			t.Errorf("pauses between %v and %v do not spread over half a minute", least, most)
		}
	})
}

func TestClockDelayedJobsRunWhenDue(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		began := time.Now()
		ran := map[string]time.Duration{}

		r.Work(t, r.WorkerOptions("clock"), func(_ context.Context, j *queue.Job) (any, error) {
			ran[j.ID] = time.Since(began).Round(time.Millisecond)
			return nil, nil
		})
		queuetest.Advance(12 * time.Second) // the worker blocks when the jobs come

		want := map[string]time.Duration{}

		for _, delay := range []time.Duration{time.Hour, 1500 * time.Millisecond, time.Minute, 90 * time.Minute, 3 * time.Millisecond} {
			want[addJob(t, q, queue.JobOptions{Delay: delay}).ID] = delay + 12*time.Second
		}

		queuetest.Advance(2 * time.Hour)

		if diff := cmp.Diff(want, ran); diff != "" {
			t.Errorf("times of the runs (-want +got):\n%s", diff)
		}
	})
}

func TestClockLimiterWindows(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		var starts []time.Duration

		began := time.Now()
		o := r.WorkerOptions("clock")
		o.Concurrency, o.Limiter = 10, &queue.Limiter{Max: 3, Duration: time.Minute}

		for range 8 {
			addJob(t, q, queue.JobOptions{})
		}

		last := addJob(t, q, queue.JobOptions{})
		done := make(chan time.Duration, 10)

		r.Work(t, o, func(context.Context, *queue.Job) (any, error) {
			done <- time.Since(began).Truncate(time.Second)
			return nil, nil
		})
		r.AwaitState(t, q, last.ID, queue.StateCompleted, time.Hour)

		for range 9 {
			starts = append(starts, <-done)
		}

		slices.Sort(starts)

		m := time.Minute
		if diff := cmp.Diff([]time.Duration{0, 0, 0, m, m, m, 2 * m, 2 * m, 2 * m}, starts); diff != "" {
			t.Errorf("starts (-want +got):\n%s", diff)
		}
	})
}

func TestClockDeduplicationTime(t *testing.T) {
	bubble(t, func(t *testing.T, r *queuetest.Redis, q *queue.Queue) {
		plain := queue.JobOptions{Deduplication: &queue.Deduplication{ID: "plain", TTL: time.Hour}}
		extended := queue.JobOptions{Deduplication: &queue.Deduplication{ID: "extended", TTL: time.Hour, Extend: true}}

		r.Work(t, r.WorkerOptions("clock"), func(context.Context, *queue.Job) (any, error) { return nil, nil })

		refused := func(o queue.JobOptions) bool { return addJob(t, q, o).Deduplicated }

		var got []string

		for range 5 { // at 0, 40, 80, 120 and 160 minutes
			got = append(got, fmt.Sprintf("plain %t, extended %t", refused(plain), refused(extended)))

			queuetest.Advance(40 * time.Minute)
		}

		queuetest.Advance(time.Hour)

		got = append(got, fmt.Sprintf("plain %t, extended %t", refused(plain), refused(extended)))
		want := []string{
			"plain false, extended false", "plain true, extended true", "plain false, extended true", "plain true, extended true",
			"plain false, extended true", "plain false, extended false",
		}

		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
	})
}
