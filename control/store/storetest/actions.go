package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control/store"
)

// failOnce takes an analysis to the failure of its next round.
func (b *Bundle) failOnce(t *testing.T, id string, attempt int) {
	t.Helper()
	g := b.MustRedeem(t, id, QueueHolder("w1", id, attempt))
	b.MustRecord(t, Failed(LeaseOf(g)), store.DecisionAccepted)
}

// testRetry: a retry by a person begins a new round once, however often it is asked for, and costs a credit.
func testRetry(t *testing.T, b *Bundle) {
	b.grant(t, "team", "order-1", 1, true)
	n := paying("an_1", "team")
	if _, _, err := b.CreateAnalysis(b.ctx, n); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Submit(b.ctx, store.Submission{ID: "an_1", Clips: n.Clips}); err != nil {
		t.Fatal(err)
	}
	act := store.Action{ID: "an_1", Actor: "ada", Reason: "the bucket was away"}
	if _, _, err := b.Retry(b.ctx, act); !errors.Is(err, store.ErrNotFailed) {
		t.Fatalf("before it failed: %v", err)
	}
	b.failOnce(t, "an_1", 1)
	for i := range 3 {
		a, fresh, err := b.Retry(b.ctx, act)
		if err != nil || fresh != (i == 0) || a.Status != store.StatusQueued || a.Round != 1 || a.ErrorMessage != "" || a.ResultID != "" {
			t.Fatalf("%d: %+v, %v, %v", i, a, fresh, err)
		}
	}
	b.wantAccount(t, "team", 0, 1, 0, 1)
	b.failOnce(t, "an_1", 2)
	zero, five := int64(0), int64(5)
	if a, fresh, err := b.Retry(b.ctx, store.Action{ID: "an_1", Actor: "ada", Round: &zero}); err != nil || fresh || a.Status != store.StatusFailed {
		t.Fatalf("the first round's retry came late: %v, %v, %v", a.Status, fresh, err)
	}
	if _, _, err := b.Retry(b.ctx, store.Action{ID: "an_1", Round: &five}); !errors.Is(err, store.ErrNotFailed) {
		t.Fatalf("a round that never was: %v", err)
	}
	b.wantLedger(t, "an_1", "action.retry/0 ada", "credit.refund/0 refunded", "credit.refund/1 refunded", "credit.reserve/0 team",
		"credit.reserve/1 team", "notice/0 failed", "notice/1 failed")
	if all, err := b.Outbox(b.ctx, 10, store.OutboxDispatch); err != nil || len(all) != 1 || all[0].Reason != string(store.DispatchRetried) {
		t.Fatalf("%+v, %v", all, err)
	}
	b.wantActor(t, "an_1", store.EventRetried, "ada: the bucket was away")
}

