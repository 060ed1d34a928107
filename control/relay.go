package control

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/posefleet/posefleet/control/pipeline"
	"github.com/posefleet/posefleet/control/store"
)

const (
	// relayInterval is how often the outbox is looked at without being told, for what other processes wrote.
	relayInterval = 2 * time.Second
	// retryFirst and retryMost bound the pause after a failure, doubled each time.
	retryFirst = 250 * time.Millisecond
	retryMost  = 15 * time.Second
	// How many entries of a kind are carried out at the same time. Those that go to other people's servers may each take as long as a request may.
	dispatchesAtOnce = 8
	outcomesAtOnce   = 8
	runsAtOnce       = 4
	doorsAtOnce      = 16
	noticesAtOnce    = 16
	renoticesAtOnce  = 4
)

// relay carries out what the store has written into its outbox: at least once, in the order of the analysis, at once after the commit. It has a
// courier for each kind of receiver: a customer's server that answers slowly must not keep jobs from the queue.
type relay struct {
	couriers []*courier
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
	start := func(slots int, pauseMost time.Duration, carry carry, kind store.OutboxKind) *courier {
		return &courier{
			store: s, kind: kind, carry: carry, slots: slots, pauseMost: pauseMost, log: log, point: cfg.Point,
			owner: rand.Text(), wake: make(chan struct{}, 1),
		}
	}

	return &relay{couriers: []*courier{
		start(dispatchesAtOnce, retryMost, inner.carryOut, store.OutboxDispatch),
		start(outcomesAtOnce, retryMost, inner.carryOut, store.OutboxSettled),
		start(runsAtOnce, retryMost, to.runs.Start, store.OutboxRun),
		start(doorsAtOnce, retryMost, to.door.dispatch, store.OutboxDoor),
		start(noticesAtOnce, noticeRetryMost, to.notifier.deliver, store.OutboxNotice),
		start(renoticesAtOnce, noticeRetryMost, to.notifier.deliver, store.OutboxRenotice),
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
	r.couriers[0].releaseOrphans(ctx)
	var couriers sync.WaitGroup
	for _, c := range r.couriers {
		couriers.Go(func() { c.run(ctx) })
	}
	couriers.Wait()
}

// carrier carries out what happens inside: it takes no longer than Redis and our own code do.
type carrier struct {
	dispatch  func(ctx context.Context, id string) error
	onSettled func(context.Context, Settled) error
	hint      func(analysisID string, round int64)
}

func (c *carrier) carryOut(ctx context.Context, e store.OutboxEntry) error {
	if e.Kind == store.OutboxSettled {
		c.hint(e.AnalysisID, e.Round)

		return c.onSettled(ctx, Settled{AnalysisID: e.AnalysisID, Outcome: store.Status(e.Reason)})
	}

	return c.dispatch(ctx, e.AnalysisID)
}
