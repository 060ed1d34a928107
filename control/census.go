package control

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/queue"
)

const (
	// censusInterval is how often the queue's state is written to the log and to the store.
	censusInterval = 30 * time.Second
	// censusMemory is how long the store keeps it.
	censusMemory = 7 * 24 * time.Hour
	censusBatch  = 500
	// censusLimit bounds a census: one that can't be taken is said to be so, and the next one is not late.
	censusLimit = censusInterval / 3
	// censusFresh is how old the queue's numbers may be that somebody asks for, censusPatience how long they are waited for.
	censusFresh    = 2 * time.Second
	censusPatience = time.Second
	// queueVariables say where the queue is.
	queueVariables = "POSEFLEET_REDIS_URL, POSEFLEET_PREFIX, POSEFLEET_QUEUE"
)

// census says how the queue is, once for the whole fleet and also when no worker runs: alarms about age and progress are made of its
// lines, and the page shows what the store keeps of it.
type census struct {
	queue *queue.Queue
	store store.Store
	now   func() time.Time
	// changed is called after each census.
	changed func()
	log     *slog.Logger

	// asking is held while the queue is asked for somebody, so that all who ask meanwhile share the answer; at most censusPatience.
	asking sync.Mutex

	mu     sync.Mutex
	latest *store.Census
	// counted is when latest was found, or not found.
	counted time.Time
}

// Run works until ctx ends.
func (c *census) Run(ctx context.Context) {
	tick := time.NewTicker(censusInterval)
	defer tick.Stop()
	for {
		c.take(ctx, censusLimit)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// last is the latest census, nil while the queue can't be read.
func (c *census) last() *store.Census {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.latest
}

// current is a census that is at most censusFresh old, and its age; nil while the queue can't be read. However many ask, the queue is asked once
// in that time.
func (c *census) current(ctx context.Context) (*store.Census, time.Duration) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if age := c.age(); age >= censusFresh {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), censusPatience) // the others want it too
		defer cancel()
		now, _, err := c.count(ctx)
		if err != nil {
			c.log.DebugContext(ctx, "queue can't be read", slog.Any("error", err))
		}
		c.keep(now)
	}

	return c.last(), c.age()
}

func (c *census) keep(now *store.Census) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest, c.counted = now, time.Now()
}

func (c *census) age() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()

	return time.Since(c.counted)
}

// take takes a census within the limit. What it says of faults is for the end of the limit too: only after the end of the process nobody
// wants to hear it.
func (c *census) take(process context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(process, limit)
	defer cancel()
	now, age, err := c.count(ctx)
	c.keep(now)
	if err != nil {
		if process.Err() == nil {
			c.log.WarnContext(ctx, "queue can't be read", slog.Any("error", err), slog.String("check", queueVariables))
		}
		c.changed()

		return
	}
	c.log.InfoContext(ctx, "queue", slog.Int64("waiting", now.Waiting), slog.Int64("active", now.Active), slog.Int64("delayed", now.Delayed),
		slog.Int64("demand", now.Waiting+now.Active+now.Delayed), slog.Float64("oldest_seconds", age), slog.Bool("paused", now.Paused))
	if err := c.store.AddCensus(ctx, *now); err != nil && process.Err() == nil {
		c.log.ErrorContext(ctx, "census can't be kept", slog.Any("error", err))
	}
	if _, err := c.store.ForgetCensus(ctx, now.At.Add(-censusMemory), censusBatch); err != nil && process.Err() == nil {
		c.log.ErrorContext(ctx, "old census can't be removed", slog.Any("error", err))
	}
	c.changed()
}

// count asks the queue.
func (c *census) count(ctx context.Context) (*store.Census, float64, error) {
	counts, err := c.queue.Counts(ctx)
	if err != nil {
		return nil, 0, err
	}
	_, since, err := c.queue.Oldest(ctx)
	if err != nil {
		return nil, 0, err
	}
	now := c.now()
	age := 0.0
	if !since.IsZero() {
		age = max(0, now.Sub(since).Seconds())
	}
	workers := int64(-1)
	if all, err := c.queue.Workers(ctx); err == nil { // not every Redis lets list its clients
		workers = int64(len(all))
	}

	return &store.Census{
		At: now, Waiting: counts.Waiting + counts.Prioritized, Active: counts.Active, Delayed: counts.Delayed, OldestSeconds: int64(age),
		Paused: counts.Paused, Workers: workers,
	}, age, nil
}
