package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control/store"
)

// paying is an analysis that the account pays for.
func paying(id, account string) store.NewAnalysis {
	n := NewAnalysis(id)
	n.Account = account

	return n
}

// wantAccount compares what is left and what became of the credits of an account.
func (b *Bundle) wantAccount(t *testing.T, id string, left, reserved, settled, refunded int64) {
	t.Helper()
	a, err := b.Account(b.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(store.Account{ID: id, Credits: &left, Reserved: reserved, Settled: settled, Refunded: refunded}, a); d != "" {
		t.Fatal(d)
	}
}

// grant gives credits under a key and says whether they were to be new.
func (b *Bundle) grant(t *testing.T, account, key string, n int64, fresh bool) {
	t.Helper()
	_, now, err := b.GrantCredits(b.ctx, store.CreditGrant{Account: account, Key: key, Credits: n})
	if err != nil || now != fresh {
		t.Fatalf("grant %s: now %v, %v", key, now, err)
	}
}

// testCredits: one credit a submission, whoever asks how often; none without one.
func testCredits(t *testing.T, b *Bundle) {
	b.grant(t, "team", "order-1", 2, true)
	b.grant(t, "team", "order-1", 2, false)
	if _, _, err := b.GrantCredits(b.ctx, store.CreditGrant{Account: "team", Key: "order-1", Credits: 3}); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("the same key with another number: %v", err)
	}
	for range 3 {
		if _, _, err := b.CreateAnalysis(b.ctx, paying("an_1", "team")); err != nil {
			t.Fatal(err)
		}
	}
	b.wantAccount(t, "team", 1, 1, 0, 0)
	if _, _, err := b.CreateAnalysis(b.ctx, paying("an_1", "others")); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("the same analysis on another account: %v", err)
	}
	if _, _, err := b.CreateAnalysis(b.ctx, paying("an_2", "team")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.CreateAnalysis(b.ctx, paying("an_3", "team")); !errors.Is(err, store.ErrNoCredit) {
		t.Fatalf("without a credit: %v", err)
	}
	if _, err := b.Analysis(b.ctx, "an_3"); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("an analysis without a credit is there: %v", err)
	}
	for range 2 {
		if _, err := b.Cancel(b.ctx, "an_2"); err != nil {
			t.Fatal(err)
		}
	}
	b.wantAccount(t, "team", 1, 1, 0, 1)
}

// testCreditsLimitedLater: what an account spent before it had a limit is not given back to it as a credit that it never had.
func testCreditsLimitedLater(t *testing.T, b *Bundle) {
	create := func(id string) {
		t.Helper()
		if _, _, err := b.CreateAnalysis(b.ctx, paying(id, "team")); err != nil {
			t.Fatal(err)
		}
	}
	create("an_1")
	b.grant(t, "team", "order-1", 2, true)
	create("an_2")
	for _, id := range []string{"an_1", "an_2"} {
		if _, err := b.Cancel(b.ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	b.wantAccount(t, "team", 2, 0, 0, 2)
}

// testCreditRounds: a failure gives the credit back, a retry by a person takes another, a delivery keeps it; nothing that comes
// late changes it.
func testCreditRounds(t *testing.T, b *Bundle) {
	b.grant(t, "team", "order-1", 1, true)
	n := paying("an_1", "team")
	if _, _, err := b.CreateAnalysis(b.ctx, n); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Submit(b.ctx, store.Submission{ID: n.ID, Clips: n.Clips}); err != nil {
		t.Fatal(err)
	}
	first := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	b.MustRecord(t, Failed(first), store.DecisionAccepted)
	b.wantAccount(t, "team", 1, 0, 0, 1)
	second := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w2", "an_1", 2)))
	b.wantAccount(t, "team", 0, 1, 0, 1)
	b.MustRecord(t, b.Completed(t, second), store.DecisionAccepted)
	b.wantAccount(t, "team", 0, 0, 1, 1)
	if _, err := b.RecordResult(b.ctx, Failed(second)); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("a failure under the id of the delivery: %v", err)
	}
	if _, err := b.Cancel(b.ctx, "an_1"); !errors.Is(err, store.ErrSettled) {
		t.Fatalf("cancel of a delivered analysis: %v", err)
	}
	b.wantAccount(t, "team", 0, 0, 1, 1)
	b.wantLedger(t, "an_1", "credit.refund/0 refunded", "credit.reserve/0 team", "credit.reserve/1 team", "credit.settle/1 settled",
		"notice/0 failed", "notice/1 delivered")
	if got := b.count(t, store.OutboxNotice); got != 2 {
		t.Errorf("%d notices for two rounds", got)
	}
}

// wantLedger compares the entries of a scope, as effect/instance and outcome.
func (b *Bundle) wantLedger(t *testing.T, scope string, want ...string) {
	t.Helper()
	all, err := b.Ledger(b.ctx, scope)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprintf("%s/%s %s", e.Key.Effect, e.Key.Instance, e.Outcome))
		if e.Key.Scope != scope || !e.Expires.After(e.At) {
			t.Errorf("entry %+v", e)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// testGrantsParallel: one order, sent by many at once, counts once.
func testGrantsParallel(t *testing.T, b *Bundle) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	given := 0
	for range 8 {
		wg.Go(func() {
			_, now, err := b.GrantCredits(b.ctx, store.CreditGrant{Account: "team", Key: "order-1", Credits: 5})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if now {
				given++
			}
		})
	}
	wg.Wait()
	if given != 1 {
		t.Errorf("given %d times", given)
	}
	b.wantAccount(t, "team", 5, 0, 0, 0)
}

// testLedgerExpires: an entry counts up to its last moment and no longer, whether or not it has been removed.
func testLedgerExpires(t *testing.T, b *Bundle) {
	b.grant(t, "team", "order-1", 1, true)
	all, err := b.Ledger(b.ctx, "account:team")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d entries: %v", len(all), err)
	}
	b.Clock.Advance(all[0].Expires.Sub(b.Clock.Now()) - time.Millisecond)
	b.grant(t, "team", "order-1", 1, false)
	if n, err := b.ForgetLedger(b.ctx, 10); err != nil || n != 0 {
		t.Fatalf("forgot %d: %v", n, err)
	}
	b.Clock.Advance(time.Millisecond)
	b.grant(t, "team", "order-1", 1, true)
	b.grant(t, "team", "order-1", 1, false)
	b.Clock.Advance(31 * 24 * time.Hour)
	if n, err := b.ForgetLedger(b.ctx, 10); err != nil || n != 1 {
		t.Fatalf("forgot %d: %v", n, err)
	}
}

