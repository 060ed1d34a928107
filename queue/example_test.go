package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/queue"
)

// TestTour runs the example of the package's tour. (An Example function has no place for a Redis of its own.)
func TestTour(t *testing.T) {
	t.Parallel()

	if err := tour(t.Context(), redistest.Start(t).URL); err != nil {
		t.Fatal(err)
	}
}

func tour(ctx context.Context, redisURL string) error {
	q, err := queue.NewQueue(queue.Options{RedisURL: redisURL, Name: "mail"})
	if err != nil {
		return err
	}
	defer q.Close()

	added, err := q.Add(ctx, "welcome", map[string]string{"to": "ann"}, queue.JobOptions{JobID: "welcome-ann", Attempts: 3})
	if err != nil {
		return err
	}

	o := queue.DefaultWorkerOptions()
	o.RedisURL, o.Name = redisURL, "mail"

	var w *queue.Worker

	w, err = queue.NewWorker(o, func(_ context.Context, j *queue.Job) (any, error) {
		defer w.Drain() // one job is enough here

		var mail struct{ To string }
		if err := json.Unmarshal(j.Data, &mail); err != nil {
			return nil, queue.Unrecoverable(err)
		}

		return "sent to " + mail.To, nil
	})
	if err != nil {
		return err
	}

	if err := w.Run(ctx); err != nil {
		return err
	}

	j, err := q.Job(ctx, added.ID)
	if err != nil {
		return err
	}

	if string(j.ReturnValue) != `"sent to ann"` {
		return fmt.Errorf("job returned %s", j.ReturnValue)
	}

	return nil
}
