package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleIntervalIsWhole: the last worker ends a whole interval after the last work did, never before, and soon after, whenever between two
// looks the work ended, and also if another process took over meanwhile.
func TestIdleIntervalIsWhole(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		for _, heir := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d heir %t", seed, heir), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { lastWork(t, seed, heir) })
			})
		}
	}
}

func lastWork(t *testing.T, seed uint64, heir bool) {
	t.Helper()
	w := &world{rng: rand.New(rand.NewPCG(seed, 2)), short: time.Now(), cfg: Config{Max: 1, Slots: 1, Interval: 5 * time.Second}}
	var running sync.WaitGroup
	defer running.Wait()
	all, end := context.WithCancel(t.Context())
	defer end()
	decider := func(ctx context.Context, name string) *Reconciler {
		n, cfg := &node{w: w, name: name}, w.cfg
		cfg.Owner = name
		r, err := New(cfg, n, n, nil)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { r.Run(ctx) })

		return r
	}
	first, endFirst := context.WithCancel(all)
	r := decider(first, "control-0")
	w.add(1)
	r.Kick()
	var worked, done, ended time.Time
	for begin := time.Now(); ended.IsZero() && time.Since(begin) < 3*time.Minute; pause(20 * time.Millisecond) {
		w.step()
		w.mu.Lock()
		switch {
		case worked.IsZero() && w.target > 0:
			worked = time.Now()
		case done.IsZero() && !worked.IsZero() && len(w.work) == 0:
			done = time.Now()
		case !done.IsZero() && w.target == 0:
			ended = time.Now()
		}
		if heir && !done.IsZero() && time.Since(done) > time.Duration(seed)*50*time.Millisecond {
			heir = false
			endFirst()
			decider(all, "control-1")
		}
		w.mu.Unlock()
	}
	endFirst()
	idle := ended.Sub(done)
	if done.IsZero() || ended.IsZero() || idle < w.cfg.Interval || idle > 3*w.cfg.Interval {
		t.Errorf("work done %v, workers gone %v: %v idle of %v", done, ended, idle, w.cfg.Interval)
	}
}
