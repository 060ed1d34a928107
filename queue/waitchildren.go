package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// OutcomeWaitingChildren is the outcome of a job that returned WaitForChildren.
const OutcomeWaitingChildren Outcome = "waiting_children"

// WaitForChildrenError makes the job wait for the children that it has.
type WaitForChildrenError struct{}

// WaitForChildren returned by a handler puts its job aside until its pending children have ended, without spending an attempt; then the
// job runs again. Children are added by the handler with Job.Ref as their JobOptions.Parent. When the job runs again for another reason –
// its worker died – it adds them once more, so they should have custom ids. If none is pending any more, the job is given back to the
// front of the queue at once; so a handler must look at its children (Job.Family) before it decides to wait again. A child that failed
// and fails its parent has the job fail for good.
func WaitForChildren() error { return &WaitForChildrenError{} }

// Error implements error.
func (e *WaitForChildrenError) Error() string { return "waits for children" }

// waitForChildren puts the job aside, or back if there is nothing to wait for.
func (w *Worker) waitForChildren(h *hold) Outcome {
	var none int64

	err := w.move(h, func(ctx context.Context) (err error) {
		none, err = w.scripts.waitChildren.code(ctx, w.client, w.keys, h.job.ID, h.job.ID, h.token, time.Now().UnixMilli(), "")
		return err
	})

	switch {
	case errors.Is(err, ErrFailedChildren):
		return w.fail(h, Unrecoverable(err))
	case err != nil:
		return w.unwritten(h, err)
	case none == 1:
		w.log.Debug("no child is pending", slog.String("job_id", h.job.ID))
		return w.putBack(h)
	}

	return OutcomeWaitingChildren
}
