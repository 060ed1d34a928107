package rig_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/study"
	"github.com/posefleet/posefleet/control/study/rig"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/queue"
)

func TestMain(m *testing.M) {
	queue.RouteDriverLog(slog.New(slog.DiscardHandler)) // servers are killed on purpose here
	goleak.VerifyTestMain(m)
}

// TestRealRepeats: a small day in the failure window on either database. Replies are lost, masters die and workers are lost as often as the
// generator says; each fault brings its event again, and each key has its effects exactly once whatever came.
func TestRealRepeats(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"SQLite", "Postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			cfg := rig.Config{RedisServer: need.Program(t, "redis-server"), Dir: t.TempDir(), Workers: 6, Model: study.Window()}
			cfg.Model.Shipments = 12
			cfg.Database = study.SQLite(t.TempDir())
			if database == "Postgres" {
				cfg.Database = study.Postgres(pgtest.Start(t).Database())
			}
			checkWindow(t, cfg)
		})
	}
}

func checkWindow(t *testing.T, cfg rig.Config) {
	t.Helper()
	got, err := rig.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Check(); err != nil {
		t.Error(err)
	}
	model := cfg.Model.Run()
	if made := got.Made; made.LostReplies != model.Sources[study.CarrierRetry] || made.LostWorkers != model.Sources[study.Redelivery] || made.Failovers == 0 {
		t.Errorf("made %+v, the generator asks for %v", made, model.Sources)
	}
	// A busy machine may add repeats of its own; none is lost.
	for i, n := range []int{got.Made.LostReplies, max(got.Made.Unseen, model.Sources[study.Replay]), got.Made.LostWorkers} {
		if got.Sources[i] < n {
			t.Errorf("%s: %d repeats of %d faults", study.Sources()[i].Name, got.Sources[i], n)
		}
	}
	if got.InvoiceLines == 0 || got.Wanted <= 12*9 {
		t.Errorf("without a ledger: %d invoice lines twice, %d effects", got.InvoiceLines, got.Wanted)
	}
}

// TestQuietDay: where no fault is made nothing comes twice. The locks last so long that none runs out on a busy machine.
func TestQuietDay(t *testing.T) {
	t.Parallel()
	cfg := rig.Config{RedisServer: need.Program(t, "redis-server"), Dir: t.TempDir(), Workers: 2, Lock: 30 * time.Second, Model: study.Quiet()}
	cfg.Model.Shipments, cfg.Database = 10, study.SQLite(t.TempDir())
	got, err := rig.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Check(); err != nil {
		t.Error(err)
	}
	if got.Deliveries != 70 || got.Made != (study.Faults{}) || got.InvoiceLines != 0 {
		t.Errorf("%+v", got)
	}
}

// TestRunFaults: what is wrong is told, and nothing stays behind.
func TestRunFaults(t *testing.T) {
	t.Parallel()
	good := rig.Config{Dir: t.TempDir(), Model: study.Quiet(), Database: study.SQLite(t.TempDir())}
	tests := []struct {
		name   string
		change func(*rig.Config)
		want   string
	}{
		{"no database", func(c *rig.Config) { c.Database = study.Database{} }, "a database and shipments are needed"},
		{"one worker", func(c *rig.Config) { c.Workers = 1 }, "at least two workers"},
		{"short lock", func(c *rig.Config) { c.Lock = time.Millisecond }, "100 ms"},
		{"no redis-server", func(c *rig.Config) { c.RedisServer = "no-such-redis-server" }, "real failovers need redis-server"},
		{"no folder", func(c *rig.Config) { c.Database = study.SQLite(filepath.Join(c.Dir, "no", "where")) }, "open database"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := good
			tt.change(&cfg)
			if _, err := rig.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, not %q", err, tt.want)
			}
		})
	}
}

// TestRunEnds: a day that nobody wants to see the end of ends, and leaves nothing behind.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := rig.Config{RedisServer: need.Program(t, "redis-server"), Dir: t.TempDir(), Model: study.Window(), Database: study.SQLite(t.TempDir())}
	empty, opened := cfg.Database.Empty, 0
	cfg.Database.Empty = func(ctx context.Context) (store.Store, func() error, error) {
		if opened++; opened == len(study.Variants()) {
			defer cancel()
		}

		return empty(ctx)
	}
	if _, err := rig.Run(ctx, cfg); err == nil {
		t.Error("it went on")
	}
}
