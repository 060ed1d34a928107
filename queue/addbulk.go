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
	b.run(ctx)

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

// bulkStep is one round trip.
type bulkStep struct {
	calls []bulkCall
	done  chan struct{}
}

// bulkCall is one call of the script, for the jobs from first up to end.
type bulkCall struct {
	first, end int
	args       []any

	reply any
	err   error
}

// run makes one round trip after the other, so that the jobs are added in their order. While Redis works on one, the next is made up and
// the answers of the last are read.
func (b *bulk) run(ctx context.Context) {
	var last *bulkStep

	for first := 0; first < len(b.all); first += bulkJobs * bulkCalls {
		s := b.step(first, min(first+bulkJobs*bulkCalls, len(b.all)))
		b.await(last)

		go s.run(ctx, b.q) // ends before run does: awaited in the next turn or below

		b.read(last)
		last = s
	}

	b.await(last)
	b.read(last)
}

func (b *bulk) await(s *bulkStep) {
	if s != nil {
		<-s.done
	}
}

func (b *bulk) step(first, end int) *bulkStep {
	s := &bulkStep{done: make(chan struct{})}

	for at := first; at < end; at += bulkJobs {
		till := min(at+bulkJobs, end)
		s.calls = append(s.calls, bulkCall{first: at, end: till, args: b.args(at, till)})
	}

	return s
}

// run is the round trip. Calls that Redis does not know are made again before anything follows them.
func (s *bulkStep) run(ctx context.Context, q *Queue) {
	defer close(s.done)

	c := q.client.get()
	pipe, names, cmds := c.Pipeline(), scriptKeys(c, q.keys), make([]*redis.Cmd, len(s.calls))

	for i, call := range s.calls {
		cmds[i] = pipe.EvalSha(ctx, q.scripts.addBulk.sha, names, call.args...)
	}

	_, _ = pipe.Exec(ctx) // each command has its own error

	for i, cmd := range cmds {
		call := &s.calls[i]

		call.reply, call.err = cmd.Result()
		if redis.HasErrorPrefix(call.err, "NOSCRIPT") {
			call.reply, call.err = q.scripts.addBulk.run(ctx, q.client, q.keys, call.args...)
		}
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

// read takes the answers of a round trip apart.
func (b *bulk) read(s *bulkStep) {
	if s == nil {
		return
	}

	for _, call := range s.calls {
		b.readCall(call)
	}
}

// readCall takes the answer of one call apart; its error concerns all of its jobs.
func (b *bulk) readCall(c bulkCall) {
	answers, _ := c.reply.([]any)
	if c.err == nil && len(answers) != c.end-c.first {
		c.err = fmt.Errorf("addbulk: %w: %T", errBadReply, c.reply)
	}

	for i := c.first; i < c.end; i++ {
		fault := c.err
		if fault == nil {
			b.added[i], fault = b.all[i].bulkAnswer(answers[i-c.first])
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
			return Added{}, fmt.Errorf("addbulk: %w", words(v[1]))
		}
	}

	return a.answer(answer, false)
}

// plain: the job waits in the list at once and has no family and no deduplication.
func (a *addition) plain() bool {
	o := &a.o

	return o.Delay == 0 && o.Priority == 0 && !o.LIFO && !a.waits && o.Parent == nil && o.Deduplication == nil
}
