package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

const (
	// outboxLease is how long the entries of a control plane that has died wait for another one; outboxRenew is how often one that lives says so.
	outboxLease = 6 * time.Second
	outboxRenew = 1500 * time.Millisecond
	// outboxGrace bounds the giving back of entries at the end.
	outboxGrace = 2 * time.Second
	// unreadAgain is how often an outbox that stays unreadable is said to be so.
	unreadAgain = time.Minute
	// probeMost bounds the pause between two tries while everything fails.
	probeMost = 2 * time.Second
)

// carry carries out an entry of the outbox.
type carry func(context.Context, store.OutboxEntry) error

// courier carries out the entries of a kind, several at a time, each on a goroutine of its own. It claims an entry before, so that another
// control plane on the same database leaves it alone, and an entry only when there is none before it for its analysis.
//
//	        claim                      carry                  done
//	due ───────────▶ in flight ───────────────────▶ carried ───────▶ gone
//	 ▲  ▲               │   │ failed: pause, doubled each time
//	 │  └───────────────┼───┘
//	 └──────────────────┘ the process ends: given back, or free when the claim is over
//
// What was tried before has no more than half of the slots: entries that hang each time do not keep those that are new from going. When
// everything fails, or the receiver asks to be left alone, one entry at a time is tried until one gets through.
type courier struct {
	store store.Store
	kind  store.OutboxKind
	carry carry
	// slots is how many entries are in flight at most.
	slots int
	// pauseMost bounds the pause after a failure, which begins with retryFirst and is doubled each time.
	pauseMost time.Duration
	log       *slog.Logger
	point     func(place string)
	// owner is this courier's name on its claims.
	owner string
	// wake holds one token: several commits in a row need one look.
	wake chan struct{}
}

// roster is what a courier knows while it runs; it belongs to the goroutine of run.
type roster struct {
	// inFlight are the entries that are being carried out, by id, again how many of them were tried before.
	inFlight map[int64]store.OutboxEntry
	again    int
	ended    chan ended
	// failures counts those since the last entry that got through; probing: one entry at a time, not before hold.
	failures int
	probing  bool
	hold     time.Time
	// unread is when the log was told last that the outbox can't be read, or zero while it can.
	unread time.Time
}

// ended is how the carrying out of an entry ended.
type ended struct {
	entry store.OutboxEntry
	kind  end
}

// end is what the end of one entry says about the others.
type end int

const (
	// endCarried: the receiver takes them. endFailed: perhaps not. endClosed: the receiver does not want any now. endAlone: nothing.
	endCarried end = iota
	endFailed
	endClosed
	endAlone
)

// run works until ctx ends. The goroutines that it starts end with their entries, whose carrying out ends with ctx.
func (c *courier) run(ctx context.Context) {
	r := &roster{inFlight: map[int64]store.OutboxEntry{}, ended: make(chan ended, c.slots)}
	var flights sync.WaitGroup
	defer func() {
		flights.Wait()
		c.release(ctx)
	}()
	tick, renew := time.NewTicker(relayInterval), time.NewTicker(outboxRenew)
	defer tick.Stop()
	defer renew.Stop()
	held := time.NewTimer(0)
	defer held.Stop()
	for {
		for c.pass(ctx, r, &flights) {
		}
		if wait := time.Until(r.hold); wait > 0 {
			held.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-tick.C:
		case <-held.C:
		case e := <-r.ended:
			r.settle(e, c.slots)
		case <-renew.C:
			c.renew(ctx, slices.Collect(maps.Keys(r.inFlight)))
		}
	}
}

// pass takes on what there is room for and tells whether there may be more.
func (c *courier) pass(ctx context.Context, r *roster, flights *sync.WaitGroup) bool {
	limit, fresh := r.room(c.slots)
	if limit == 0 || ctx.Err() != nil {
		return false
	}
	entries, err := c.store.ClaimOutbox(ctx, store.OutboxClaim{Owner: c.owner, Kinds: []store.OutboxKind{c.kind}, Limit: limit, Lease: outboxLease, Fresh: fresh})
	if err == nil {
		r.unread = time.Time{}
	} else if ctx.Err() == nil && time.Since(r.unread) >= unreadAgain { // a look each second or two, of each courier
		r.unread = time.Now()
		c.log.ErrorContext(ctx, "outbox can't be read", slog.String("kind", string(c.kind)), slog.Any("error", err))
	}
	begun := 0
	for _, e := range entries {
		if _, twice := r.inFlight[e.ID]; twice {
			continue // our own claim was over: the database was away for long
		}
		begun++
		r.inFlight[e.ID] = e
		if e.Tries > 0 {
			r.again++
		}
		flights.Go(func() { r.ended <- ended{e, c.entry(ctx, e)} })
	}
	if r.probing && begun > 0 {
		r.hold = time.Now().Add(min(retryFirst<<min(r.failures/c.slots, 10), probeMost))
	}

	// Where old ones have no room any more, new ones may.
	return begun == limit
}

