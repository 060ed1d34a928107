package queuetest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/queue/queuetest"
)

// remind is what a program does: it reminds of an appointment an hour before.
func remind(ctx context.Context, q *queue.Queue, appointment time.Time) (queue.Added, error) {
	return q.Add(ctx, "reminder", appointment, queue.JobOptions{Delay: time.Until(appointment) - time.Hour})
}

// This is the test of remind. It waits for eleven hours and takes no time.
func TestRemind(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		r := queuetest.New(t)
		q := r.Queue(t, "reminders")
		appointment := time.Now().Add(12 * time.Hour)

		r.Work(t, r.WorkerOptions("reminders"), func(context.Context, *queue.Job) (any, error) {
			return time.Until(appointment).Round(time.Second).String(), nil
		})

		added, err := remind(t.Context(), q, appointment)
		if err != nil {
			t.Fatal(err)
		}

		queuetest.Advance(10 * time.Hour)
		queuetest.AssertState(t, q, added.ID, queue.StateDelayed)
		r.AwaitState(t, q, added.ID, queue.StateCompleted, 90*time.Minute)
		queuetest.AssertCounts(t, q, queue.Counts{Completed: 1})

		if j := queuetest.Jobs(t, q, queue.StateCompleted)[0]; string(j.ReturnValue) != `"1h0m0s"` {
			t.Errorf("reminded %s before", j.ReturnValue)
		}
	})
}

// A whole test is in this example's file; here is the server alone.
func Example() {
	r, err := queuetest.Start()
	if err != nil {
		panic(err)
	}

	defer r.Close()

	q, err := queue.NewQueue(r.Options("reminders"))
	if err != nil {
		panic(err)
	}

	defer q.Close()

	ctx := context.Background()

	added, err := remind(ctx, q, time.Now().Add(12*time.Hour))
	if err != nil {
		panic(err)
	}

	state, err := q.State(ctx, added.ID)
	if err != nil {
		panic(err)
	}

	fmt.Println(added.ID, state)
	// Output: 1 delayed
}
