package queuecmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// Pause keeps all workers from taking jobs.
func (d *Desk) Pause(ctx context.Context) error {
	if err := d.Queue.Pause(ctx); err != nil {
		return err
	}

	return d.pauseTold(true, "queue %s is paused: what runs goes on, nothing new is taken")
}

// Resume lets workers take jobs again.
func (d *Desk) Resume(ctx context.Context) error {
	if err := d.Queue.Resume(ctx); err != nil {
		return err
	}

	return d.pauseTold(false, "queue %s runs: jobs are taken again")
}

func (d *Desk) pauseTold(paused bool, sentence string) error {
	if d.JSON {
		return d.document(map[string]any{"prefix": d.prefix(), "queue": d.Options.Name, "paused": paused})
	}

	return d.say(sentence, oneLine(d.name()))
}

// Retry lets finished jobs run again. Those that can't are named in the error, the others are retried all the same.
func (d *Desk) Retry(ctx context.Context, ids []string, o queue.RetryOptions) error {
	return d.each(ctx, ids, "retried", "waits again", func(ctx context.Context, id string) error {
		return d.Queue.RetryWith(ctx, id, o)
	})
}

// RetryFailed is Retry for all jobs that have failed up to now.
func (d *Desk) RetryFailed(ctx context.Context, o queue.RetryOptions) error {
	n, err := d.Queue.Counts(ctx)
	if err != nil {
		return err
	}

	// All ids first: jobs that fail again meanwhile are not meant.
	ids, err := d.Queue.IDs(ctx, queue.StateFailed, 0, n.Failed)
	if err != nil {
		return err
	}

	return d.Retry(ctx, ids, o)
}

// Remove deletes jobs with their children, logs and locks' leftovers. Those that can't be are named in the error.
func (d *Desk) Remove(ctx context.Context, ids []string) error {
	return d.each(ctx, ids, "removed", "removed", func(ctx context.Context, id string) error {
		if _, err := d.Queue.Job(ctx, id); errors.Is(err, queue.ErrJobNotFound) {
			return err // the queue itself finds it good enough that the job is not there
		}

		return d.Queue.Remove(ctx, id)
	})
}

// RemoveUnprocessedChildren deletes the children of each job that have not run yet.
func (d *Desk) RemoveUnprocessedChildren(ctx context.Context, ids []string) error {
	return d.each(ctx, ids, "relieved", "is relieved of the children that had not begun", func(ctx context.Context, id string) error {
		if _, err := d.Queue.Job(ctx, id); err != nil {
			return err
		}

		return d.Queue.RemoveUnprocessedChildren(ctx, id)
	})
}

// each does one thing to several jobs and tells of each. An error of Redis itself ends it.
func (d *Desk) each(ctx context.Context, ids []string, done, sentence string, do func(context.Context, string) error) error {
	var (
		good   = []string{}
		faults []error
	)

	for _, id := range ids {
		err := d.explainState(ctx, id, do(ctx, id))
		if err == nil {
			good = append(good, id)

			if err := d.tell("%s %s", oneLine(id), sentence); err != nil {
				return err
			}

			continue
		}

		faults = append(faults, err)

		if _, ofJob := errors.AsType[*JobError](err); !ofJob {
			break
		}
	}

	if d.JSON {
		return errors.Join(append(faults, d.document(map[string]any{done: good, "count": len(good)}))...)
	}

	return errors.Join(append(faults, d.say("%s %s", jobs(len(good)), done))...)
}

// tell is say for people only.
func (d *Desk) tell(format string, args ...any) error {
	if d.JSON {
		return nil
	}

	return d.say(format, args...)
}

// explainState puts a refusal into words, with the state that the job is in.
func (d *Desk) explainState(ctx context.Context, id string, err error) error {
	if !errors.Is(err, queue.ErrNotInState) {
		return explain(id, "", err)
	}

	state, stateErr := d.Queue.State(ctx, id)
	if stateErr != nil {
		return errors.Join(err, stateErr)
	}

	if state == queue.StateUnknown { // not all of the queue's refusals tell the one from the other
		if _, readErr := d.Queue.Job(ctx, id); errors.Is(readErr, queue.ErrJobNotFound) {
			err = readErr
		}
	}

	return explain(id, state, err)
}

// Clean deletes jobs of a state that are older than age, at most limit of them (0: all).
func (d *Desk) Clean(ctx context.Context, state queue.State, age time.Duration, limit int) error {
	if state == queue.StateWaitingChildren {
		return ErrNotCleanable
	}

	if err := d.sureToClean(ctx, state, age, limit); err != nil {
		return err
	}

	removed, err := d.Queue.Clean(ctx, age, limit, state)

	// What a major 5 client has moved away by pausing waits as well.
	if left := limit - len(removed); err == nil && state == queue.StateWaiting && (limit == 0 || left > 0) {
		var more []string
		more, err = d.Queue.Clean(ctx, age, max(left, 0), "paused")
		removed = append(removed, more...)
	}

	if d.JSON {
		return errors.Join(err, d.document(map[string]any{
			"state": state, "removed": append([]string{}, removed...), "count": len(removed),
		}))
	}

	for _, id := range removed {
		if err := d.say("%s removed", oneLine(id)); err != nil {
			return err
		}
	}

	return errors.Join(err, d.say("%s removed from %s", jobs(len(removed)), state))
}

// sureToClean asks with the number of jobs that the state has; how many of them are old enough is found out by cleaning only.
func (d *Desk) sureToClean(ctx context.Context, state queue.State, age time.Duration, limit int) error {
	if d.Confirm == nil {
		return nil
	}

	n, err := d.Queue.Counts(ctx)
	if err != nil {
		return err
	}

	what := fmt.Sprintf("the %d %s jobs", countOf(n, state), state)
	if limit > 0 {
		what = fmt.Sprintf("up to %d of %s", limit, what)
	}

	if age > 0 {
		what += fmt.Sprintf(" that are older than %s,", age)
	}

	return d.sure("delete %s of queue %s", what, d.name())
}

func countOf(n queue.Counts, state queue.State) int64 {
	return map[queue.State]int64{
		queue.StateWaiting: n.Waiting, queue.StateActive: n.Active, queue.StateDelayed: n.Delayed, queue.StatePrioritized: n.Prioritized,
		queue.StateWaitingChildren: n.WaitingChildren, queue.StateCompleted: n.Completed, queue.StateFailed: n.Failed,
	}[state]
}

// Drain deletes all jobs that wait, and with delayed those that are due later as well.
func (d *Desk) Drain(ctx context.Context, delayed bool) error {
	what := "that wait"
	if delayed {
		what = "that wait or are due later"
	}

	if err := d.sure("delete all jobs of queue %s %s", d.name(), what); err != nil {
		return err
	}

	n, err := d.Queue.Drain(ctx, delayed)
	if err != nil {
		return err
	}

	if d.JSON {
		return d.document(map[string]any{"count": n})
	}

	return d.say("%s removed that had not begun", jobs(int(n)))
}
