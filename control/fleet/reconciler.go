package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

// Reconciler is the one actor that sets the number of workers. It is made by New and runs once.
type Reconciler struct {
	cfg    Config
	store  store.FleetStore
	driver Driver
	log    *slog.Logger
	// kick holds one token: several requests in a row need one pass.
	kick chan struct{}

	// What follows belongs to Run's goroutine.
	epoch     int64
	leads     bool      // as far as is known
	leadUntil time.Time // by our own clock; zero if the lease has to be asked for
	desired   int       // as in the row, which only the leader changes
	neededAt  time.Time // until when the work may have needed as many; the store's time
	needed    bool      // by the last reading, or as far as is known
	written   Seen      // as in the row
	writtenAt time.Time // our own clock
	seen      Seen
	seenAt    time.Time // our own clock; zero if the platform has not been looked at since the lead was taken
	ordered   int       // what the platform was asked for last
	orderedAt time.Time
	heldUntil time.Time // until when the platform is not asked again to spare workers
	faults    int
	complaint complaint
}

// complaint is what was said last of something that does not work.
type complaint struct {
	what string
	at   time.Time // our own clock
	// open: nothing has been said since of its being over.
	open bool
}

// New returns a reconciler of the fleet that the driver runs; without a driver it is one that somebody else looks after.
func New(cfg Config, s store.FleetStore, d Driver, log *slog.Logger) (*Reconciler, error) {
	if d == nil {
		d = fixed{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}

	return &Reconciler{cfg: cfg, store: s, driver: d, log: cmp.Or(log, slog.New(slog.DiscardHandler)), kick: make(chan struct{}, 1)}, nil
}

// Kick has the demand read now. It never blocks.
func (r *Reconciler) Kick() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Run decides until ctx ends. Then it lets another process decide, and ends what only this one can end.
func (r *Reconciler) Run(ctx context.Context) {
	if r.driver == (fixed{}) {
		<-ctx.Done()

		return
	}
	apart, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var driver sync.WaitGroup
	driver.Go(func() { r.driver.Run(apart) })
	for ctx.Err() == nil {
		r.wait(ctx, r.pass(ctx))
	}
	r.resign(ctx)
	stop()
	driver.Wait()
}

// wait waits for the time of the next pass, a kick or the end. A kick does not end the pause after a fault.
func (r *Reconciler) wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	kick := r.kick
	if r.faults > 0 {
		kick = nil
	}
	select {
	case <-kick:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// resign gives the lease back, so that the next one need not wait for its end.
func (r *Reconciler) resign(ctx context.Context) {
	if !r.leads {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakeMost)
	defer cancel()
	if err := r.store.FleetResign(ctx, r.epoch); err != nil {
		r.log.WarnContext(ctx, "fleet is not given back", slog.Any("error", err))
	}
}

// failed counts a fault, says so when it is a new one and once a minute while it stays, and returns the pause before the next try.
func (r *Reconciler) failed(ctx context.Context, what string, err error) time.Duration {
	if errors.Is(err, store.ErrLost) {
		r.leadUntil = time.Time{} // the next pass hears who has it

		return 0
	}
	r.faults++
	// What does not work is the news. The error's own text may be another one each time, as where a platform puts the request's number in it.
	if news := what != r.complaint.what || time.Since(r.complaint.at) >= complainAgain; news && ctx.Err() == nil {
		r.complaint = complaint{what: what, at: time.Now(), open: true}
		r.log.WarnContext(ctx, "fleet has to wait", slog.String("because", what), slog.Int("faults", r.faults), slog.Any("error", err))
	}

	return min(retryFirst<<min(r.faults-1, 10), retryMost)
}

// recovered tells that a pass came to its end, if something else was said before.
func (r *Reconciler) recovered(ctx context.Context) {
	r.faults = 0
	if r.complaint.open {
		r.complaint.open = false
		r.log.InfoContext(ctx, "fleet goes on", slog.String("after", r.complaint.what))
	}
}

// follow is what is left when another process decides.
func (r *Reconciler) follow(ctx context.Context) {
	if r.leads {
		r.log.InfoContext(ctx, "another process decides about the fleet", slog.Int64("epoch", r.epoch))
		r.driver.StandDown()
	}
	if r.epoch == 0 {
		r.epoch = -1 // from now on a lease of our own name is another's
	}
	r.leads, r.leadUntil, r.faults, r.complaint.open = false, time.Time{}, 0, false
}
