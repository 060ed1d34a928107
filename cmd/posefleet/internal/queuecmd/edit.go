package queuecmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// Promote makes delayed jobs takeable now. Those that can't be are named in the error.
func (d *Desk) Promote(ctx context.Context, ids []string) error {
	return d.each(ctx, ids, "promoted", "waits now", d.Queue.Promote)
}

// PromoteAll makes all delayed jobs takeable now.
func (d *Desk) PromoteAll(ctx context.Context) error {
	n, err := d.Queue.PromoteAll(ctx)

	return errors.Join(err, d.counted(int(n), "promoted"))
}

// ChangeDelay lets a delayed job be due after that time from now.
func (d *Desk) ChangeDelay(ctx context.Context, id string, delay time.Duration) error {
	return d.each(ctx, []string{id}, "changed", fmt.Sprintf("is due in %s", delay), func(ctx context.Context, id string) error {
		return d.Queue.ChangeDelay(ctx, id, delay)
	})
}

// ChangePriority gives a job another priority: 0 is served first. With first it goes in front of its equals.
func (d *Desk) ChangePriority(ctx context.Context, id string, priority int, first bool) error {
	return d.each(ctx, []string{id}, "changed", fmt.Sprintf("has priority %d", priority), func(ctx context.Context, id string) error {
		return d.Queue.ChangePriority(ctx, id, priority, first)
	})
}

// RemoveOrphans deletes jobs that are in no state, so that nobody would ever take or clean them.
func (d *Desk) RemoveOrphans(ctx context.Context) error {
	if err := d.sure("delete all jobs of queue %s that are in no state", d.name()); err != nil {
		return err
	}

	ids, err := d.Queue.RemoveOrphans(ctx)

	if d.JSON {
		return errors.Join(err, d.document(map[string]any{"removed": append([]string{}, ids...), "count": len(ids)}))
	}

	for _, id := range ids {
		if err := d.say("%s removed", oneLine(id)); err != nil {
			return err
		}
	}

	return errors.Join(err, d.say("%s removed that %s in no state", jobs(len(ids)), verb(len(ids))))
}

func verb(n int) string {
	if n == 1 {
		return "was"
	}

	return "were"
}

// Obliterate deletes the queue with everything in it; with force also while jobs run. It says how many jobs there were.
func (d *Desk) Obliterate(ctx context.Context, force bool) error {
	s, err := d.Queue.Sight(ctx)
	if err != nil {
		return err
	}

	if err := d.sure("delete queue %s with everything in it, which is %s", d.name(), jobs(int(s.Jobs()))); err != nil {
		return err
	}

	err = d.Queue.Obliterate(ctx, force)
	if errors.Is(err, queue.ErrActiveJobs) {
		return fmt.Errorf("queue %s is paused but was not deleted: jobs are running", d.name())
	}

	if err != nil {
		return err
	}

	if d.JSON {
		return d.document(map[string]any{"prefix": d.prefix(), "queue": d.Options.Name, "count": s.Jobs()})
	}

	return d.say("queue %s is deleted, with %s", oneLine(d.name()), jobs(int(s.Jobs())))
}

// counted tells how many jobs something was done to.
func (d *Desk) counted(n int, done string) error {
	if d.JSON {
		return d.document(map[string]any{"count": n})
	}

	return d.say("%s %s", jobs(n), done)
}