// wantActor compares who is behind the events of a kind.
func (b *Bundle) wantActor(t *testing.T, id, kind, want string) {
	t.Helper()
	events, err := b.Timeline(b.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range events {
		if e.Kind == kind {
			lines = append(lines, e.Actor+": "+e.Detail)
		}
	}
	if by := strings.Join(lines, "; "); by != want {
		t.Fatalf("%s by %q", kind, by)
	}
}

// testActionKeys: a request with a key is carried out once, also when the analysis is in another state by then; the key can't be used
// for something else.
func testActionKeys(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	b.failOnce(t, "an_1", 1)
	act := store.Action{ID: "an_1", Actor: "ada", Key: "k-1"}
	if _, fresh, err := b.Retry(b.ctx, act); err != nil || !fresh {
		t.Fatalf("%v, %v", fresh, err)
	}
	b.failOnce(t, "an_1", 2)
	if a, fresh, err := b.Retry(b.ctx, act); err != nil || fresh || a.Status != store.StatusFailed {
		t.Fatalf("again: %v, %v, %v", a.Status, fresh, err)
	}
	if _, _, err := b.CancelBy(b.ctx, act); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("another action with the key: %v", err)
	}
	other := act
	other.Key = "k-2"
	if a, fresh, err := b.Retry(b.ctx, other); err != nil || !fresh || a.Round != 2 {
		t.Fatalf("another key: %+v, %v, %v", a, fresh, err)
	}
	cancel := store.Action{ID: "an_1", Actor: "bob", Key: "k-3"}
	for _, round := range []int64{1, 3} {
		late := store.Action{ID: "an_1", Actor: "bob", Round: &round}
		if a, _, err := b.CancelBy(b.ctx, late); !errors.Is(err, store.ErrOtherRound) {
			t.Fatalf("a cancellation of round %d in round 2: %v, %v", round, a.Status, err)
		}
	}
	for i := range 2 {
		if a, fresh, err := b.CancelBy(b.ctx, cancel); err != nil || fresh != (i == 0) || a.Status != store.StatusCancelled {
			t.Fatalf("cancel: %+v, %v, %v", a, fresh, err)
		}
	}
	b.wantActor(t, "an_1", store.EventCancelled, "bob: ")
	if _, _, err := b.Retry(b.ctx, store.Action{ID: "nobody"}); !errors.Is(err, store.ErrUnknown) {
		t.Fatal(err)
	}
}

