package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control/store"
)

// fleetLease is the length of the fleet's lease in the suite.
const fleetLease = 10 * time.Second

// lead asks for the lease and checks the answer.
func (b *Bundle) lead(t *testing.T, owner string, epoch int64, want bool, wantEpoch int64) {
	t.Helper()
	f, leads, err := b.FleetLead(b.ctx, owner, epoch, fleetLease)
	if err != nil || leads != want || f.Epoch != wantEpoch {
		t.Fatalf("%s with epoch %d: leads %v in epoch %d, %v; want %v, %d", owner, epoch, leads, f.Epoch, err, want, wantEpoch)
	}
}

// One owner at a time, each with an epoch of its own.
func testFleetLease(t *testing.T, b *Bundle) {
	b.lead(t, "a", 0, true, 1)
	b.lead(t, "b", 0, false, 1)
	b.Clock.Advance(fleetLease - time.Millisecond)
	b.lead(t, "b", 0, false, 1)
	b.lead(t, "a", 1, true, 1)
	b.Clock.Advance(fleetLease)
	// It ran out, but nobody has taken it.
	b.lead(t, "a", 1, true, 1)
	b.Clock.Advance(fleetLease)
	b.lead(t, "b", 0, true, 2)
	b.lead(t, "a", 1, false, 2)
	// A process that comes after another of the same name does not wait for the lease of the dead.
	b.lead(t, "b", 0, true, 3)
	b.lead(t, "b", 2, false, 3)
	// An epoch that is over gives nothing back.
	b.resign(t, 2)
	b.lead(t, "a", 0, false, 3)
	b.resign(t, 3)
	b.lead(t, "a", 0, true, 4)
}

func (b *Bundle) resign(t *testing.T, epoch int64) {
	t.Helper()
	if err := b.FleetResign(b.ctx, epoch); err != nil {
		t.Fatal(err)
	}
}

func testFleetLeaseParallel(t *testing.T, b *Bundle) {
	var leaders atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, leads, err := b.FleetLead(b.ctx, fmt.Sprintf("control-%d", i), 0, fleetLease)
			if err != nil {
				t.Error(err)
			}
			if leads {
				leaders.Add(1)
			}
		})
	}
	wg.Wait()
	if n := leaders.Load(); n != 1 {
		t.Fatalf("%d leaders", n)
	}
}

// Demand is what is queued, under a lease, or left behind by a silent worker; what uploads or is decided is none.
func testFleetDemand(t *testing.T, b *Bundle) {
	if _, _, err := b.CreateAnalysis(b.ctx, NewAnalysis("an_uploading")); err != nil {
		t.Fatal(err)
	}
	b.wantDemand(t, store.FleetDemand{})
	for _, id := range []string{"an_1", "an_2", "an_3", "an_4", "an_5"} {
		b.Queued(t, id)
	}
	b.wantDemand(t, store.FleetDemand{Waiting: 5})
	first := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	b.Clock.Advance(Lease / 2)
	b.MustRedeem(t, "an_2", QueueHolder("w2", "an_2", 1))
	b.MustRedeem(t, "an_3", HTTPHolder("w2", "an_3"))
	b.wantDemand(t, store.FleetDemand{Waiting: 2, Working: 3, Busy: []string{"w1", "w2"}})
	b.Clock.Advance(Lease / 2)
	b.wantDemand(t, store.FleetDemand{Waiting: 3, Working: 2, Busy: []string{"w2"}})
	b.MustRecord(t, b.Completed(t, first), store.DecisionAccepted)
	if _, err := b.Cancel(b.ctx, "an_2"); err != nil {
		t.Fatal(err)
	}
	b.wantDemand(t, store.FleetDemand{Waiting: 2, Working: 1, Busy: []string{"w2"}})

	until := b.Clock.Now().Add(time.Minute)
	for _, d := range []time.Duration{0, -time.Second} {
		if err := b.FleetWake(b.ctx, until.Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	b.wantDemand(t, store.FleetDemand{Waiting: 2, Working: 1, Busy: []string{"w2"}, WakeUntil: until})
}

func (b *Bundle) wantDemand(t *testing.T, want store.FleetDemand) {
	t.Helper()
	want.At = b.Clock.Now()
	got, err := b.FleetDemand(b.ctx)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v, demand (-want +got):\n%s", err, diff)
	}
}

// Only the leader's word counts, and each of its changes is in the history.
func testFleetDecisions(t *testing.T, b *Bundle) {
	b.lead(t, "a", 0, true, 1)
	start, demand := b.Clock.Now(), store.FleetDemand{Waiting: 3, Working: 1}
	decision := store.FleetDecision{Epoch: 1, Desired: 2, Reason: "3 wait", NeededAt: start, Demand: demand}
	if err := b.FleetDecide(b.ctx, decision); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(time.Second)
	for range 2 {
		if err := b.FleetSeen(b.ctx, store.FleetSighting{Epoch: 1, Running: 2, Ready: 1, Demand: demand}); err != nil {
			t.Fatal(err)
		}
	}
	want := store.Fleet{
		Owner: "a", Epoch: 1, LeaseUntil: start.Add(fleetLease), Desired: 2, Reason: "3 wait", ChangedAt: start, NeededAt: start,
		Running: 2, Ready: 1, SeenAt: start.Add(time.Second),
	}
	got, err := b.Fleet(b.ctx)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v, fleet (-want +got):\n%s", err, diff)
	}
	points := []store.FleetPoint{
		{At: start, Desired: 2, Waiting: 3, Working: 1, Reason: "3 wait"},
		{At: start.Add(time.Second), Desired: 2, Running: 2, Ready: 1, Waiting: 3, Working: 1},
	}
	b.wantHistory(t, start, points...)
	b.wantHistory(t, start.Add(time.Second), points[1])

	b.Clock.Advance(fleetLease)
	if err := b.FleetDecide(b.ctx, decision); !errors.Is(err, store.ErrLost) {
		t.Fatalf("after the lease: %v", err)
	}
	b.lead(t, "b", 0, true, 2)
	if err := b.FleetSeen(b.ctx, store.FleetSighting{Epoch: 1}); !errors.Is(err, store.ErrLost) {
		t.Fatalf("after another took the lease: %v", err)
	}
	b.wantHistory(t, start, points...)
}

func (b *Bundle) wantHistory(t *testing.T, since time.Time, want ...store.FleetPoint) {
	t.Helper()
	got, err := b.FleetHistory(b.ctx, since, 10)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v, history (-want +got):\n%s", err, diff)
	}
}

// The newest points are read, and old ones go.
func testFleetHistory(t *testing.T, b *Bundle) {
	b.lead(t, "a", 0, true, 1)
	for n := range 25 {
		if err := b.FleetDecide(b.ctx, store.FleetDecision{Epoch: 1, Desired: n, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.FleetHistory(b.ctx, time.Time{}, 3)
	if err != nil || len(got) != 3 || got[0].Desired != 22 || got[2].Desired != 24 {
		t.Fatalf("%+v, %v", got, err)
	}
}
