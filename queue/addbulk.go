package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	bulkJobs  = 50 // of one script call, so that none holds Redis up for long
	bulkCalls = 20 // of one round trip: Redis works on the first while the last are still on their way
)

// AddBulk adds jobs in order, a thousand per round trip. Each is added by itself: after an error some may be there. Answers and faults
// are in the order of jobs.
func (q *Queue) AddBulk(ctx context.Context, jobs []NewJob) ([]Added, error) {
	all := make([]*addition, len(jobs))
	now, trace := time.Now(), inject(ctx, q.telemetry)

	for i, job := range jobs {
		job.Opts.under(q.defaults)
		trace.into(&job.Opts)

		a, err := addArgs(job, now)
		if err != nil {
			return nil, fmt.Errorf("add jobs: job %d: %w", i, err)
		}

		all[i] = a
	}

	b := &bulk{q: q, all: all, added: make([]Added, len(jobs)), stamp: strconv.FormatInt(now.UnixMilli(), 10)}

	for first := 0; first < len(all); first += bulkJobs * bulkCalls {
		b.step(ctx, first, min(first+bulkJobs*bulkCalls, len(all)))
	}

	return b.added, errors.Join(b.errs...)
}

// bulk is one AddBulk on its way.
type bulk struct {
	q     *Queue
	all   []*addition
	added []Added
	stamp string // the plain jobs' timestamp
	errs  []error
}

// step is one round trip for the jobs from first up to end.
func (b *bulk) step(ctx context.Context, first, end int) {
	c := b.q.client.get()
	pipe, names := c.Pipeline(), scriptKeys(c, b.q.keys)

	var cmds []*redis.Cmd

	for at := first; at < end; at += bulkJobs {
		cmds = append(cmds, pipe.EvalSha(ctx, b.q.scripts.addBulk.sha, names, b.args(at, min(at+bulkJobs, end))...))
	}

	_, _ = pipe.Exec(ctx) // each command has its own error

	for i, cmd := range cmds {
		at := first + i*bulkJobs
		till := min(at+bulkJobs, end)

		reply, err := cmd.Result()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			reply, err = b.q.scripts.addBulk.run(ctx, b.q.client, b.q.keys, b.args(at, till)...)
		}

		b.read(reply, err, at, till)
	}
}

// args is ARGV of addbulk.lua for the jobs from first up to end.
func (b *bulk) args(first, end int) []any {
	args := make([]any, 0, 1+5*(end-first))
	args = append(args, b.stamp)

	for i := first; i < end; i++ {
		a := b.all[i]
		args = append(args, a.id, a.name, a.data, a.opts)

		if a.plain() && a.timestamp == b.stamp {
			args = append(args, "")
			continue
		}

		args = append(append(args, "1"), a.list()[4:]...)
	}

	return args
}

// read takes the answer of one call apart; err concerns all of its jobs.
func (b *bulk) read(reply any, err error, first, end int) {
	answers, _ := reply.([]any)
	if err == nil && len(answers) != end-first {
		err = fmt.Errorf("addbulk: %w: %T", errBadReply, reply)
	}

	for i := first; i < end; i++ {
		fault := err
		if fault == nil {
			b.added[i], fault = b.all[i].bulkAnswer(answers[i-first])
		}

		if fault != nil {
			b.errs = append(b.errs, fmt.Errorf("add jobs: job %d: %w", i, fault))
		}
	}
}

// bulkAnswer reads one answer of addbulk.lua.
func (a *addition) bulkAnswer(answer any) (Added, error) {
	switch v := answer.(type) {
	case string:
		return Added{ID: v}, nil
	case []any:
		if len(v) == 2 && v[0] == "error" {
			return Added{}, fmt.Errorf("addbulk: %v", v[1]) //nolint:err113 // words of Redis
		}
	}

	return a.answer(answer, false)
}

// plain: the job waits in the list at once and has no family and no deduplication.
func (a *addition) plain() bool {
	o := &a.o

	return o.Delay == 0 && o.Priority == 0 && !o.LIFO && !a.waits && o.Parent == nil && o.Deduplication == nil
}
