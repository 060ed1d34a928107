package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
	"github.com/posefleet/posefleet/internal/pgtest"
)

// Postgres is killed and started again while results come in. Who posts them repeats until there is an answer, as workers do: each result counts
// once, whether its first answer got lost before or after its commit.
func TestPostgresRestartsUnderResults(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	b := storetest.NewBundle(t, func(t *testing.T, now func() time.Time) store.Store {
		t.Helper()

		return open(t, server.Database(), now)
	})
	const analyses, posters = 60, 6
	posts := make(chan store.ResultPost, analyses)
	for i := range analyses {
		id := fmt.Sprintf("an_%d", i)
		b.Queued(t, id)
		posts <- b.Completed(t, storetest.LeaseOf(b.MustRedeem(t, id, storetest.QueueHolder("w1", id, 1))))
	}
	close(posts)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	begun := make(chan struct{}, analyses)
	var all sync.WaitGroup
	for range posters {
		all.Go(func() {
			for p := range posts {
				begun <- struct{}{}
				if err := recordUntilAnswered(ctx, b, p); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 * posters { // some have been recorded, most have not
		<-begun
	}
	server.Kill()
	server.Restart()
	all.Wait()
	for i := range analyses {
		id := fmt.Sprintf("an_%d", i)
		b.WantStatus(t, id, store.StatusDelivered)
		entries, err := b.Ledger(t.Context(), id)
		if err != nil || len(entries) != 3 {
			t.Errorf("%s: %+v, %v, want its reservation, its settlement and its notice", id, entries, err)
		}
	}
	notices, err := b.Outbox(t.Context(), 2*analyses, store.OutboxNotice)
	if err != nil || len(notices) != analyses {
		t.Errorf("%d notices, %v", len(notices), err)
	}
}

// recordUntilAnswered posts a result until it is answered with a decision.
func recordUntilAnswered(ctx context.Context, b *storetest.Bundle, p store.ResultPost) error {
	for {
		v, err := b.RecordResult(ctx, p)
		if err == nil {
			if v.Decision != store.DecisionAccepted {
				return fmt.Errorf("%s: %s", p.WebhookID, v.Decision)
			}

			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", p.WebhookID, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