// room is how many entries may be taken on now, and whether only such as were never tried.
func (r *roster) room(slots int) (limit int, fresh bool) {
	if time.Now().Before(r.hold) {
		return 0, false
	}
	free, old := slots-len(r.inFlight), max(slots/2, 1)-r.again
	if r.probing {
		free = min(free, 1)
	}
	if old <= 0 {
		return free, true
	}

	return min(free, old), false
}

// settle notes the end of an entry.
func (r *roster) settle(e ended, slots int) {
	delete(r.inFlight, e.entry.ID)
	if e.entry.Tries > 0 {
		r.again--
	}
	switch e.kind {
	case endCarried:
		r.failures, r.probing, r.hold = 0, false, time.Time{}
	case endFailed:
		r.failures++
		r.probing = r.probing || r.failures >= slots
	case endClosed:
		r.failures++
		r.probing = true
	case endAlone:
	}
	if r.probing && r.hold.IsZero() {
		r.hold = time.Now().Add(retryFirst)
	}
}

// laterError is no fault: the other side asked to be left alone for a while.
type laterError struct {
	after time.Duration
	why   string
	// alone: it says nothing about the other entries of its kind.
	alone bool
}

// Error tells why.
func (e *laterError) Error() string { return e.why }

// entry carries out one intent. The entry goes only afterwards: an end in between repeats the intent, which is harmless.
func (c *courier) entry(ctx context.Context, e store.OutboxEntry) end {
	err := c.carried(ctx, e)
	if err == nil {
		c.point(string(e.Kind) + ":carried")
		err = c.store.OutboxDone(ctx, e)
	}
	if err == nil {
		return endCarried
	}
	if ctx.Err() != nil {
		return endAlone
	}
	pause := min(retryFirst<<min(e.Tries, 20), c.pauseMost)
	level, kind := slog.LevelWarn, endFailed
	if later, ok := errors.AsType[*laterError](err); ok {
		pause, level, kind = later.after, slog.LevelInfo, endClosed
		if later.alone {
			kind = endAlone
		}
	}
	c.log.Log(ctx, level, "outbox entry is tried again", slog.String("analysis_id", e.AnalysisID), slog.String("kind", string(e.Kind)),
		slog.Int("tries", e.Tries+1), slog.Int64("pause_ms", pause.Milliseconds()), slog.Any("error", err))
	if err := c.store.OutboxFailed(ctx, e, pause); err != nil && ctx.Err() == nil {
		c.log.ErrorContext(ctx, "outbox can't be written", slog.Any("error", err))
	}

	return kind
}

// carried carries out the intent and turns a panic into an error: an entry that brings one about each time would otherwise end each process that
// takes it on, and with it all other work.
func (c *courier) carried(ctx context.Context, e store.OutboxEntry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()

	return c.carry(ctx, e)
}

// renew keeps the claims. One that is over is another's work then, which is harmless.
func (c *courier) renew(ctx context.Context, ids []int64) {
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outboxGrace)
	defer cancel()
	if err := c.store.RenewOutbox(ctx, c.owner, outboxLease, ids); err != nil && ctx.Err() == nil {
		c.log.ErrorContext(ctx, "outbox can't be written", slog.Any("error", err))
	}
}

// release gives back what was not carried out, so that the next process need not wait for it.
func (c *courier) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outboxGrace)
	defer cancel()
	if err := c.store.ReleaseOutbox(ctx, c.owner); err != nil {
		c.log.WarnContext(ctx, "outbox can't be given back; it is free in a while", slog.Any("error", err))
	}
}

// releaseOrphans frees what the process before has left, for all couriers, before they begin.
func (c *courier) releaseOrphans(ctx context.Context) {
	if err := c.store.ReleaseOutbox(ctx, ""); err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "outbox can't be given back; it is free in a while", slog.Any("error", err))
	}
}