// testRedeliver: the notice of a round goes out again with the time of its decision; one that waits is hurried on instead.
func testRedeliver(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	act := store.Action{ID: "an_1", Actor: "ada"}
	if _, _, err := b.Redeliver(b.ctx, act); !errors.Is(err, store.ErrNoOutcome) {
		t.Fatalf("without an outcome: %v", err)
	}
	b.failOnce(t, "an_1", 1)
	first, err := b.Outbox(b.ctx, 10, store.OutboxNotice)
	if err != nil || len(first) != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := b.OutboxFailed(b.ctx, first[0], time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, fresh, err := b.Redeliver(b.ctx, act); err != nil || fresh {
		t.Fatalf("while it waits: %v, %v", fresh, err)
	}
	hurried, err := b.Outbox(b.ctx, 10, store.OutboxNotice)
	if err != nil || len(hurried) != 1 {
		t.Fatalf("it was not hurried: %+v, %v", hurried, err)
	}
	if err := b.OutboxDone(b.ctx, hurried[0]); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Retry(b.ctx, act); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(5 * 24 * time.Hour)
	zero := int64(0)
	for i := range 2 { // the new round has no outcome yet; the old one's is known
		if _, fresh, err := b.Redeliver(b.ctx, store.Action{ID: "an_1", Actor: "ada", Round: &zero}); err != nil || fresh != (i == 0) {
			t.Fatalf("%v, %v", fresh, err)
		}
	}
	again, err := b.Outbox(b.ctx, 10, store.OutboxRenotice)
	if err != nil || len(again) != 1 || again[0].Reason != "failed" || again[0].Round != 0 || !again[0].CreatedAt.Equal(first[0].CreatedAt) {
		t.Fatalf("%+v, %v", again, err)
	}
	b.wantActor(t, "an_1", store.EventRedelivered, "ada: round 0, failed")
	if all, err := b.Backlog(b.ctx); err != nil || all[store.OutboxRenotice].Entries != 1 || b.Clock.Now().Sub(all[store.OutboxRenotice].Oldest) > time.Minute {
		t.Fatalf("%+v, %v: it has waited since it was asked for, not since the decision", all, err)
	}
	if err := b.OutboxDone(b.ctx, again[0]); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct { // once it is out: a repeat is one for some seconds, a key of the caller's is another wish
		key   string
		after time.Duration
		fresh bool
	}{{"", 0, false}, {"", 4 * time.Second, false}, {"", 2 * time.Second, true}, {"again", time.Millisecond, true}, {"again", time.Hour, false}} {
		b.Clock.Advance(tt.after)
		_, fresh, err := b.Redeliver(b.ctx, store.Action{ID: "an_1", Actor: "ada", Round: &zero, Key: tt.key})
		if err != nil || fresh != tt.fresh {
			t.Errorf("%+v: %v, %v", tt, fresh, err)
		}
		out, err := b.Outbox(b.ctx, 10, store.OutboxRenotice)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range out {
			if err := b.OutboxDone(b.ctx, e); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// testRedeliverEarly: a notice that the run of a decided round has still to write is not told before with another time, and one that the ledger has
// forgotten is told with the same time again.
func testRedeliverEarly(t *testing.T, b *Bundle) {
	k := b.Running(t, "an_1", store.RunSubmitted)
	b.failOnce(t, "an_1", 1)
	b.Clock.Advance(time.Second) // a run reports before it tells
	act := store.Action{ID: "an_1", Actor: "ada", Round: new(int64)}
	early := func(what string) {
		t.Helper()
		_, fresh, err := b.Redeliver(b.ctx, act)
		if out, look := b.Outbox(b.ctx, 10, store.OutboxRenotice); err != nil || fresh || look != nil || len(out) != 0 {
			t.Fatalf("%s: %v, %v, %+v, %v", what, fresh, err, out, look)
		}
	}
	early("before the notice")
	if _, _, err := b.Retry(b.ctx, act); err != nil {
		t.Fatal(err)
	}
	early("before the notice of a former round")
	if _, err := b.NotifyRun(b.ctx, k); err != nil {
		t.Fatal(err)
	}
	first, err := b.Outbox(b.ctx, 10, store.OutboxNotice)
	if err != nil || len(first) != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := b.OutboxDone(b.ctx, first[0]); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(100 * 24 * time.Hour)
	if _, err := b.ForgetLedger(b.ctx, 100); err != nil {
		t.Fatal(err)
	}
	if _, fresh, err := b.Redeliver(b.ctx, act); err != nil || !fresh {
		t.Fatalf("after the ledger has forgotten it: %v, %v", fresh, err)
	}
	again, err := b.Outbox(b.ctx, 10, store.OutboxRenotice)
	if err != nil || len(again) != 1 || again[0].Reason != "failed" || !again[0].CreatedAt.Equal(first[0].CreatedAt) {
		t.Fatalf("%+v, %v, want the time of %+v", again, err, first[0])
	}
}

// testExecutions: who worked on an analysis, and how each of them ended.
func testExecutions(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1))
	b.Clock.Advance(time.Second)
	b.MustRedeem(t, "an_1", QueueHolder("w2", "an_1", 2)) // taken over
	b.Clock.Advance(2 * Lease)
	third := b.MustRedeem(t, "an_1", QueueHolder("w3", "an_1", 3)) // the lease ran out
	b.Clock.Advance(time.Second)
	if err := b.Release(b.ctx, LeaseOf(third)); err != nil {
		t.Fatal(err)
	}
	fourth := b.MustRedeem(t, "an_1", QueueHolder("w4", "an_1", 4)) // in the same millisecond
	b.MustRecord(t, Failed(LeaseOf(fourth)), store.DecisionAccepted)
	if _, _, err := b.Retry(b.ctx, store.Action{ID: "an_1", Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	b.MustRedeem(t, "an_1", QueueHolder("w5", "an_1", 5))
	running, err := b.Executions(b.ctx, "an_1")
	if err != nil || len(running) != 5 || running[4].End != store.EndRunning || !running[4].Ended.IsZero() {
		t.Fatalf("%+v, %v", running, err)
	}
	if _, err := b.Cancel(b.ctx, "an_1"); err != nil {
		t.Fatal(err)
	}
	all, err := b.Executions(b.ctx, "an_1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range all {
		got = append(got, fmt.Sprintf("%d %s %d %s", x.Epoch, x.Holder.WorkerID, x.Holder.Attempt, x.End))
		if x.Ended.Before(x.Started) {
			t.Errorf("%+v ends before it starts", x)
		}
	}
	want := []string{"1 w1 1 taken_over", "2 w2 2 lost", "3 w3 3 released", "4 w4 4 failed", "5 w5 5 decided"}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

// testFilters: each filter alone and together, in pages, finds what it names and nothing else.
func testFilters(t *testing.T, b *Bundle) {
	for i := range 12 {
		n := NewAnalysis(fmt.Sprintf("%s_%02d", []string{"an", "An", "zz"}[i%3], i))
		n.Account = []string{"team", "other"}[i%2]
		if _, _, err := b.CreateAnalysis(b.ctx, n); err != nil {
			t.Fatal(err)
		}
		if i < 6 {
			if _, err := b.Submit(b.ctx, store.Submission{ID: n.ID, Clips: n.Clips}); err != nil {
				t.Fatal(err)
			}
		}
		b.Clock.Advance(time.Second)
	}
	for name, c := range map[string]struct {
		request store.PageRequest
		want    []string
	}{
		"state":             {store.PageRequest{Status: store.StatusQueued}, []string{"zz_05", "An_04", "an_03", "zz_02", "An_01", "an_00"}},
		"account":           {store.PageRequest{Account: "team"}, []string{"An_10", "zz_08", "an_06", "An_04", "zz_02", "an_00"}},
		"state and account": {store.PageRequest{Status: store.StatusQueued, Account: "team"}, []string{"An_04", "zz_02", "an_00"}},
		"beginning":         {store.PageRequest{IDPrefix: "an_"}, []string{"an_00", "an_03", "an_06", "an_09"}},
		"a whole id":        {store.PageRequest{IDPrefix: "zz_02"}, []string{"zz_02"}},
		"all three":         {store.PageRequest{IDPrefix: "a", Status: store.StatusUploading, Account: "other"}, []string{"an_09"}},
		"nothing":           {store.PageRequest{IDPrefix: "b"}, nil},
	} {
		if d := cmp.Diff(c.want, b.pages(t, c.request)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	open, err := b.Open(b.ctx)
	if d := cmp.Diff(map[store.Status]int64{store.StatusUploading: 6, store.StatusQueued: 6, store.StatusProcessing: 0}, open); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

// pages reads all pages of two.
func (b *Bundle) pages(t *testing.T, r store.PageRequest) []string {
	t.Helper()
	var got []string
	for r.Limit = 2; ; {
		p, err := b.Analyses(b.ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range p.Analyses {
			got = append(got, a.ID)
		}
		if r.Cursor = p.Next; p.Next == "" {
			return got
		}
	}
}

// testCensus: one is kept of those of one moment, and old ones go.
func testCensus(t *testing.T, b *Bundle) {
	start := b.Clock.Now()
	for i := range 5 {
		c := store.Census{At: b.Clock.Now(), Waiting: int64(i), Active: 1, Delayed: 2, OldestSeconds: 3, Paused: true, Workers: 4}
		for range 2 {
			if err := b.AddCensus(b.ctx, c); err != nil {
				t.Fatal(err)
			}
			c.Waiting = 99
		}
		b.Clock.Advance(30 * time.Second)
	}
	if n, err := b.ForgetCensus(b.ctx, start.Add(time.Minute), 10); err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	all, err := b.Censuses(b.ctx, start, 2)
	if err != nil || len(all) != 2 || all[0].Waiting != 3 || all[1].Waiting != 4 || !all[1].Paused || all[1].Workers != 4 || !all[0].At.Equal(start.Add(90*time.Second)) {
		t.Fatalf("%+v, %v", all, err)
	}
}

// testCounts: the ledger counts what it let happen and what it held back.
func testCounts(t *testing.T, b *Bundle) {
	b.grant(t, "team", "order-1", 2, true)
	b.grant(t, "team", "order-1", 2, false)
	b.grant(t, "team", "order-1", 2, false)
	if d := cmp.Diff(map[store.Effect]store.LedgerCount{store.EffectGrant: {Processed: 1, Suppressed: 2}}, b.Counts()); d != "" {
		t.Fatal(d)
	}
}
