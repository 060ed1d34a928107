package pipeline

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/wait"
)

// counting counts how often a run is read.
type counting struct {
	store.Store
	reads atomic.Int64
}

func (c *counting) Run(ctx context.Context, k store.RunKey) (store.Run, error) {
	c.reads.Add(1)

	return c.Store.Run(ctx, k)
}

// A run without a limit keeps no more, however long it waits.
func TestFollowedRunDoesNotGrow(t *testing.T) {
	t.Parallel()
	var looks *counting
	b := newBench(t, t.TempDir(), func(c *Config) {
		looks = &counting{Store: c.Store}
		c.Store, c.Look = looks, shortestTime
	})
	b.submit(t, store.RunFollowed)
	b.begin(t)
	wait.For(t, time.Minute, func() bool { return looks.reads.Load() > 5 }, "it does not look")
	b.deliver(t)
	b.ended(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	awaits := 0
	for _, step := range b.begun {
		if step == stepAwait {
			awaits++
		}
	}
	if awaits != 1 {
		t.Errorf("%d waits are kept", awaits)
	}
}
