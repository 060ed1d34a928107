package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

// world is a database, a platform and the work, all of which are late, fail and forget within bounds: less in sum than the minute that
// work may wait for capacity. Everything in it is checked as it happens.
type world struct {
	mu     sync.Mutex
	rng    *rand.Rand
	cfg    Config
	row    store.Fleet
	work   []*job
	tasks  []*task
	target int // what the platform really aims at
	views  []view
	nextID int

	faults, forgets int // what is left of each
	raced           int // how often work is still to come in the middle of a scale-in
	short           time.Time
	lastSet         time.Time
	sets            int
	broken          []string
}

// job is an analysis, task a worker.
type job struct {
	worker string
	until  time.Time // when it is done; zero while it waits
}

type task struct {
	id    string
	ready time.Time
}

// view is what the platform says of a moment.
type view struct {
	at   time.Time
	seen Seen
}

// node is a process that decides: its way to the database and the platform.
type node struct {
	w     *world
	name  string
	dead  bool
	epoch int64
	// asleep is until when the whole process stands still.
	asleep time.Time
	// demand is the work at the last reading; owed is the number that a scale-in was too low by.
	demand store.FleetDemand
	owed   *debt
}

type debt struct{ n int }

var errInjected = errors.New("injected")

func (w *world) fail(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rng.Int64N(int64(b-a)+1))
}

// truth is the demand as it is.
func (w *world) truth() store.FleetDemand {
	d := store.FleetDemand{At: time.Now(), WakeUntil: w.row.WakeUntil}
	busy := map[string]bool{}
	for _, j := range w.work {
		if j.worker == "" {
			d.Waiting++

			continue
		}
		d.Working++
		if !busy[j.worker] {
			busy[j.worker] = true
			d.Busy = append(d.Busy, j.worker)
		}
	}

	return d
}

// wanted is how many workers there have to be, in the words of the promise.
func (w *world) wanted(d store.FleetDemand) int {
	n := (d.Waiting + d.Working + w.cfg.Slots - 1) / w.cfg.Slots
	if d.WakeUntil.After(d.At) {
		n = max(n, 1)
	}

	return max(min(max(n, w.cfg.Min), w.cfg.Max), min(len(d.Busy), max(w.target, w.cfg.Max)))
}

// step lets the platform and the workers go on.
func (w *world) step() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.work = deleteIf(w.work, func(j *job) bool { return j.worker != "" && now.After(j.until) })
	busy := map[string]int{}
	for _, j := range w.work {
		if j.worker != "" {
			busy[j.worker]++
		}
	}
	// Busy tasks are protected; of the others as many end as there are too many.
	for i := len(w.tasks) - 1; i >= 0 && len(w.tasks) > w.target; i-- {
		if busy[w.tasks[i].id] == 0 {
			w.tasks = append(w.tasks[:i], w.tasks[i+1:]...)
		}
	}
	for len(w.tasks) < w.target {
		w.nextID++
		w.tasks = append(w.tasks, &task{id: fmt.Sprintf("task-%d", w.nextID), ready: now.Add(w.between(time.Second, 8*time.Second))})
	}
	seen := Seen{Desired: w.target, Running: len(w.tasks)}
	for _, t := range w.tasks {
		if now.Before(t.ready) {
			continue
		}
		seen.Ready++
		for _, j := range w.work {
			if j.worker == "" && busy[t.id] < w.cfg.Slots {
				j.worker, j.until = t.id, now.Add(w.between(time.Second, 25*time.Second))
				busy[t.id]++
			}
		}
	}
	w.views = append(w.views, view{now, seen})
	w.checkCapacity(now)
}

func deleteIf[T any](all []T, gone func(T) bool) []T {
	kept := all[:0]
	for _, v := range all {
		if !gone(v) {
			kept = append(kept, v)
		}
	}

	return kept
}

// checkCapacity holds the promise that work is not without capacity for a minute.
func (w *world) checkCapacity(now time.Time) {
	if w.target >= w.wanted(w.truth()) {
		w.short = now

		return
	}
	if now.Sub(w.short) > time.Minute {
		w.fail("no capacity for a minute: %d workers for %+v", w.target, w.truth())
		w.short = now
	}
}

// add brings work.
func (w *world) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		w.work = append(w.work, &job{})
	}
}

// op is one call of a node: it takes its time, and may fail before or after it has had its effect.
func (n *node) op(ctx context.Context, most time.Duration, fn func() error) error {
	n.w.mu.Lock()
	before, after := n.w.between(0, most/2), n.w.between(0, most/2)
	fate := -1
	if n.w.faults > 0 && n.w.rng.IntN(8) == 0 {
		n.w.faults--
		fate = n.w.rng.IntN(2)
	}
	stall := time.Until(n.asleep)
	n.w.mu.Unlock()
	pause(max(0, stall)) // a process that stands still looks at its deadlines when it goes on
	if err := context.Cause(ctx); err != nil {
		return err
	}
	pause(before)
	if err := n.effect(fate, fn); err != nil {
		return err
	}
	pause(after)

	return context.Cause(ctx)
}

func (n *node) effect(fate int, fn func() error) error {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.dead {
		return errInjected
	}
	if fate >= 0 {
		n.owed = nil // it pauses now, as it should
	}
	if fate == 0 {
		return errInjected
	}
	if err := fn(); err != nil {
		return err
	}
	if fate == 1 {
		return errInjected
	}

	return nil
}

const opMost = 40 * time.Millisecond

func (n *node) leads() bool {
	return n.w.row.Owner == n.name && n.w.row.Epoch == n.epoch && n.w.row.LeaseUntil.After(time.Now())
}

