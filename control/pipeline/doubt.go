package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/posefleet/posefleet/control/store"
)

// doubts are runs that may be kept as under way in this process and are not: their beginning failed, maybe after it was kept, as when the
// database goes away before it answers. Whoever asks for such a run again, here or elsewhere, is told that it has begun.
type doubts struct {
	mu sync.Mutex
	// since is when a run in doubt was first seen to be kept and not executed, or zero.
	since   map[string]time.Time
	running map[string]int
	// broken are runs that ended with an error, as where what is kept of them could not be read.
	broken map[store.RunKey]bool
}

// doubtTime is how long a run must be kept as under way and not be executed before it is taken up again.
const doubtTime = 3 * time.Second

func newDoubts() *doubts {
	return &doubts{since: map[string]time.Time{}, running: map[string]int{}, broken: map[store.RunKey]bool{}}
}

// began notes that a run is executed here, until the returned function is called.
func (d *doubts) began(id string) (ended func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running[id]++

	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.running[id]--; d.running[id] == 0 {
			delete(d.running, id)
		}
	}
}

// runs tells whether a run is executed here.
func (d *doubts) runs(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.running[id] > 0
}

// broke notes that a run ended with an error.
func (d *doubts) broke(k store.RunKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken[k] = true
}

// allBroken are the runs that ended with an error since the last call.
func (d *doubts) allBroken() []store.RunKey {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := slices.Collect(maps.Keys(d.broken))
	clear(d.broken)

	return out
}

func (d *doubts) add(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.since[id]; !known {
		d.since[id] = time.Time{}
	}
}

// some are at most n that there are doubts about.
func (d *doubts) some(n int) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for id := range d.since {
		if len(out) == n {
			break
		}
		out = append(out, id)
	}

	return out
}

// idle takes those of the ids that are kept as under way here, and returns those that have been so for a while and were not executed. The
// others are no longer in doubt, unless they were seen so for the first time: DBOS keeps a run as under way a moment before it executes it.
func (d *doubts) idle(ids, kept []string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, id := range ids {
		since := d.since[id]
		switch {
		case d.running[id] > 0 || !slices.Contains(kept, id):
			delete(d.since, id)
		case since.IsZero():
			d.since[id] = time.Now()
		case time.Since(since) >= doubtTime:
			out = append(out, id)
		}
	}

	return out
}

// settled forgets them.
func (d *doubts) settled(ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.since, id)
	}
}

// mend begins runs anew that ended with an error, without waiting for the sweep.
func (p *Pipeline) mend(ctx context.Context) {
	for _, k := range p.doubts.allBroken() {
		row, err := p.cfg.Store.Run(ctx, k)
		if errors.Is(err, store.ErrUnknown) {
			continue
		}
		var states map[string]dbos.WorkflowStatusType
		if err == nil {
			states, err = p.engine.states([]store.Run{row})
		}
		if err == nil && row.EndedAt.IsZero() {
			err = p.renew(ctx, row, states)
		}
		early := false // its end is not kept yet, or never will be
		for id, state := range states {
			if state == dbos.WorkflowStatusPending && row.EndedAt.IsZero() && !p.doubts.runs(id) {
				early = true
				p.doubts.add(id)
			}
		}
		if err != nil || early {
			p.doubts.broke(k)
		}
	}
}

// settleDoubts has those runs go on that are kept as under way here and are not. One whose beginning was not kept at all is begun by the
// outbox.
func (p *Pipeline) settleDoubts(ctx context.Context) {
	ids := p.doubts.some(sweepBatch)
	if len(ids) == 0 {
		return
	}
	if err := p.resume(ctx, ids); err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "runs that may not have begun can't be looked at", slog.Int("runs", len(ids)), slog.Any("error", err))
	}
}

func (p *Pipeline) resume(ctx context.Context, ids []string) error {
	all, err := dbos.ListWorkflows(p.engine.dbos, dbos.WithFilterWorkflowIDs(ids...), dbos.WithFilterStatus(dbos.WorkflowStatusPending),
		dbos.WithFilterExecutorIDs(p.engine.name), dbos.WithFilterLoadInput(false), dbos.WithFilterLoadOutput(false))
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	kept := make([]string, 0, len(all))
	for _, w := range all {
		kept = append(kept, w.ID)
	}
	idle := p.doubts.idle(ids, kept)
	if len(idle) == 0 {
		return nil
	}
	p.log.WarnContext(ctx, "runs that were begun and not executed go on", slog.Any("runs", idle))
	if _, err := dbos.ResumeWorkflows[store.Status](p.engine.dbos, idle); err != nil {
		return fmt.Errorf("resume runs: %w", err)
	}
	p.doubts.settled(idle)

	return nil
}
