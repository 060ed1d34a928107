package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// Running makes a queued analysis with a run.
func (b *Bundle) Running(t *testing.T, id string, reason store.RunReason) store.RunKey {
	t.Helper()
	n := NewAnalysis(id)
	if _, _, err := b.CreateAnalysis(b.ctx, n); err != nil {
		t.Fatal(err)
	}
	for range 2 { // sent twice, begun once
		if _, err := b.Submit(b.ctx, store.Submission{ID: id, Clips: n.Clips, Run: reason}); err != nil {
			t.Fatal(err)
		}
	}

	return store.RunKey{AnalysisID: id}
}

// inParallel calls fn five times at once.
func inParallel(t *testing.T, fn func() (store.Run, error)) store.Run {
	t.Helper()
	var wg sync.WaitGroup
	all := make([]store.Run, 5)
	for i := range all {
		wg.Go(func() {
			var err error
			if all[i], err = fn(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	return all[0]
}

// wantStages holds how many runs are open by stage, and that those moved at some time, against what is wanted.
func (b *Bundle) wantStages(t *testing.T, want map[store.RunStage]int64) {
	t.Helper()
	got, err := b.RunStages(b.ctx)
	if err != nil || len(got) != 8 {
		t.Fatalf("stages: %v, %v", got, err)
	}
	for stage, n := range got {
		if n.Runs != want[stage] || n.MovedAt.IsZero() != (n.Runs == 0) {
			t.Errorf("stage %s: %+v, want %d", stage, n, want[stage])
		}
	}
}

// testRun: each stage has its effects once, however many ask for it at once, and the notice waits for the run.
func testRun(t *testing.T, b *Bundle) {
	k := b.Running(t, "an_1", store.RunSubmitted)
	if got := b.count(t, store.OutboxRun); got != 1 || b.count(t, store.OutboxDispatch) != 0 {
		t.Fatalf("%d intents to begin the run", got)
	}
	inParallel(t, func() (store.Run, error) { return b.AdvanceRun(b.ctx, k, store.StageAnalysing, "analysing", "") })
	r := inParallel(t, func() (store.Run, error) { return b.DispatchRun(b.ctx, k, store.WayQueue) })
	if r.Stage != store.StageDispatched || r.Way != store.WayQueue || b.count(t, store.OutboxDispatch) != 1 {
		t.Fatalf("%+v, %d dispatches", r, b.count(t, store.OutboxDispatch))
	}
	b.Running(t, "an_2", store.RunFollowed)
	b.wantStages(t, map[store.RunStage]int64{store.StageDispatched: 1, store.StageFollowed: 1})
	inParallel(t, func() (store.Run, error) { return b.RetryRun(b.ctx, k, 1) })
	if got := b.count(t, store.OutboxDispatch); got != 2 {
		t.Fatalf("%d dispatches with one retry", got)
	}
	l := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	b.MustRecord(t, b.Completed(t, l), store.DecisionAccepted)
	if got := b.count(t, store.OutboxNotice); got != 0 {
		t.Fatalf("%d notices before the run is through", got)
	}
	if all, err := b.DecidedRuns(b.ctx, store.DecidedRun{}, 10); err != nil || !slices.Equal(all, []store.DecidedRun{{RunKey: k, At: b.Clock.Now()}}) {
		t.Fatalf("decided: %v, %v", all, err)
	}
	if r, err := b.RetryRun(b.ctx, k, 2); err != nil || r.Retries != 1 || r.Outcome != store.StatusDelivered {
		t.Fatalf("a retry of what was decided: %+v, %v", r, err)
	}
	r = inParallel(t, func() (store.Run, error) { return b.NotifyRun(b.ctx, k) })
	if r.EndedAt.IsZero() || b.count(t, store.OutboxNotice) != 1 {
		t.Fatalf("%+v, %d notices", r, b.count(t, store.OutboxNotice))
	}
	b.wantStages(t, map[store.RunStage]int64{store.StageFollowed: 1})
	if r, err := b.AdvanceRun(b.ctx, k, store.StageChecked, "checked", ""); err != nil || r.Stage != store.StageNotified {
		t.Fatalf("a stage that is behind: %+v, %v", r, err)
	}
	b.wantLedger(t, "an_1", "credit.reserve/0 default", "credit.settle/0 settled", "notice/0 delivered")
}

// testRunFails: a run that can't go on fails its round once, with its refund; what was decided stays.
func testRunFails(t *testing.T, b *Bundle) {
	k := b.Running(t, "an_1", store.RunSubmitted)
	l := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	late := b.Completed(t, l)
	r := inParallel(t, func() (store.Run, error) { return b.FailRun(b.ctx, k, protocol.CodeInternal, "no luck") })
	if r.Outcome != store.StatusFailed {
		t.Fatalf("%+v", r)
	}
	if err := b.Renew(b.ctx, l, Lease); !errors.Is(err, store.ErrLost) {
		t.Errorf("the worker is not told: %v", err)
	}
	b.MustRecord(t, late, store.DecisionConceded)
	b.wantLedger(t, "an_1", "credit.refund/0 refunded", "credit.reserve/0 default")
	if _, err := b.NotifyRun(b.ctx, k); err != nil {
		t.Fatal(err)
	}
	b.wantLedger(t, "an_1", "credit.refund/0 refunded", "credit.reserve/0 default", "notice/0 failed")

	k = b.Running(t, "an_2", store.RunSubmitted)
	l = LeaseOf(b.MustRedeem(t, "an_2", QueueHolder("w1", "an_2", 1)))
	b.MustRecord(t, b.Completed(t, l), store.DecisionAccepted)
	if r, err := b.FailRun(b.ctx, k, protocol.CodeInternal, "late"); err != nil || r.Outcome != store.StatusDelivered {
		t.Fatalf("%+v, %v: a delivered round was failed", r, err)
	}
	b.WantStatus(t, "an_2", store.StatusDelivered)
}

// testRunRounds: a retry by a person is a run of its own, with its own notice.
func testRunRounds(t *testing.T, b *Bundle) {
	k := b.Running(t, "an_1", store.RunFollowed)
	first := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	b.MustRecord(t, Failed(first), store.DecisionAccepted)
	second := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w2", "an_1", 2)))
	if got := b.count(t, store.OutboxRun); got != 2 {
		t.Fatalf("%d runs begun for two rounds", got)
	}
	again := store.RunKey{AnalysisID: "an_1", Round: 1}
	if r, err := b.DispatchRun(b.ctx, again, store.WayQueue); err != nil || r.Way != store.WayNone || r.Reason != store.RunReopened || r.Outcome != "" {
		t.Fatalf("%+v, %v: the work is under way already", r, err)
	}
	b.MustRecord(t, b.Completed(t, second), store.DecisionAccepted)
	for key, want := range map[store.RunKey]store.Status{k: store.StatusFailed, again: store.StatusDelivered} {
		if r, err := b.NotifyRun(b.ctx, key); err != nil || r.Outcome != want {
			t.Errorf("%+v, %v", r, err)
		}
	}
	b.wantLedger(t, "an_1", "credit.refund/0 refunded", "credit.reserve/0 default", "credit.reserve/1 default", "credit.settle/1 settled",
		"notice/0 failed", "notice/1 delivered")
	runs, err := b.AnalysisRuns(b.ctx, "an_1")
	if err != nil || len(runs) != 2 || runs[0].Round != 0 || runs[1].Round != 1 {
		t.Fatalf("%+v, %v", runs, err)
	}
	if open, err := b.OpenRuns(b.ctx, b.Clock.Now().Add(time.Hour), store.Run{}, 10); err != nil || len(open) != 0 {
		t.Fatalf("still open: %+v, %v", open, err)
	}
}

// testDecidedRuns: those that were decided first come first, page by page, whatever their names.
func testDecidedRuns(t *testing.T, b *Bundle) {
	const runs = 7
	var want []string
	for i := range runs {
		id := fmt.Sprintf("an_%d", runs-i)
		b.Running(t, id, store.RunFollowed)
		want = append(want, id)
	}
	for i, id := range want {
		if i%3 != 0 { // some are decided in the same moment
			b.Clock.Advance(time.Second)
		}
		if _, err := b.Cancel(b.ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	want[2], want[3] = want[3], want[2] // then their names decide
	want[5], want[6] = want[6], want[5]
	var got []string
	after := store.DecidedRun{}
	for {
		page, err := b.DecidedRuns(b.ctx, after, 2)
		if err != nil || len(page) > 2 {
			t.Fatal(page, err)
		}
		if len(page) == 0 {
			break
		}
		for _, d := range page {
			got = append(got, d.AnalysisID)
		}
		after = page[len(page)-1]
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	ended := store.RunKey{AnalysisID: want[0]}
	if _, err := b.NotifyRun(b.ctx, ended); err != nil {
		t.Fatal(err)
	}
	if page, err := b.DecidedRuns(b.ctx, store.DecidedRun{}, 1); err != nil || len(page) != 1 || page[0].AnalysisID != want[1] {
		t.Errorf("after the end of %s: %+v, %v", ended.AnalysisID, page, err)
	}
}

// testRunOfTheDoor: what came through the door and was lost goes through the door again.
func testRunOfTheDoor(t *testing.T, b *Bundle) {
	for i, lose := range []func(store.Lease){
		func(l store.Lease) { b.MustRecord(t, Interrupted(l), store.DecisionAccepted) },
		func(store.Lease) {
			b.Clock.Advance(Lease + time.Hour)
			if n, err := b.RequeueLapsed(b.ctx, time.Minute, 10); err != nil || n != 1 {
				t.Fatal(n, err)
			}
		},
	} {
		id := fmt.Sprintf("an_%d", i)
		k := b.Running(t, id, store.RunSubmitted)
		if _, err := b.DispatchRun(b.ctx, k, store.WayHTTP); err != nil {
			t.Fatal(err)
		}
		lose(LeaseOf(b.MustRedeem(t, id, HTTPHolder("w1", id))))
		if door, queue := b.count(t, store.OutboxDoor), b.count(t, store.OutboxDispatch); door != 2*(i+1) || queue != 0 {
			t.Errorf("%s: %d by the door, %d by the queue", id, door, queue)
		}
	}
}
