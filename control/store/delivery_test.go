package store_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/pgtest"
)

var eventCount = flag.Int("events", 100, "events of TestDeliveredOften; 100000 is the whole run")

const (
	// deliveries is how often each event arrives, all at the same moment; sources is over how many processes' connections.
	deliveries = 5
	sources    = 3
	// eventsAtOnce is how many events are on their way at the same time.
	eventsAtOnce = 12
)

// TestDeliveredOften: each event, a result, arrives five times at once from three sources. Credit, notice, outcome and timeline have it
// once, and all but one of the five are told that they repeat.
func TestDeliveredOftenSQLite(t *testing.T) {
	t.Parallel()
	deliverOften(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
}

func TestDeliveredOftenPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	t.Run("events", func(t *testing.T) { deliverOften(t, server.Database()) })
}

func deliverOften(t *testing.T, url string) {
	t.Helper()
	stores := slices.Repeat([]store.Store{open(t, url, nil)}, sources)
	if strings.HasPrefix(url, "postgres") { // SQLite is for one process
		for i := range sources - 1 {
			stores[i+1] = open(t, url, nil)
		}
	}
	n := *eventCount
	var next, fresh, repeats atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range eventsAtOnce {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n && !t.Failed(); i = int(next.Add(1)) {
				post, err := underWay(t.Context(), stores[i%sources], fmt.Sprintf("an_%d", i), "")
				if err != nil {
					t.Error(err)

					return
				}
				f, r := deliver(t, stores, post)
				fresh.Add(f)
				repeats.Add(r)
			}
		})
	}
	all.Wait()
	t.Logf("%d events, %d deliveries in %s", n, n*deliveries, time.Since(begin).Round(time.Millisecond))
	if fresh.Load() != int64(n) || repeats.Load() != int64(n*(deliveries-1)) {
		t.Errorf("%d counted, %d repeated", fresh.Load(), repeats.Load())
	}
	checkOnce(t, stores[0], int64(n))
}

// deliver lets the event arrive and tells how many arrivals counted and how many were told that they repeat.
func deliver(t *testing.T, stores []store.Store, post store.ResultPost) (int64, int64) {
	t.Helper()
	var fresh, repeats atomic.Int64
	var all sync.WaitGroup
	for i := range deliveries {
		all.Go(func() {
			v, err := stores[i%sources].RecordResult(t.Context(), post)
			switch {
			case err != nil || v.Decision != store.DecisionAccepted || v.Status != store.StatusDelivered:
				t.Errorf("%+v, %v", v, err)
			case v.Repeat:
				repeats.Add(1)
			default:
				fresh.Add(1)
			}
		})
	}
	all.Wait()

	return fresh.Load(), repeats.Load()
}

// checkOnce counts what was written.
func checkOnce(t *testing.T, s store.Store, n int64) {
	t.Helper()
	sizes, err := s.Sizes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, size := range sizes {
		got[size.Table] = size.Rows
	}
	a, err := s.Account(t.Context(), store.DefaultAccount)
	if err != nil {
		t.Fatal(err)
	}
	got["settled"], got["reserved"], got["refunded"] = a.Settled, a.Reserved, a.Refunded
	backlog, err := s.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got["notices"], got["outcomes"] = backlog[store.OutboxNotice].Entries, backlog[store.OutboxSettled].Entries
	want := map[string]int64{
		"settled": n, "reserved": 0, "refunded": 0, "notices": n, "outcomes": n,
		// created, submitted, redeemed, artifact granted, delivered; reserve, settle, notice.
		"analyses": n, "events": 5 * n, "ledger": 3 * n, "webhook_ids": n, "credits": n, "executions": n, "artifacts": n,
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			delete(got, name)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
