package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control/store"
)

func testCreate(t *testing.T, b *Bundle) {
	n := NewAnalysis("an_1")
	a, created, err := b.CreateAnalysis(b.ctx, n)
	if err != nil || !created {
		t.Fatalf("created %v: %v", created, err)
	}
	want := store.Analysis{
		ID: "an_1", Status: store.StatusUploading, Params: n.Params, ParamsDigest: a.ParamsDigest, Clips: n.Clips,
		Account: store.DefaultAccount, JobEnds: -1, JobStalls: -1,
		CreatedAt: b.Clock.Now(), UpdatedAt: b.Clock.Now(),
	}
	if d := cmp.Diff(want, a); d != "" {
		t.Fatal(d)
	}
	b.Clock.Advance(time.Hour)
	n.Params = []byte(` { "model" : "full" } `)
	again, created, err := b.CreateAnalysis(b.ctx, n)
	if err != nil || created || !again.CreatedAt.Equal(a.CreatedAt) {
		t.Fatalf("the same content in another spelling: created %v, %v", created, err)
	}
	n.Params = []byte(`{"model":"lite"}`)
	if _, _, err := b.CreateAnalysis(b.ctx, n); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("other parameters: %v", err)
	}
	n = NewAnalysis("an_1")
	n.Clips[0].Size++
	if _, _, err := b.CreateAnalysis(b.ctx, n); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("other clips: %v", err)
	}
	if _, err := b.Analysis(b.ctx, "an_2"); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("unknown: %v", err)
	}
}

