package queue

import (
	"context"
	"fmt"
	"time"
)

const cleanStep = 10000

// Pause keeps all workers from taking jobs; running ones go on.
func (q *Queue) Pause(ctx context.Context) error {
	_, err := q.scripts.pause.code(ctx, q.client, q.keys, "")

	return wrap("pause queue", err)
}

// Resume lets workers take jobs again. It brings back what a major 5 client has moved away by its own pause.
func (q *Queue) Resume(ctx context.Context) error {
	first := true

	for {
		left, err := q.scripts.resume.code(ctx, q.client, q.keys, "", flag(first))
		if err != nil || left == 0 {
			return wrap("resume queue", err)
		}

		first = false
	}
}

// RetryOptions say what a finished job keeps of its past when it runs again.
type RetryOptions struct {
	// ResetAttemptsMade gives it all its attempts again, ResetAttemptsStarted all its starts.
	ResetAttemptsMade, ResetAttemptsStarted bool
}

// Retry lets a failed or completed job run again. It keeps its attempt counts; see RetryWith.
func (q *Queue) Retry(ctx context.Context, id string) error {
	return q.RetryWith(ctx, id, RetryOptions{})
}

// RetryWith is Retry with options. ErrNotInState if the job is not finished. How often the job has stalled is kept, as BullMQ keeps it: a
// job that was failed for stalling runs again, and is failed at its next stall.
func (q *Queue) RetryWith(ctx context.Context, id string, o RetryOptions) error {
	j, err := q.Job(ctx, id)
	if err != nil {
		return err
	}

	state, err := q.State(ctx, id)
	if err != nil {
		return err
	}

	if state != StateFailed && state != StateCompleted {
		return fmt.Errorf("retry job %s, which is %s: %w", id, state, ErrNotInState)
	}

	_, err = q.scripts.retryFinished.code(ctx, q.client, q.keys, id,
		id, string(state), flag(j.Opts.LIFO), flag(o.ResetAttemptsMade), flag(o.ResetAttemptsStarted))

	return wrap("retry", err)
}

// Remove deletes a job with its children. ErrJobLocked while it or one of them runs; a job that does not exist is no error.
func (q *Queue) Remove(ctx context.Context, id string) error {
	n, err := q.scripts.remove.code(ctx, q.client, q.keys, id, id, "1")
	if err == nil && n == 0 {
		err = fmt.Errorf("job %s: %w", id, ErrJobLocked)
	}

	return wrap("remove", err)
}

// RemoveAlone is Remove without the children, which go on and have no parent any more.
func (q *Queue) RemoveAlone(ctx context.Context, id string) error {
	n, err := q.scripts.remove.code(ctx, q.client, q.keys, id, id, "")
	if err == nil && n == 0 {
		err = fmt.Errorf("job %s: %w", id, ErrJobLocked)
	}

	return wrap("remove", err)
}

// RemoveUnprocessedChildren deletes the children that the job still waits for, and what they wait for in turn. Those that run or have
// failed stay; if none is left the job goes on. A job that is not there has none.
func (q *Queue) RemoveUnprocessedChildren(ctx context.Context, id string) error {
	_, err := q.scripts.remove.code(ctx, q.client, q.keys, id, id, "pending")

	return wrap("remove unprocessed children", err)
}

// Drain deletes all jobs that wait, and the delayed ones too if asked. Active and finished jobs stay.
func (q *Queue) Drain(ctx context.Context, delayed bool) (removed int64, err error) {
	n, err := q.scripts.drain.code(ctx, q.client, q.keys, "", flag(delayed))

	return max(n, 0), wrap("drain queue", err)
}

// Clean deletes jobs of a state that are older than grace, at most limit of them (0: all), and answers their ids. Jobs that run stay.
func (q *Queue) Clean(ctx context.Context, grace time.Duration, limit int, state State) ([]string, error) {
	list := string(state)
	if state == StateWaiting {
		list = keyWait
	}

	var removed []string

	till := time.Now().Add(-grace).UnixMilli()

	for {
		step := cleanStep
		if limit > 0 {
			step = min(step, limit-len(removed))
		}

		ids, err := q.cleanStep(ctx, till, step, list)
		if err != nil {
			return removed, wrap("clean queue", err)
		}

		removed = append(removed, ids...)
		if len(ids) < step || len(removed) == limit {
			return removed, nil
		}
	}
}

func (q *Queue) cleanStep(ctx context.Context, till int64, limit int, list string) ([]string, error) {
	switch list {
	case keyWait, keyPaused, keyActive, keyDelayed, keyPrioritized, keyCompleted, keyFailed:
	default:
		return nil, fmt.Errorf("state %q: %w", list, ErrNotInState)
	}

	reply, err := q.scripts.clean.run(ctx, q.client, q.keys, till, limit, list)
	if err != nil {
		return nil, err
	}

	raw, _ := reply.([]any)
	ids := make([]string, 0, len(raw))

	for _, id := range raw {
		if s, ok := id.(string); ok {
			ids = append(ids, s)
		}
	}

	return ids, nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}

	return fmt.Errorf("%s: %w", what, err)
}
