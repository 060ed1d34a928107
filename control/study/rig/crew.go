package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posefleet/posefleet/control/study"
	"github.com/posefleet/posefleet/queue"
)

// crew is the workers.
type crew struct {
	members []*member
	plan    *plan
	book    *book
	absence time.Duration
	fail    context.CancelCauseFunc
	losses  atomic.Int64
	end     context.CancelFunc
	all     sync.WaitGroup
}

// member is one worker, which has one job at a time and a way of its own to Redis.
type member struct {
	crew   *crew
	line   *line
	worker *queue.Worker
}

// startCrew runs the workers until close.
func startCrew(ctx context.Context, r *rig) (*crew, error) {
	lock := orDefault(r.cfg.Lock, defaultLock)
	// A worker that is back before its lock has run out would finish its job as if nothing had been.
	c := &crew{plan: r.plan, book: r.book, fail: r.stop, absence: lock + lock/2}
	for i := range orDefault(r.cfg.Workers, defaultWorkers) {
		m := &member{crew: c, line: newLine(r.pair)}
		o := queue.DefaultWorkerOptions()
		o.Options, o.WorkerName = m.line.options(), "worker-"+strconv.Itoa(i)
		o.LockDuration, o.LockRenewTime, o.StalledInterval, o.MaxStalledCount = lock, lock/2, lock/4, maxStalled
		o.RemoveOnComplete = &queue.Keep{Now: true}
		var err error
		if m.worker, err = queue.NewWorker(o, m.handle); err != nil {
			return nil, err
		}
		c.members = append(c.members, m)
	}
	ctx, c.end = context.WithCancel(ctx)
	for _, m := range c.members {
		c.all.Go(func() { _ = m.worker.Run(ctx) }) // until close; its error is the end of the context
	}

	return c, nil
}

// maxStalled is more than ever happens: no job is given up.
const maxStalled = 1000

func orDefault[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}

	return v
}

func (c *crew) close() {
	c.end()
	c.all.Wait()
}

func (c *crew) pause() {
	for _, m := range c.members {
		m.worker.Pause()
	}
}

func (c *crew) resume() {
	for _, m := range c.members {
		m.worker.Resume()
	}
}

func (c *crew) lost() int { return int(c.losses.Load()) }

// handle is the work of a job: its effect. Whether the lock is still ours makes no difference to it, as in any work that is under way.
func (m *member) handle(ctx context.Context, j *queue.Job) (any, error) {
	ctx = context.WithoutCancel(ctx)
	a := arrival{job: j.ID}
	_, a.reign = m.line.pair.ruler()
	err := json.Unmarshal(j.Data, &a.event)
	if err == nil {
		err = m.crew.book.deliver(ctx, a)
	}
	if err != nil {
		m.crew.fail(fmt.Errorf("job %s: %w", j.ID, err))

		return nil, err
	}
	if m.crew.plan.loseWorker(a.event.ID()) {
		m.crew.losses.Add(1)
		m.lose()
	}

	return study.Delivered, nil
}

// lose takes the worker's network away for longer than its lock lasts. What it says of the job's end is never heard.
func (m *member) lose() {
	m.line.cutOff()
	m.crew.all.Go(func() { // ends with the absence
		<-time.After(m.crew.absence)
		m.line.heal()
	})
}