// testUploadsExpire: what was never submitted is cancelled and refunded, once, also by several sweepers.
func testUploadsExpire(t *testing.T, b *Bundle) {
	b.grant(t, "team", "order-1", 3, true)
	for _, id := range []string{"an_1", "an_2"} {
		if _, _, err := b.CreateAnalysis(b.ctx, paying(id, "team")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Submit(b.ctx, store.Submission{ID: "an_2", Clips: NewAnalysis("an_2").Clips}); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(time.Hour)
	if _, _, err := b.CreateAnalysis(b.ctx, paying("an_3", "team")); err != nil {
		t.Fatal(err)
	}
	limit := b.Clock.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	for range 4 {
		wg.Go(func() {
			n, err := b.ExpireUploads(b.ctx, limit, 10)
			mu.Lock()
			defer mu.Unlock()
			total += n
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if total != 1 {
		t.Errorf("%d expired, want 1", total)
	}
	b.WantStatus(t, "an_1", store.StatusCancelled)
	b.WantStatus(t, "an_2", store.StatusQueued)
	b.WantStatus(t, "an_3", store.StatusUploading)
	b.wantAccount(t, "team", 1, 2, 0, 1)
	a, err := b.Submit(b.ctx, store.Submission{ID: "an_1", Clips: NewAnalysis("an_1").Clips})
	if err != nil || a.Status != store.StatusCancelled {
		t.Errorf("a submission after the end: %s, %v", a.Status, err)
	}
}

// testEndsParallel: whichever of many contradicting ends wins, the round costs one credit or none, and one notice goes out.
func testEndsParallel(t *testing.T, b *Bundle) {
	b.grant(t, "team", "order-1", 1, true)
	n := paying("an_1", "team")
	if _, _, err := b.CreateAnalysis(b.ctx, n); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Submit(b.ctx, store.Submission{ID: n.ID, Clips: n.Clips}); err != nil {
		t.Fatal(err)
	}
	lease := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	completed := b.Completed(t, lease)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			var err error
			switch i % 3 {
			case 0:
				_, err = b.RecordResult(b.ctx, completed)
			case 1:
				_, err = b.RecordResult(b.ctx, Failed(lease))
			default:
				if _, err = b.Cancel(b.ctx, "an_1"); errors.Is(err, store.ErrSettled) {
					err = nil
				}
			}
			if err != nil && !errors.Is(err, store.ErrConflict) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	a, err := b.Analysis(b.ctx, "an_1")
	if err != nil {
		t.Fatal(err)
	}
	if a.Status == store.StatusDelivered {
		b.wantAccount(t, "team", 0, 0, 1, 0)
	} else {
		b.wantAccount(t, "team", 1, 0, 0, 1)
	}
	if got := b.count(t, store.OutboxNotice); got != 1 {
		t.Errorf("%d notices", got)
	}
}