func testSubmit(t *testing.T, b *Bundle) {
	n := NewAnalysis("an_1")
	if _, err := b.Submit(b.ctx, store.Submission{ID: "an_1"}); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("unknown: %v", err)
	}
	if _, _, err := b.CreateAnalysis(b.ctx, n); err != nil {
		t.Fatal(err)
	}
	n.Clips[0].ETag = `"e1"`
	for range 2 {
		a, err := b.Submit(b.ctx, store.Submission{ID: "an_1", Clips: n.Clips, Dispatch: true})
		if err != nil || a.Status != store.StatusQueued || a.Clips[0].ETag != `"e1"` {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if got := b.count(t, store.OutboxDispatch); got != 1 {
		t.Fatalf("%d dispatches after two submissions, want 1", got)
	}
	b.Queued(t, "an_2") // dispatch none
	if got := b.count(t, store.OutboxDispatch); got != 1 {
		t.Fatalf("%d dispatches, want 1: an_2 asked for none", got)
	}
}

func testSubmitParallel(t *testing.T, b *Bundle) {
	n := NewAnalysis("an_1")
	errs := parallel(20, func(int) error {
		if _, _, err := b.CreateAnalysis(b.ctx, n); err != nil {
			return err
		}
		_, err := b.Submit(b.ctx, store.Submission{ID: n.ID, Clips: n.Clips, Dispatch: true})

		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got := b.count(t, store.OutboxDispatch); got != 1 {
		t.Fatalf("%d dispatches of 20 submissions, want 1", got)
	}
}

func testCancel(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	g := b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1))
	for range 2 {
		a, err := b.Cancel(b.ctx, "an_1")
		if err != nil || a.Status != store.StatusCancelled || a.SettledAt.IsZero() {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if got := b.count(t, store.OutboxSettled); got != 1 {
		t.Fatalf("%d notices, want 1", got)
	}
	if err := b.Renew(b.ctx, LeaseOf(g), Lease); !errors.Is(err, store.ErrLost) {
		t.Fatalf("renew of a cancelled analysis: %v", err)
	}
	b.Queued(t, "an_2")
	g = b.MustRedeem(t, "an_2", QueueHolder("w1", "an_2", 1))
	b.MustRecord(t, b.Completed(t, LeaseOf(g)), store.DecisionAccepted)
	if _, err := b.Cancel(b.ctx, "an_2"); !errors.Is(err, store.ErrSettled) {
		t.Fatalf("cancel of a delivered analysis: %v", err)
	}
	b.WantStatus(t, "an_2", store.StatusDelivered)
	if _, err := b.Cancel(b.ctx, "an_3"); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("unknown: %v", err)
	}
}

func testPages(t *testing.T, b *Bundle) {
	var want []string
	for i := range 7 {
		id := fmt.Sprintf("an_%d", i)
		b.Queued(t, id)
		want = append([]string{id}, want...)
		if i%3 == 2 { // three of one millisecond
			b.Clock.Advance(time.Second)
		}
	}
	for _, limit := range []int{1, 2, 3, 7, 100} {
		var got []string
		for r := (store.PageRequest{Limit: limit}); ; {
			p, err := b.Analyses(b.ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range p.Analyses {
				got = append(got, a.ID)
			}
			if r.Cursor = p.Next; r.Cursor == "" {
				break
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("pages of %d: %s", limit, d)
		}
	}
	for _, c := range []string{"x", "!!!", "MTIz", "LTEuYQ=="} {
		if _, err := b.Analyses(b.ctx, store.PageRequest{Limit: 1, Cursor: c}); !errors.Is(err, store.ErrBadCursor) {
			t.Errorf("cursor %q: %v", c, err)
		}
	}
}

func testOutbox(t *testing.T, b *Bundle) {
	for _, id := range []string{"an_1", "an_2"} {
		n := NewAnalysis(id)
		if _, _, err := b.CreateAnalysis(b.ctx, n); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Submit(b.ctx, store.Submission{ID: id, Clips: n.Clips, Dispatch: true}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := b.Outbox(b.ctx, 10)
	if err != nil || len(all) != 2 || all[0].AnalysisID != "an_1" || all[0].Kind != store.OutboxDispatch {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := b.OutboxFailed(b.ctx, all[0], time.Second); err != nil {
		t.Fatal(err)
	}
	if left, err := b.Outbox(b.ctx, 10); err != nil || len(left) != 1 || left[0].AnalysisID != "an_2" {
		t.Fatalf("the failed one is not put off: %+v, %v", left, err)
	}
	b.Clock.Advance(time.Second)
	if left, err := b.Outbox(b.ctx, 10); err != nil || len(left) != 2 || left[1].Tries != 1 {
		t.Fatalf("the failed one does not come back: %+v, %v", left, err)
	}
	for range 2 {
		if err := b.OutboxDone(b.ctx, all[0]); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.kinds(t, "an_1"); cmp.Diff(got, []string{store.EventCreated, store.EventSubmitted, store.EventDispatched}) != "" {
		t.Fatalf("timeline %v", got)
	}
}

func testLapsed(t *testing.T, b *Bundle) {
	const grace = 30 * time.Second
	b.Queued(t, "an_http")
	b.Queued(t, "an_queue")
	g := b.MustRedeem(t, "an_http", HTTPHolder("w1", "an_http"))
	b.MustRedeem(t, "an_queue", QueueHolder("w1", "an_queue", 1))
	requeue := func(want int) {
		t.Helper()
		if n, err := b.RequeueLapsed(b.ctx, grace, 10); err != nil || n != want {
			t.Fatalf("%d requeued, want %d: %v", n, want, err)
		}
	}
	b.Clock.Advance(Lease + grace)
	requeue(0)
	b.Clock.Advance(time.Millisecond)
	requeue(1)
	requeue(0)
	b.WantStatus(t, "an_http", store.StatusQueued)
	b.WantStatus(t, "an_queue", store.StatusProcessing)
	if got := b.count(t, store.OutboxDispatch); got != 1 {
		t.Fatalf("%d dispatches, want 1", got)
	}
	if err := b.Renew(b.ctx, LeaseOf(g), Lease); !errors.Is(err, store.ErrLost) {
		t.Fatalf("renewal after the analysis was given to the queue: %v", err)
	}
}

func testForget(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	p := b.Completed(t, LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1))))
	b.MustRecord(t, p, store.DecisionAccepted)
	seen := b.Clock.Now()
	b.Clock.Advance(8 * 24 * time.Hour)
	if n, err := b.ForgetWebhooks(b.ctx, seen, 10); err != nil || n != 0 {
		t.Fatalf("forgot %d at the very time: %v", n, err)
	}
	if v := b.MustRecord(t, p, store.DecisionAccepted); !v.Repeat {
		t.Fatal("not known any more")
	}
	if n, err := b.ForgetWebhooks(b.ctx, seen.Add(time.Millisecond), 10); err != nil || n != 1 {
		t.Fatalf("forgot %d: %v", n, err)
	}
	// Without its id the result is judged like a new one, and the guard still holds.
	if v := b.MustRecord(t, p, store.DecisionConceded); v.Repeat || v.Status != store.StatusDelivered {
		t.Fatalf("%+v", v)
	}
}

func testSecret(t *testing.T, b *Bundle) {
	got := parallel(20, func(i int) []byte {
		v, err := b.Secret(b.ctx, "key", func() []byte { return fmt.Appendf(nil, "made by %d", i) })
		if err != nil {
			return []byte(err.Error())
		}

		return v
	})
	for _, v := range got {
		if !bytes.Equal(v, got[0]) || !bytes.HasPrefix(v, []byte("made by ")) {
			t.Fatalf("%q and %q", got[0], v)
		}
	}
}

func testCancelledContext(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := b.Redeem(ctx, "an_1", QueueHolder("w1", "an_1", 1), store.JobSeen{}, Lease); !errors.Is(err, context.Canceled) {
		t.Fatalf("redeem: %v", err)
	}
	if a := b.WantStatus(t, "an_1", store.StatusQueued); a.Epoch != 0 {
		t.Fatalf("epoch %d", a.Epoch)
	}
	if err := b.Ping(b.ctx); err != nil {
		t.Fatal(err)
	}
}

func testTimeline(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	g1 := b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1))
	b.Clock.Advance(time.Second)
	g2 := b.MustRedeem(t, "an_1", QueueHolder("w2", "an_1", 2))
	b.MustRecord(t, b.Completed(t, LeaseOf(g2)), store.DecisionAccepted)
	b.MustRecord(t, Failed(LeaseOf(g1)), store.DecisionConceded)
	want := []string{
		store.EventCreated, store.EventSubmitted, store.EventRedeemed, store.EventTakenOver, store.EventArtifactGranted,
		store.EventDelivered, store.EventResultConceded,
	}
	if d := cmp.Diff(want, b.kinds(t, "an_1")); d != "" {
		t.Fatal(d)
	}
	all, err := b.Timeline(b.ctx, "an_1")
	if err != nil {
		t.Fatal(err)
	}
	e := all[3]
	wantEvent := store.Event{
		ID: e.ID, AnalysisID: "an_1", At: b.Clock.Now(), Kind: store.EventTakenOver, Epoch: 2,
		Holder: QueueHolder("w2", "an_1", 2), Detail: "from epoch 1, attempt 1 of w1",
	}
	if d := cmp.Diff(wantEvent, e); d != "" {
		t.Fatal(d)
	}
	if none, err := b.Timeline(b.ctx, "an_2"); err != nil || len(none) != 0 {
		t.Fatalf("%v, %v", none, err)
	}
}

// kinds lists the kinds of the events of an analysis in their order.
func (b *Bundle) kinds(t *testing.T, id string) []string {
	t.Helper()
	all, err := b.Timeline(b.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range all {
		kinds = append(kinds, e.Kind)
	}

	return kinds
}
