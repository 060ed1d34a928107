package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control/store"
)

// The redeem table: what the second start is told while, or after, the first one holds the claim.
func testRedeemTable(t *testing.T, b *Bundle) {
	first := QueueHolder("w1", "job", 2)
	for i, c := range []struct {
		name   string
		second store.Holder
		wait   time.Duration
		// epoch 0 means that the second is told to wait for left.
		epoch int64
		left  time.Duration
	}{
		{"same holder", first, 0, 1, 0},
		{"same holder after the lease", first, Lease + time.Hour, 1, 0},
		{"later start by the same worker", QueueHolder("w1", "job", 3), 0, 2, 0},
		{"later start by another worker", QueueHolder("w2", "job", 3), time.Second, 2, 0},
		{"equal start by another worker", QueueHolder("w2", "job", 2), 0, 0, Lease},
		{"earlier start by another worker", QueueHolder("w2", "job", 1), time.Second, 0, Lease - time.Second},
		{"earlier start by the same worker", QueueHolder("w1", "job", 1), 0, 0, Lease},
		{"another job", QueueHolder("w2", "other", 9), Lease - time.Millisecond, 0, time.Millisecond},
		{"the other door", HTTPHolder("w1", "job"), 0, 0, Lease},
		{"another job at the lease's end", QueueHolder("w2", "other", 1), Lease, 2, 0},
		{"the other door after the lease", HTTPHolder("w2", "job"), Lease + time.Millisecond, 2, 0},
		{"earlier start after the lease", QueueHolder("w2", "job", 1), Lease, 2, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprintf("an_%d", i)
			b.Queued(t, id)
			g := b.MustRedeem(t, id, first)
			b.Clock.Advance(c.wait)
			second, err := b.Redeem(t.Context(), id, c.second, store.JobSeen{}, Lease)
			if c.epoch == 0 {
				held, ok := errors.AsType[*store.HeldError](err)
				if !ok || held.Left != c.left {
					t.Fatalf("got %v, want held for %s", err, c.left)
				}
				if again := b.MustRedeem(t, id, first); !again.Repeat || again.Analysis.Claim != g.Analysis.Claim {
					t.Fatal("the holder was robbed")
				}

				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := second.Analysis
			if got.Epoch != c.epoch || second.Repeat != (c.epoch == 1) || (got.Claim == g.Analysis.Claim) != (c.epoch == 1) {
				t.Fatalf("epoch %d, repeat %v, claims %s and %s", got.Epoch, second.Repeat, g.Analysis.Claim, got.Claim)
			}
			if a := b.WantStatus(t, id, store.StatusProcessing); !a.LeaseUntil.Equal(b.Clock.Now().Add(Lease)) || a.Holder != c.second {
				t.Fatalf("held by %+v until %s", a.Holder, a.LeaseUntil)
			}
		})
	}
	if _, err := b.Redeem(b.ctx, "nobody", first, store.JobSeen{}, Lease); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("unknown: %v", err)
	}
	if _, _, err := b.CreateAnalysis(b.ctx, NewAnalysis("an_new")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Redeem(b.ctx, "an_new", first, store.JobSeen{}, Lease); !errors.Is(err, store.ErrNotSubmitted) {
		t.Fatalf("not submitted: %v", err)
	}
}

// G01: look up, act, record by 20 at once has one effect.
func testRedeemParallel(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	won := 0
	for i, err := range parallel(20, func(i int) error {
		_, err := b.Redeem(b.ctx, "an_1", HTTPHolder(fmt.Sprint("w", i), "an_1"), store.JobSeen{}, Lease)

		return err
	}) {
		if _, held := errors.AsType[*store.HeldError](err); !held && err != nil {
			t.Errorf("%d: %v", i, err)
		}
		if err == nil {
			won++
		}
	}
	if a := b.WantStatus(t, "an_1", store.StatusProcessing); won != 1 || a.Epoch != 1 {
		t.Fatalf("%d won, epoch %d", won, a.Epoch)
	}
}

