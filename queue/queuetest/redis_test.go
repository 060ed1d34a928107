package queuetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/queue/queuetest"
)

// TestHoursOfBackoff is the test that users write: three hours of retries.
func TestHoursOfBackoff(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		r := queuetest.New(t)
		q := r.Queue(t, "mail")

		var tries []time.Duration

		began := time.Now()

		r.Work(t, r.WorkerOptions("mail"), func(context.Context, *queue.Job) (any, error) {
			tries = append(tries, time.Since(began).Round(time.Millisecond))
			if len(tries) == 8 {
				return "sent", nil
			}

			return nil, errors.New("no route")
		})

		added, err := q.Add(t.Context(), "welcome", nil, queue.JobOptions{
			Attempts: 8, Backoff: &queue.Backoff{Type: "exponential", Delay: 85 * time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}

		r.AwaitState(t, q, added.ID, queue.StateCompleted, 3*time.Hour)
		queuetest.AssertCounts(t, q, queue.Counts{Completed: 1})
		t.Log(tries)
	})
}
