package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Family is what a parent knows about its children. They are named by their keys, prefix:queue:id.
type Family struct {
	// Pending have not ended yet.
	Pending []string
	// Processed are the return values (JSON) of those that are completed.
	Processed map[string]json.RawMessage
	// Ignored are the reasons of those whose failure does not fail the parent.
	Ignored map[string]string
	// Failed are those whose failure fails the parent, oldest first.
	Failed []string
}

// FamilyCounts is how many children are in each part of a Family.
type FamilyCounts struct{ Pending, Processed, Ignored, Failed int64 }

// Ref names the job as a parent: with it as JobOptions.Parent a running handler adds children to its own job, and then returns
// WaitForChildren.
func (j *Job) Ref() ParentRef {
	if j.desk == nil {
		return ParentRef{ID: j.ID}
	}

	return ParentRef{ID: j.ID, Queue: j.desk.keys.qualified()}
}

// Family reads all children of the job.
func (j *Job) Family(ctx context.Context) (Family, error) {
	if j.desk == nil {
		return Family{}, fmt.Errorf("children of job %s: %w", j.ID, ErrClosed)
	}

	pipe := j.desk.line.get().Pipeline()
	read := readFamily(ctx, pipe, j.desk.keys.job(j.ID))

	if _, err := pipe.Exec(ctx); err != nil {
		return Family{}, fmt.Errorf("children of job %s: %w", j.ID, err)
	}

	return read(), nil
}

// FamilyCounts counts the children of the job.
func (j *Job) FamilyCounts(ctx context.Context) (FamilyCounts, error) {
	if j.desk == nil {
		return FamilyCounts{}, fmt.Errorf("children of job %s: %w", j.ID, ErrClosed)
	}

	key := j.desk.keys.job(j.ID)
	pipe := j.desk.line.get().Pipeline()
	pending, processed := pipe.SCard(ctx, key+suffixPending), pipe.HLen(ctx, key+suffixProcessed)
	ignored, failed := pipe.HLen(ctx, key+suffixIgnored), pipe.ZCard(ctx, key+suffixFailed)

	if _, err := pipe.Exec(ctx); err != nil {
		return FamilyCounts{}, fmt.Errorf("children of job %s: %w", j.ID, err)
	}

	return FamilyCounts{Pending: pending.Val(), Processed: processed.Val(), Ignored: ignored.Val(), Failed: failed.Val()}, nil
}

// ChildrenValues are the return values (JSON) of the children that are completed, by the children's keys.
func (j *Job) ChildrenValues(ctx context.Context) (map[string]json.RawMessage, error) {
	f, err := j.Family(ctx)

	return f.Processed, err
}

// LeaveParent makes the job an orphan: its parent does not wait for it any more, and is released if it was the last. False if the job
// has no parent, ErrParentMissing if that is gone.
func (j *Job) LeaveParent(ctx context.Context) (bool, error) {
	if err := j.writable(); err != nil {
		return false, err
	}

	n, err := j.desk.scripts.leaveParent.code(ctx, j.desk.line, j.desk.keys, j.ID, j.ID)
	if err == nil {
		j.ParentKey = ""
	}

	return n == 0 && err == nil, wrap("leave parent", err)
}

// Companions of a parent's key that hold its children.
const (
	suffixPending   = ":dependencies"
	suffixProcessed = ":processed"
	suffixIgnored   = ":failed"
	suffixFailed    = ":unsuccessful"
)

// readFamily queues the reads; the answer collects them after Exec.
func readFamily(ctx context.Context, pipe redis.Pipeliner, key string) func() Family {
	pending, processed := pipe.SMembers(ctx, key+suffixPending), pipe.HGetAll(ctx, key+suffixProcessed)
	ignored, failed := pipe.HGetAll(ctx, key+suffixIgnored), pipe.ZRange(ctx, key+suffixFailed, 0, -1)

	return func() Family {
		f := Family{
			Pending: slices.Sorted(slices.Values(pending.Val())), Processed: make(map[string]json.RawMessage, len(processed.Val())),
			Ignored: ignored.Val(), Failed: failed.Val(),
		}
		for child, value := range processed.Val() {
			f.Processed[child] = json.RawMessage(value)
		}

		return f
	}
}
