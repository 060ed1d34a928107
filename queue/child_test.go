package queue

import (
	"context"
	"fmt"
	"os"
	"time"
)

// childEnv holds the Redis address of a worker in a process of its own, which a test kills.
const childEnv = "POSEFLEET_QUEUE_TEST_CHILD"

// runChild is that process: it takes one job, says so, and never finishes it.
func runChild(url string) int {
	o := DefaultWorkerOptions()
	o.Options = Options{RedisURL: url, Name: "q"}
	o.LockDuration, o.LockRenewTime, o.StalledInterval = 500*time.Millisecond, 250*time.Millisecond, 200*time.Millisecond

	w, err := NewWorker(o, func(ctx context.Context, j *Job) (any, error) {
		fmt.Println("started", j.ID)
		<-ctx.Done()

		return nil, ctx.Err()
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	if err := w.Run(context.Background()); err != nil {
		return 1
	}

	return 0
}