func testRedeemSameParallel(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	for i, claim := range parallel(20, func(int) string {
		g, err := b.Redeem(b.ctx, "an_1", QueueHolder("w1", "an_1", 1), store.JobSeen{}, Lease)
		if err != nil {
			return err.Error()
		}

		return g.Analysis.Claim
	}) {
		if a := b.WantStatus(t, "an_1", store.StatusProcessing); claim != a.Claim || a.Epoch != 1 {
			t.Fatalf("%d has %s, the row %s in epoch %d", i, claim, a.Claim, a.Epoch)
		}
	}
}

func testRedeemAfterFailure(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	g := b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 2))
	b.MustRecord(t, Failed(LeaseOf(g)), store.DecisionAccepted)
	for _, h := range []store.Holder{
		QueueHolder("w1", "an_1", 2), QueueHolder("w2", "an_1", 1), QueueHolder("w2", "other", 3), HTTPHolder("w2", "an_1"),
	} {
		_, err := b.Redeem(b.ctx, "an_1", h, store.JobSeen{}, Lease)
		if gone, ok := errors.AsType[*store.GoneError](err); !ok || gone.Status != store.StatusFailed {
			t.Fatalf("%+v: %v", h, err)
		}
	}
	again := b.MustRedeem(t, "an_1", QueueHolder("w2", "an_1", 3))
	if a := b.WantStatus(t, "an_1", store.StatusProcessing); a.Epoch != 2 || a.ErrorCode != "" || len(a.Result) != 0 || !a.SettledAt.IsZero() {
		t.Fatalf("%+v", a)
	}
	b.MustRecord(t, b.Completed(t, LeaseOf(again)), store.DecisionAccepted)
	b.WantStatus(t, "an_1", store.StatusDelivered)
}

// After a failure a later start of its job is a person's retry, or the job comes again because the queue never heard of the failure. At the
// start that failed the job had ended once and stalled once.
func testRedeemOfFailed(t *testing.T, b *Bundle) {
	atFailure := store.JobSeen{Starts: 3, Ends: 1, Stalls: 1, Again: true}
	for i, c := range []struct {
		name     string
		at, then store.JobSeen
		reopened bool
	}{
		{"lost its worker", atFailure, store.JobSeen{Starts: 4, Ends: 1, Stalls: 2, Again: true}, false},
		{"lost its worker twice", atFailure, store.JobSeen{Starts: 4, Ends: 1, Stalls: 3}, false},
		{"ended for good, retried", atFailure, store.JobSeen{Starts: 4, Ends: 2, Stalls: 1}, true},
		{"ended for good, retried, lost its worker", atFailure, store.JobSeen{Starts: 4, Ends: 2, Stalls: 2}, true},
		{"ended for good, retried, failed before it could ask", atFailure, store.JobSeen{Starts: 4, Ends: 3, Stalls: 1, Again: true}, true},
		{"retried, counted from 0", atFailure, store.JobSeen{Starts: 4, Ends: 0, Stalls: 1}, true},
		{"its first attempt; retried, counted from 0", store.JobSeen{Starts: 3}, store.JobSeen{Starts: 4}, true},
		{"its first attempt; lost its worker", store.JobSeen{Starts: 3}, store.JobSeen{Starts: 4, Stalls: 1}, false},
		{"no answer to the report, tried again by the queue", atFailure, store.JobSeen{Starts: 4, Ends: 2, Stalls: 1, Again: true}, false},
		{"an even later start was made", atFailure, store.JobSeen{Starts: 5, Ends: 2, Stalls: 1}, false},
		{"a job that the queue does not know", atFailure, store.JobSeen{}, true},
		{"nothing known of the start that failed", store.JobSeen{}, store.JobSeen{Starts: 4, Ends: 2, Stalls: 1}, true},
		{"that start not the newest when it redeemed", store.JobSeen{Starts: 4}, store.JobSeen{Starts: 4, Ends: 1}, true},
		{"nothing known of it, never ended, lost its worker", store.JobSeen{}, store.JobSeen{Starts: 4, Stalls: 1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprintf("an_%d", i)
			b.Queued(t, id)
			g, err := b.Redeem(b.ctx, id, QueueHolder("w1", id, 3), c.at, Lease)
			if err != nil {
				t.Fatal(err)
			}
			b.MustRecord(t, Failed(LeaseOf(g)), store.DecisionAccepted)
			later := QueueHolder("w2", id, 4)
			if _, err := b.Redeem(b.ctx, id, later, store.JobSeen{Err: errors.New("no Redis")}, Lease); !errors.Is(err, store.ErrUnseen) {
				t.Errorf("the queue can't be asked: %v", err)
			}
			g, err = b.Redeem(b.ctx, id, later, c.then, Lease)
			gone, isGone := errors.AsType[*store.GoneError](err)
			if c.reopened != (err == nil) || !c.reopened && (!isGone || gone.Status != store.StatusFailed) {
				t.Fatalf("%v, want it reopened: %v", err, c.reopened)
			}
			credits, err := b.Credits(b.ctx, id)
			if err != nil || (len(credits) == 2) != c.reopened || c.reopened && g.Analysis.Round != 1 {
				t.Errorf("%+v, %v, round %d", credits, err, g.Analysis.Round)
			}
		})
	}
}

