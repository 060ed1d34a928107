package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
)

// Dispatched makes a submitted analysis with an entry in the outbox.
func (b *Bundle) Dispatched(t *testing.T, id string) {
	t.Helper()
	n := NewAnalysis(id)
	if _, _, err := b.CreateAnalysis(b.ctx, n); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Submit(b.ctx, store.Submission{ID: id, Clips: n.Clips, Dispatch: true}); err != nil {
		t.Fatal(err)
	}
}

// claim takes on dispatches and returns their entries, of which there must be those of these analyses and no others.
func (b *Bundle) claim(t *testing.T, c store.OutboxClaim, want ...string) []store.OutboxEntry {
	t.Helper()
	c.Kinds, c.Lease = []store.OutboxKind{store.OutboxDispatch}, Lease
	all, err := b.ClaimOutbox(b.ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, e.AnalysisID)
		if e.Owner != c.Owner {
			t.Errorf("%+v claimed by %s", e, c.Owner)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s got %v, want %v", c.Owner, got, want)
	}

	return all
}

// An entry is one owner's until it is done, put off, given back, or the owner has been silent for too long.
func testOutboxClaims(t *testing.T, b *Bundle) {
	for _, id := range []string{"an_1", "an_2", "an_3"} {
		b.Dispatched(t, id)
	}
	a, other := store.OutboxClaim{Owner: "a", Limit: 2}, store.OutboxClaim{Owner: "b", Limit: 10}
	mine := b.claim(t, a, "an_1", "an_2")
	b.claim(t, other, "an_3")
	b.claim(t, a)
	if all, err := b.Outbox(b.ctx, 10); err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v: what is claimed is there still", all, err)
	}

	// The owner of the first renews, that of the other two falls silent.
	b.Clock.Advance(Lease / 2)
	if err := b.RenewOutbox(b.ctx, "a", Lease, []int64{mine[0].ID}); err != nil {
		t.Fatal(err)
	}
	b.claim(t, store.OutboxClaim{Owner: "c", Limit: 10})
	b.Clock.Advance(Lease / 2)
	b.claim(t, store.OutboxClaim{Owner: "c", Limit: 10}, "an_2", "an_3")

	// What the former owner says of an entry that is another's does not put it off; that it is done counts, since it is.
	if err := b.OutboxFailed(b.ctx, mine[1], time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := b.ReleaseOutbox(b.ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := b.OutboxDone(b.ctx, mine[1]); err != nil {
		t.Fatal(err)
	}
	b.claim(t, other, "an_1")
	if err := b.ReleaseOutbox(b.ctx, "c"); err != nil {
		t.Fatal(err)
	}
	last := b.claim(t, a, "an_3")
	if err := b.OutboxFailed(b.ctx, last[0], time.Second); err != nil {
		t.Fatal(err)
	}
	b.claim(t, a)
	b.Clock.Advance(time.Second)
	b.claim(t, store.OutboxClaim{Owner: "a", Limit: 10, Fresh: true})
	if again := b.claim(t, a, "an_3"); again[0].Tries != 1 {
		t.Errorf("%+v", again)
	}
}

// Of one analysis the older entry has to go before the next has its turn, also while it is put off.
func testOutboxOrder(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	for i := range 2 {
		l := LeaseOf(b.MustRedeem(t, "an_1", HTTPHolder(fmt.Sprint("w", i), "an_1")))
		b.MustRecord(t, Interrupted(l), store.DecisionAccepted)
	}
	b.Dispatched(t, "an_2")
	c := store.OutboxClaim{Owner: "a", Limit: 10}
	first := b.claim(t, c, "an_1", "an_2")
	b.claim(t, c)
	if err := b.OutboxFailed(b.ctx, first[0], time.Minute); err != nil {
		t.Fatal(err)
	}
	b.claim(t, c)
	b.Clock.Advance(time.Minute)
	if err := b.RenewOutbox(b.ctx, "a", Lease, []int64{first[1].ID}); err != nil {
		t.Fatal(err)
	}
	if again := b.claim(t, c, "an_1"); again[0].ID != first[0].ID {
		t.Errorf("%+v, want %+v", again, first[0])
	}
	if err := b.OutboxDone(b.ctx, first[0]); err != nil {
		t.Fatal(err)
	}
	if next := b.claim(t, c, "an_1"); next[0].ID == first[0].ID {
		t.Errorf("%+v", next)
	}
}

// Many owners at once: each entry is one's.
func testOutboxParallel(t *testing.T, b *Bundle) {
	const entries, owners = 60, 8
	for i := range entries {
		b.Dispatched(t, fmt.Sprintf("an_%d", i))
	}
	n, twice := Claimed(b.ctx, b.Store, owners)
	if twice != nil || n != entries {
		t.Errorf("%d entries claimed, %v", n, twice)
	}
}

// ErrClaimedTwice says that two owners had one entry at the same time.
var ErrClaimedTwice = errors.New("claimed twice")

// Claimed lets owners claim dispatches at once until nothing is left; it returns how many were claimed, or ErrClaimedTwice.
func Claimed(ctx context.Context, s store.Store, owners int) (int, error) {
	var mu sync.Mutex
	had := map[int64]string{}
	err := errors.Join(parallel(owners, func(i int) error {
		c := store.OutboxClaim{Owner: fmt.Sprint("owner", i), Kinds: []store.OutboxKind{store.OutboxDispatch}, Limit: 4, Lease: time.Hour}
		for {
			all, err := s.ClaimOutbox(ctx, c)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, e := range all {
				if o := had[e.ID]; o != "" {
					err = errors.Join(err, fmt.Errorf("%s has what %s has: %w", c.Owner, o, ErrClaimedTwice))
				}
				had[e.ID] = c.Owner
			}
			mu.Unlock()
			if err != nil || len(all) == 0 && !anyLeft(ctx, s) {
				return err
			}
		}
	})...)

	return len(had), err
}

// anyLeft tells whether there is an entry that nobody has: one that looks while another claims may find nothing.
func anyLeft(ctx context.Context, s store.Store) bool {
	all, err := s.Outbox(ctx, 1000, store.OutboxDispatch)

	return err == nil && slices.ContainsFunc(all, func(e store.OutboxEntry) bool { return e.Owner == "" })
}
