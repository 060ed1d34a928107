package control

import (
	"context"
	"log/slog"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// censusInterval is how often the queue's state is written to the log.
const censusInterval = 30 * time.Second

// census says how the queue is, once for the whole fleet and also when no worker runs: alarms about age and progress are made of its lines.
type census struct {
	queue *queue.Queue
	now   func() time.Time
	log   *slog.Logger
}

// Run works until ctx ends.
func (c *census) Run(ctx context.Context) {
	tick := time.NewTicker(censusInterval)
	defer tick.Stop()
	for {
		c.take(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *census) take(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, censusInterval/3)
	defer cancel()
	counts, err := c.queue.Counts(ctx)
	var since time.Time
	if err == nil {
		_, since, err = c.queue.Oldest(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			c.log.WarnContext(ctx, "queue can't be read", slog.Any("error", err))
		}

		return
	}
	age := 0.0
	if !since.IsZero() {
		age = max(0, c.now().Sub(since).Seconds())
	}
	c.log.InfoContext(ctx, "queue", slog.Int64("waiting", counts.Waiting+counts.Prioritized), slog.Int64("active", counts.Active),
		slog.Int64("delayed", counts.Delayed), slog.Int64("demand", counts.Waiting+counts.Prioritized+counts.Active+counts.Delayed),
		slog.Float64("oldest_seconds", age), slog.Bool("paused", counts.Paused))
}