// testRedeemOfStartedAnew: a retry may have the queue count the starts from 0. The start that failed, which was the third and asks again, is not
// taken for one, nor is another job of the same name.
func testRedeemOfStartedAnew(t *testing.T, b *Bundle) {
	moments := []time.Time{}
	for i := range 4 {
		moments = append(moments, time.Date(2026, 11, 30, 11, 0, i, 0, time.UTC))
	}
	atFailure := store.JobSeen{Starts: 3, Ends: 1, Stalls: 1, Added: moments[0], Taken: moments[1]}
	for i, c := range []struct {
		name     string
		at, then store.JobSeen
		attempt  int
		reopened bool
	}{
		{"retried, starts from 0", atFailure, store.JobSeen{Starts: 1, Ends: 2, Stalls: 1, Added: moments[0], Taken: moments[2]}, 1, true},
		{"retried, starts and ends from 0", atFailure, store.JobSeen{Starts: 1, Stalls: 1, Added: moments[0], Taken: moments[2]}, 1, true},
		{"retried, as many starts again", atFailure, store.JobSeen{Starts: 3, Ends: 4, Stalls: 1, Added: moments[0], Taken: moments[2]}, 3, true},
		{"the start that failed", atFailure, atFailure, 3, false},
		{"an earlier start, late", atFailure, atFailure, 2, false},
		{"retried, and the start that failed is late", atFailure, store.JobSeen{Starts: 1, Ends: 2, Added: moments[0], Taken: moments[2]}, 3, false},
		{"removed and added anew", atFailure, store.JobSeen{Starts: 1, Added: moments[2], Taken: moments[3]}, 1, false},
		{"a job that the queue does not know", atFailure, store.JobSeen{}, 1, false},
		{"nothing said of when it was taken", atFailure, store.JobSeen{Starts: 1, Added: moments[0]}, 1, false},
		{"nothing known of the start that failed", store.JobSeen{}, store.JobSeen{Starts: 1, Added: moments[0], Taken: moments[2]}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprintf("an_%d", i)
			b.Queued(t, id)
			g, err := b.Redeem(b.ctx, id, QueueHolder("w1", id, 3), c.at, Lease)
			if err != nil {
				t.Fatal(err)
			}
			b.MustRecord(t, Failed(LeaseOf(g)), store.DecisionAccepted)
			again := QueueHolder("w2", id, c.attempt)
			if _, err := b.Redeem(b.ctx, id, again, store.JobSeen{Err: errors.New("no Redis")}, Lease); errors.Is(err, store.ErrUnseen) != (c.at.Starts > 0) {
				t.Errorf("the queue can't be asked: %v", err)
			}
			_, err = b.Redeem(b.ctx, id, again, c.then, Lease)
			gone, isGone := errors.AsType[*store.GoneError](err)
			if c.reopened != (err == nil) || !c.reopened && (!isGone || gone.Status != store.StatusFailed) {
				t.Fatalf("%v, want it reopened: %v", err, c.reopened)
			}
			credits, err := b.Credits(b.ctx, id)
			if err != nil || (len(credits) == 2) != c.reopened {
				t.Errorf("%+v, %v", credits, err)
			}
		})
	}
}