// Fleet implements store.FleetStore, as do the others.
func (n *node) Fleet(ctx context.Context) (f store.Fleet, err error) {
	err = n.op(ctx, opMost, func() error { f = n.w.row; return nil })

	return f, err
}

func (n *node) FleetLead(ctx context.Context, owner string, epoch int64, lease time.Duration) (f store.Fleet, leads bool, err error) {
	err = n.op(ctx, opMost, func() error {
		r, now := &n.w.row, time.Now()
		keeps := r.Owner == owner && r.Epoch == epoch && epoch > 0
		if leads = keeps || r.Owner == "" || !r.LeaseUntil.After(now) || (epoch == 0 && r.Owner == owner); leads {
			if !keeps {
				r.Epoch++
			}
			r.Owner, r.LeaseUntil, n.epoch = owner, now.Add(lease), r.Epoch
		}
		f = *r

		return nil
	})

	return f, leads && err == nil, err
}

func (n *node) FleetResign(ctx context.Context, epoch int64) error {
	return n.op(ctx, opMost, func() error {
		if n.w.row.Epoch == epoch {
			n.w.row.Owner, n.w.row.LeaseUntil = "", time.Time{}
		}

		return nil
	})
}

func (n *node) FleetDemand(ctx context.Context) (d store.FleetDemand, err error) {
	err = n.op(ctx, opMost, func() error { d = n.w.truth(); n.demand = d; return nil })

	return d, err
}

func (n *node) FleetDecide(ctx context.Context, d store.FleetDecision) error {
	return n.op(ctx, opMost, func() error {
		if n.owed != nil && d.Desired > n.owed.n {
			n.owed = nil
		}
		if !n.leads() || d.Epoch != n.epoch {
			return store.ErrLost
		}
		r := &n.w.row
		r.Desired, r.Reason, r.ChangedAt = d.Desired, d.Reason, time.Now()
		if !d.NeededAt.IsZero() {
			r.NeededAt = d.NeededAt
		}

		return nil
	})
}

func (n *node) FleetSeen(ctx context.Context, s store.FleetSighting) error {
	return n.op(ctx, opMost, func() error {
		if !n.leads() || s.Epoch != n.epoch {
			return store.ErrLost
		}
		r := &n.w.row
		r.Running, r.Ready, r.SeenAt = s.Running, s.Ready, time.Now()
		if !s.NeededAt.IsZero() {
			r.NeededAt = s.NeededAt
		}

		return nil
	})
}

func (n *node) FleetWake(ctx context.Context, until time.Time) error {
	return n.op(ctx, opMost, func() error {
		if until.After(n.w.row.WakeUntil) {
			n.w.row.WakeUntil = until
		}

		return nil
	})
}

func (n *node) FleetHistory(context.Context, time.Time, int) ([]store.FleetPoint, error) {
	return nil, nil
}

// Name implements Driver, as do the others.
func (n *node) Name() string { return "fake" }

func (n *node) Pace() time.Duration { return time.Second }

func (n *node) StandDown() {}

func (n *node) Run(ctx context.Context) { <-ctx.Done() }

// Look sees what was some seconds ago.
func (n *node) Look(ctx context.Context) (s Seen, err error) {
	err = n.op(ctx, 300*time.Millisecond, func() error {
		then := time.Now().Add(-n.w.between(0, 8*time.Second))
		for _, v := range n.w.views {
			if v.at.Before(then) {
				s = v.seen
			}
		}

		return nil
	})

	return s, err
}

// Spare has no objection, so that the reconciler's own guard is what counts.
func (n *node) Spare(ctx context.Context, least int, _ []string) (int, error) {
	return least, n.op(ctx, 300*time.Millisecond, func() error { return nil })
}

// Set checks who asks, and whether work would end.
func (n *node) Set(ctx context.Context, workers int, _ []string) error {
	n.race(workers)
	fewer := false
	err := n.op(ctx, 300*time.Millisecond, func() error {
		w := n.w
		w.sets, w.lastSet = w.sets+1, time.Now()
		if !n.leads() {
			w.fail("%s sets %d without the lease, which %s has", n.name, workers, w.row.Owner)
		}
		if workers > w.target && workers > w.cfg.Max {
			w.fail("%s sets %d, more than the most of %d", n.name, workers, w.cfg.Max)
		}
		if fewer = workers < w.target; fewer && workers < len(n.demand.Busy) {
			w.fail("%s scales in to %d under the work of %d", n.name, workers, len(n.demand.Busy))
		}
		if w.forgets > 0 && w.rng.IntN(10) == 0 {
			w.forgets--

			return nil
		}
		w.target = workers

		return nil
	})
	if err == nil && fewer {
		n.expectRaise(workers)
	}

	return err
}

// race brings work without a word to anybody in the middle of some scale-ins.
func (n *node) race(workers int) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if workers < n.w.target && n.w.raced > 0 && n.w.rng.IntN(2) == 0 {
		n.w.raced--
		time.AfterFunc(n.w.between(0, 100*time.Millisecond), func() { n.w.add(1) })
	}
}

// expectRaise holds the promise of the second reading: work that was written before a scale-in came back is answered within a second, if
// nothing fails meanwhile.
func (n *node) expectRaise(workers int) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.w.wanted(n.w.truth()) <= workers {
		return
	}
	owed := &debt{n: workers}
	n.owed = owed
	time.AfterFunc(time.Second, func() {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		if n.owed == owed && !n.dead && time.Now().After(n.asleep) && n.leads() && n.w.wanted(n.w.truth()) > workers {
			n.w.fail("%s scaled in to %d and left %+v alone", n.name, workers, n.w.truth())
		}
		n.owed = nil
	})
}

// pause lets time pass, which costs none in a bubble.
func pause(d time.Duration) { <-time.After(d) }
