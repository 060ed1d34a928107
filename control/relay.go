package control

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/posefleet/posefleet/control/pipeline"
	"github.com/posefleet/posefleet/control/store"
)

const (
	// relayInterval is how often the outbox is looked at without being told, for what other processes wrote.
	relayInterval = 2 * time.Second
	relayBatch    = 100
	// retryFirst and retryMost bound the pause after a failure, doubled each time.
	retryFirst = 250 * time.Millisecond
	retryMost  = 15 * time.Second
)

// relay carries out what the store has written into its outbox: at least once, in order, at once after the commit. It has a courier for
// each pace: a customer's server that answers slowly must not keep jobs from the queue.
type relay struct {
	couriers []*courier
}

// courier carries out the entries of some kinds, one after the other.
type courier struct {
	store store.Store
	kinds []store.OutboxKind
	carry func(context.Context, store.OutboxEntry) error
	// pauseMost bounds the pause after a failure, which begins with retryFirst and is doubled each time.
	pauseMost time.Duration
	log       *slog.Logger
	point     func(place string)
	// wake holds one token: several commits in a row need one look.
	wake chan struct{}
}

// destinations are who carries out what.
type destinations struct {
	queue    *dispatcher
	door     *door
	notifier *notifier
	runs     *pipeline.Pipeline
}

func newRelay(s store.Store, to destinations, cfg *Config, log *slog.Logger) *relay {
	inner := &carrier{dispatch: to.queue.dispatch, onSettled: cfg.OnSettled, hint: to.runs.Hint}
	start := func(pauseMost time.Duration, carry func(context.Context, store.OutboxEntry) error, kinds ...store.OutboxKind) *courier {
		return &courier{store: s, kinds: kinds, carry: carry, pauseMost: pauseMost, log: log, point: cfg.Point, wake: make(chan struct{}, 1)}
	}

	return &relay{couriers: []*courier{
		start(retryMost, inner.carryOut, store.OutboxDispatch, store.OutboxSettled),
		start(retryMost, to.runs.Start, store.OutboxRun),
		start(retryMost, to.door.dispatch, store.OutboxDoor),
		start(noticeRetryMost, to.notifier.deliver, store.OutboxNotice, store.OutboxRenotice),
	}}
}

// wakeUp tells the couriers that there may be work.
func (r *relay) wakeUp() {
	for _, c := range r.couriers {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// Run works until ctx ends.
func (r *relay) Run(ctx context.Context) {
	var couriers sync.WaitGroup
	for _, c := range r.couriers {
		couriers.Go(func() { c.run(ctx) })
	}
	couriers.Wait()
}

// run works until ctx ends.
func (r *courier) run(ctx context.Context) {
	tick := time.NewTicker(relayInterval)
	defer tick.Stop()
	for {
		if r.pass(ctx) {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-tick.C:
		}
	}
}

// pass carries out one batch and tells whether more is due at once.
func (r *courier) pass(ctx context.Context) bool {
	entries, err := r.store.Outbox(ctx, relayBatch, r.kinds...)
	if err != nil && ctx.Err() == nil {
		r.log.ErrorContext(ctx, "outbox can't be read", slog.Any("error", err))
	}
	failed := map[store.OutboxKind]bool{}
	for _, e := range entries {
		if ctx.Err() != nil {
			return false
		}
		// What failed once in this batch is likely to fail again, and slowly; the others of its kind stay due.
		if !failed[e.Kind] && !r.entry(ctx, e) {
			failed[e.Kind] = true
		}
	}

	return len(entries) == relayBatch && len(failed) == 0 && ctx.Err() == nil
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

// entry carries out one intent and tells whether the next of its kind may follow. The entry goes only afterwards: an end in between repeats
// the intent, which is harmless.
func (r *courier) entry(ctx context.Context, e store.OutboxEntry) bool {
	err := r.carry(ctx, e)
	if err == nil {
		r.point(string(e.Kind) + ":carried")
		err = r.store.OutboxDone(ctx, e)
	}
	if err == nil || ctx.Err() != nil {
		return true
	}
	pause := min(retryFirst<<min(e.Tries, 20), r.pauseMost)
	level, alone := slog.LevelWarn, false
	if later, ok := errors.AsType[*laterError](err); ok {
		pause, level, alone = later.after, slog.LevelInfo, later.alone
	}
	r.log.Log(ctx, level, "outbox entry is tried again", slog.String("analysis_id", e.AnalysisID), slog.String("kind", string(e.Kind)),
		slog.Int("tries", e.Tries+1), slog.Duration("pause", pause), slog.Any("error", err))
	if err := r.store.OutboxFailed(ctx, e, pause); err != nil && ctx.Err() == nil {
		r.log.ErrorContext(ctx, "outbox can't be written", slog.Any("error", err))
	}

	return alone
}

// carrier carries out what happens inside: it takes no longer than Redis and our own code do.
type carrier struct {
	dispatch  func(ctx context.Context, id string, reason store.DispatchReason) error
	onSettled func(context.Context, Settled) error
	hint      func(analysisID string, round int64)
}

func (c *carrier) carryOut(ctx context.Context, e store.OutboxEntry) error {
	if e.Kind == store.OutboxSettled {
		c.hint(e.AnalysisID, e.Round)

		return c.onSettled(ctx, Settled{AnalysisID: e.AnalysisID, Outcome: store.Status(e.Reason)})
	}

	return c.dispatch(ctx, e.AnalysisID, store.DispatchReason(e.Reason))
}