func testRenew(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	l := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	b.Clock.Advance(time.Minute)
	if err := b.Renew(b.ctx, l, Lease); err != nil {
		t.Fatal(err)
	}
	if a := b.WantStatus(t, "an_1", store.StatusProcessing); !a.LeaseUntil.Equal(b.Clock.Now().Add(Lease)) {
		t.Fatalf("lease until %s", a.LeaseUntil)
	}
	b.Clock.Advance(Lease + time.Hour)
	if err := b.Renew(b.ctx, l, Lease); err != nil {
		t.Fatalf("a slow holder whom nobody replaced: %v", err)
	}
	for name, bad := range map[string]store.Lease{
		"claim": {AnalysisID: "an_1", Claim: "clm_other", Epoch: 1}, "epoch": {AnalysisID: "an_1", Claim: l.Claim, Epoch: 2},
	} {
		if err := b.Renew(b.ctx, bad, Lease); !errors.Is(err, store.ErrLost) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	b.MustRedeem(t, "an_1", QueueHolder("w2", "an_1", 2))
	if err := b.Renew(b.ctx, l, Lease); !errors.Is(err, store.ErrLost) {
		t.Fatalf("after a take-over: %v", err)
	}
	if err := b.Renew(b.ctx, store.Lease{AnalysisID: "nobody", Claim: "c", Epoch: 1}, Lease); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("unknown: %v", err)
	}
}

func testRelease(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	h := HTTPHolder("w1", "an_1")
	old := LeaseOf(b.MustRedeem(t, "an_1", h))
	release := func(l store.Lease, want store.Status) {
		t.Helper()
		if err := b.Release(b.ctx, l); err != nil {
			t.Fatal(err)
		}
		b.WantStatus(t, "an_1", want)
	}
	release(old, store.StatusQueued)
	release(old, store.StatusQueued)
	if err := b.Renew(b.ctx, old, Lease); !errors.Is(err, store.ErrLost) {
		t.Fatalf("renewal of a released claim: %v", err)
	}
	// The same holder again: a new start needs a new epoch, or its result would have the webhook id of the first one.
	g := b.MustRedeem(t, "an_1", h)
	if g.Repeat || g.Analysis.Epoch != 2 {
		t.Fatalf("repeat %v, epoch %d", g.Repeat, g.Analysis.Epoch)
	}
	release(old, store.StatusProcessing)
	b.MustRecord(t, b.Completed(t, LeaseOf(g)), store.DecisionAccepted)
	release(LeaseOf(g), store.StatusDelivered)
	if err := b.Release(b.ctx, store.Lease{AnalysisID: "nobody", Claim: "c", Epoch: 1}); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("unknown: %v", err)
	}
}

func testArtifacts(t *testing.T, b *Bundle) {
	a := b.Queued(t, "an_1")
	l1 := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	for range 2 {
		if err := b.GrantArtifact(b.ctx, l1, Artifact(l1)); err != nil {
			t.Fatal(err)
		}
	}
	l2 := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w2", "an_1", 2)))
	if err := b.GrantArtifact(b.ctx, l1, Artifact(l1)); !errors.Is(err, store.ErrLost) {
		t.Fatalf("by a former holder: %v", err)
	}
	plain := Artifact(l2)
	plain.Model, plain.Clips = nil, nil
	if err := b.GrantArtifact(b.ctx, l2, plain); err != nil {
		t.Fatal(err)
	}
	got, err := b.Artifacts(b.ctx, "an_1", a.ParamsDigest)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.StoredArtifact{plain, Artifact(l1)}
	for i := range want {
		want[i].AnalysisID, want[i].ParamsDigest, want[i].Epoch = "an_1", a.ParamsDigest, int64(2-i)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if none, err := b.Artifacts(b.ctx, "an_1", "other"); err != nil || len(none) != 0 {
		t.Fatalf("%v, %v", none, err)
	}
}
