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

const (
	// shards run at once.
	shards = 4
	// workFor is how long work comes.
	workFor = 90 * time.Second
)

// story plays one interleaving: two processes that decide, work that comes and goes, one process that stands still or dies, and returns
// what was not as promised.
func story(t *testing.T, seed uint64) (broken []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := &world{
			rng: rng, faults: rng.IntN(6), forgets: rng.IntN(2), raced: 2, short: time.Now(),
			cfg: Config{Max: 1 + rng.IntN(4), Slots: 1 + rng.IntN(3), Interval: time.Duration(3+rng.IntN(12)) * time.Second},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var deciders []*Reconciler
		var nodes []*node
		for i := range 2 {
			n := &node{w: w, name: fmt.Sprintf("control-%d", i)}
			cfg := w.cfg
			cfg.Owner = n.name
			r, err := New(cfg, n, n, nil)
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() { r.Run(ctx) })
			deciders, nodes = append(deciders, r), append(nodes, n)
		}
		w.play(ctx, &running, deciders, nodes)
		w.end()
		cancel()
		running.Wait()
		broken = w.broken
	})

	return broken
}

// play lets work come, and one process fail.
func (w *world) play(ctx context.Context, running *sync.WaitGroup, deciders []*Reconciler, nodes []*node) {
	running.Go(func() {
		for ctx.Err() == nil {
			pause(500 * time.Millisecond)
			w.step()
		}
	})
	w.mu.Lock()
	victim, at, how := nodes[w.rng.IntN(2)], w.between(0, workFor), w.rng.IntN(3)
	w.mu.Unlock()
	time.AfterFunc(at, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		victim.dead = how == 1
		if how == 2 {
			victim.asleep = time.Now().Add(w.between(5*time.Second, 15*time.Second))
		}
	})
	for end := time.Now().Add(workFor); time.Now().Before(end); {
		w.mu.Lock()
		idle, n, told, who := w.between(0, 40*time.Second), 1+w.rng.IntN(4), w.rng.IntN(3), w.rng.IntN(2)
		w.mu.Unlock()
		pause(idle)
		if told == 2 {
			_, _, _ = deciders[who].Wake(ctx) // a wish that fails is wished again, or the work speaks for itself
		}
		w.add(n)
		if told == 1 {
			deciders[who].Kick()
		}
	}
}

// end waits until the work is done and checks that nothing is left and nothing goes on.
func (w *world) end() {
	for range 600 {
		pause(time.Second)
		w.mu.Lock()
		done := len(w.work) == 0 && w.raced == 0 && time.Now().After(w.row.WakeUntil)
		if len(w.work) == 0 && w.target == 0 {
			w.raced = 0 // nothing will be scaled in any more
		}
		w.mu.Unlock()
		if done {
			break
		}
	}
	pause(w.cfg.Interval + time.Minute)
	w.mu.Lock()
	sets := w.sets
	if len(w.work) > 0 || w.target > 0 || len(w.tasks) > 0 {
		w.fail("no demand, and still %d workers of %d for %d analyses", len(w.tasks), w.target, len(w.work))
	}
	w.mu.Unlock()
	pause(30 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sets > sets {
		w.fail("%d more calls although nothing changes", w.sets-sets)
	}
}

// brokenStory plays interleavings until one is not as promised and returns which and how many there were.
func brokenStory(t *testing.T, shard, n int) (seed uint64, broken []string) {
	t.Helper()
	for i := range n {
		seed = uint64(shard*n + i)
		if broken = story(t, seed); len(broken) > 0 {
			return seed, broken
		}
	}

	return 0, nil
}
