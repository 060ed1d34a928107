package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Puller takes jobs one by one for those who bring their own loop. Nothing happens behind its back: locks are renewed by Claim.Extend
// only, and jobs that have lost their worker come back by CheckStalled only, unless another worker of the queue looks for them.
type Puller struct {
	w    *Worker
	mu   sync.Mutex // of the fetcher: one fetch at a time
	f    *fetcher
	open sync.Once
}

// Claim is a job that is ours until it is ended, or its lock runs out.
type Claim struct {
	Job *Job
	w   *Worker
	h   *hold
}

// NewPuller checks the options. It does not connect. Concurrency and Gate do not count: who pulls decides how many jobs run.
func NewPuller(o WorkerOptions) (*Puller, error) {
	o.Gate, o.Concurrency = nil, 1

	w, err := NewWorker(o, func(context.Context, *Job) (any, error) { return nil, nil })
	if err != nil {
		return nil, fmt.Errorf("new puller: %w", err)
	}

	return &Puller{w: w, f: newFetcher(w)}, nil
}

// Close gives the connections back. Jobs that are not ended yet stay active until their lock has run out.
func (p *Puller) Close() error {
	p.w.disconnect()

	return nil
}

// Next takes the next job; nil if there is none now. With block it waits for one, but not longer than DrainDelay, if the last call found
// none. Jobs that somebody has sentenced to fail are failed on the way and not answered. After an error a job may have been taken all
// the same; it comes back when its lock has run out.
func (p *Puller) Next(ctx context.Context, block bool) (*Claim, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.open.Do(func() { p.f.introduce(ctx) })

	if block && p.f.drained {
		stop := context.AfterFunc(ctx, p.w.block.renew) // closing is what interrupts a blocked call
		err := p.f.awaitMarker(ctx)
		stop()

		if err != nil {
			p.f.drained = false
			return nil, fmt.Errorf("next job: %w", errors.Join(err, context.Cause(ctx)))
		}
	}

	for ctx.Err() == nil {
		c, found, err := p.take(ctx)
		if err != nil || c != nil || !found {
			return c, err
		}
	}

	return nil, fmt.Errorf("next job: %w", context.Cause(ctx))
}

// take is one claim. found without a Claim: the job was ended at once.
func (p *Puller) take(ctx context.Context) (c *Claim, found bool, err error) {
	h, bad, err := p.f.claimOne(ctx)
	if err != nil || h == nil {
		return nil, false, err
	}

	p.w.watch.JobStarted(h.job)

	if outcome, over := p.w.prepare(h, bad); over {
		p.w.end(h, outcome)

		return nil, true, nil
	}

	return &Claim{Job: h.job, w: p.w, h: h}, true, nil
}

// CheckStalled puts jobs of the queue back that have lost their worker. All workers together look once in each StalledInterval, however
// often they ask.
func (p *Puller) CheckStalled(ctx context.Context) error {
	_, err := p.w.checkStalledOnce(ctx)

	return wrap("check for stalled jobs", err)
}

// Context ends with the cause ErrLockLost when the lock is lost or must have run out, and when the claim is ended.
func (c *Claim) Context() context.Context { return c.h.ctx }

// Extend renews the lock for LockDuration. ErrLockLost if the job is not ours any more.
func (c *Claim) Extend(ctx context.Context) error {
	if c.h.isLost() {
		return fmt.Errorf("extend lock of job %s: %w", c.Job.ID, ErrLockLost)
	}

	sent := time.Now()

	lost, err := c.w.extend(ctx, []*hold{c.h})
	if err != nil {
		return fmt.Errorf("extend lock of job %s: %w", c.Job.ID, err)
	}

	if lost[c.Job.ID] {
		c.h.takenAway()

		return fmt.Errorf("extend lock of job %s: %w", c.Job.ID, ErrLockLost)
	}

	c.h.extended(sent, c.w.opts.LockDuration)

	return nil
}

// Finish completes the job with its result and tells what became of it. Once ended, a claim can't be ended again.
func (c *Claim) Finish(result any) Outcome { return c.conclude(result, nil) }

// Fail ends the job with an error, which means what it means when a Handler returns it: another attempt, the final failure, or what
// DelayFor, PutBack, RateLimitFor and the like ask for.
func (c *Claim) Fail(err error) Outcome {
	if err == nil {
		err = errNone
	}

	return c.conclude(nil, err)
}

func (c *Claim) conclude(result any, err error) Outcome {
	if c.h.isLost() || c.h.ctx.Err() != nil {
		c.w.held.drop(c.h)

		return OutcomeLost
	}

	outcome := c.w.conclude(c.h, result, err)
	c.w.end(c.h, outcome)

	return outcome
}
