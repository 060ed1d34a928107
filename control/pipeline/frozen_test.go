package pipeline

import (
	"log/slog"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/pgtest"
)

// The server ends transactions of the engine whose process stands still, too; a limit that somebody has set stays.
func TestEngineLimitsIdleTransactions(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for more, want := range map[string]string{"": "10s", "&idle_in_transaction_session_timeout=3000": "3s"} {
		p := &Pipeline{standstills: newStandstills(slog.New(slog.DiscardHandler)), waiting: waiting{runs: map[store.RunKey]chan struct{}{}}, doubts: newDoubts()}
		e, err := openEngine(t.Context(), server.Database()+more, time.Minute, slog.New(slog.DiscardHandler), p.analysis)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := e.pool.QueryRow(t.Context(), `SHOW idle_in_transaction_session_timeout`).Scan(&got); err != nil || got != want {
			t.Errorf("%q, %v, want %s", got, err, want)
		}
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}
}
