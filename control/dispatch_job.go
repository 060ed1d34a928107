package control

import (
	"context"
	"errors"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// jobTimeout bounds the look at a job while its worker waits for the claim. The worker has just got the job from the same Redis, so that
// it is hardly ever used up.
const jobTimeout = 2 * time.Second

// jobSeen asks the queue about the job of a start that redeems. That it can't be asked matters only where the answer hangs on it.
func jobSeen(ctx context.Context, q *queue.Queue, h store.Holder) store.JobSeen {
	if h.Source != protocol.SourceQueue {
		return store.JobSeen{}
	}
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	j, err := q.Job(ctx, h.JobID)
	switch {
	case errors.Is(err, queue.ErrJobNotFound):
		return store.JobSeen{}
	case err != nil:
		return store.JobSeen{Err: err}
	}

	return store.JobSeen{
		Starts: j.AttemptsStarted, Ends: j.AttemptsMade, Stalls: j.StalledCount,
		Again: j.FailedReason != "" && j.AttemptsMade < j.Opts.Attempts, Added: j.Timestamp, Taken: j.ProcessedOn,
	}
}
