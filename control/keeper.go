package control

import (
	"context"
	"log/slog"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

const (
	keepInterval = 15 * time.Second
	keepBatch    = 500
	// lapseGrace is how long a lease of the HTTP door may be over before the analysis goes to the queue.
	lapseGrace = 30 * time.Second
	// uploadPatience is how long an upload may take before the analysis is given up and its credit given back. Signed URLs do not
	// live as long; a client that asks again gets new ones.
	uploadPatience = 24 * time.Hour
	// webhookMemory is how long webhook ids are known: longer than any sender repeats.
	webhookMemory = 8 * 24 * time.Hour
)

// keeper gives analyses of silent workers back, gives up uploads that nobody confirms, and forgets what can't come again.
type keeper struct {
	store store.Store
	now   func() time.Time
	relay *relay
	log   *slog.Logger
}

// Run works until ctx ends.
func (k *keeper) Run(ctx context.Context) {
	tick := time.NewTicker(keepInterval)
	defer tick.Stop()
	for {
		k.pass(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (k *keeper) pass(ctx context.Context) {
	n := k.batches(ctx, "lapsed leases", func() (int, error) { return k.store.RequeueLapsed(ctx, lapseGrace, keepBatch) })
	if n > 0 {
		k.log.WarnContext(ctx, "leases of the HTTP door lapsed; their analyses go to the queue", slog.Int("analyses", n))
		k.relay.wakeUp()
	}
	n = k.batches(ctx, "abandoned uploads", func() (int, error) { return k.store.ExpireUploads(ctx, k.now().Add(-uploadPatience), keepBatch) })
	if n > 0 {
		k.log.InfoContext(ctx, "uploads never confirmed; their analyses are cancelled and refunded", slog.Int("analyses", n))
		k.relay.wakeUp()
	}
	k.batches(ctx, "expired ledger entries", func() (int, error) { return k.store.ForgetLedger(ctx, keepBatch) })
	k.batches(ctx, "old webhook ids", func() (int, error) { return k.store.ForgetWebhooks(ctx, k.now().Add(-webhookMemory), keepBatch) })
}

// batches repeats fn while it finds a full batch, so that no transaction is long.
func (k *keeper) batches(ctx context.Context, what string, fn func() (int, error)) int {
	for total := 0; ; {
		n, err := fn()
		if err != nil && ctx.Err() == nil {
			k.log.ErrorContext(ctx, "upkeep failed", slog.String("of", what), slog.Any("error", err))
		}
		if total += n; n < keepBatch || err != nil {
			return total
		}
	}
}
