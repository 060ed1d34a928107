package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

func testResultDelivered(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	l := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	p := b.Completed(t, l)
	if v := b.MustRecord(t, p, store.DecisionAccepted); v.Repeat || v.Status != store.StatusDelivered {
		t.Fatalf("%+v", v)
	}
	a := b.WantStatus(t, "an_1", store.StatusDelivered)
	if a.ResultID != p.WebhookID || !bytes.Equal(a.Result, p.Body) || *a.Artifact != *p.Result.Data.Artifact || a.SettledAt.IsZero() {
		t.Fatalf("%+v", a)
	}
	if err := b.Renew(b.ctx, l, Lease); !errors.Is(err, store.ErrLost) {
		t.Fatalf("renew: %v", err)
	}
	_, err := b.Redeem(b.ctx, "an_1", QueueHolder("w2", "an_1", 2), store.JobSeen{}, Lease)
	if gone, ok := errors.AsType[*store.GoneError](err); !ok || gone.Status != store.StatusDelivered {
		t.Fatalf("redeem: %v", err)
	}
	if got := b.count(t, store.OutboxSettled); got != 1 {
		t.Fatalf("%d notices, want 1", got)
	}
}

// Design row "7, answer lost": the worker posts again, with the same id and the same bytes.
func testResultRepeated(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	p := b.Completed(t, LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1))))
	b.MustRecord(t, p, store.DecisionAccepted)
	if v := b.MustRecord(t, p, store.DecisionAccepted); !v.Repeat || v.Status != store.StatusDelivered {
		t.Fatalf("%+v", v)
	}
	other := p
	other.Body = append(bytes.Clone(p.Body), ' ')
	if _, err := b.RecordResult(b.ctx, other); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("another body under the same id: %v", err)
	}
	if got := b.count(t, store.OutboxSettled); got != 1 {
		t.Fatalf("%d notices, want 1", got)
	}
	if a := b.WantStatus(t, "an_1", store.StatusDelivered); !bytes.Equal(a.Result, p.Body) {
		t.Fatal("the body was replaced")
	}
}

// A valid result of a former epoch counts if nothing has been decided; its failure and its interruption do not.
func testResultOldEpoch(t *testing.T, b *Bundle) {
	two := func(id string) (store.Lease, store.ResultPost, store.Lease) {
		b.Queued(t, id)
		l1 := LeaseOf(b.MustRedeem(t, id, QueueHolder("w1", id, 1)))
		done := b.Completed(t, l1)

		return l1, done, LeaseOf(b.MustRedeem(t, id, QueueHolder("w2", id, 2)))
	}
	_, done, l2 := two("an_ok")
	b.MustRecord(t, done, store.DecisionAccepted)
	if err := b.Renew(b.ctx, l2, Lease); !errors.Is(err, store.ErrLost) {
		t.Fatalf("the newer execution is not told: %v", err)
	}
	b.MustRecord(t, Failed(l2), store.DecisionConceded)
	b.WantStatus(t, "an_ok", store.StatusDelivered)

	// Given back, and then its report arrives after all: the work was done.
	b.Queued(t, "an_back")
	given := LeaseOf(b.MustRedeem(t, "an_back", QueueHolder("w1", "an_back", 1)))
	late := b.Completed(t, given)
	if err := b.Release(b.ctx, given); err != nil {
		t.Fatal(err)
	}
	if err := b.GrantArtifact(b.ctx, given, Artifact(given)); !errors.Is(err, store.ErrLost) {
		t.Fatalf("artifact of a released claim: %v", err)
	}
	b.MustRecord(t, late, store.DecisionAccepted)
	b.WantStatus(t, "an_back", store.StatusDelivered)

	l1, done, l2 := two("an_bad")
	b.MustRecord(t, Failed(l1), store.DecisionSuperseded)
	b.MustRecord(t, Interrupted(l1), store.DecisionSuperseded)
	b.WantStatus(t, "an_bad", store.StatusProcessing)
	if err := b.Renew(b.ctx, l2, Lease); err != nil {
		t.Fatalf("the newer execution was disturbed: %v", err)
	}
	b.MustRecord(t, Failed(l2), store.DecisionAccepted)
	b.WantStatus(t, "an_bad", store.StatusFailed)
	// A late success after a decided failure concedes: somebody has been told of the failure, perhaps refunded.
	late = done
	late.WebhookID += "_late"
	b.MustRecord(t, late, store.DecisionConceded)
	b.WantStatus(t, "an_bad", store.StatusFailed)
}

func testResultUnissued(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	l := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	good := b.Completed(t, l)
	for _, c := range []struct {
		name string
		want error
		edit func(*protocol.ResultData)
	}{
		{"analysis", store.ErrUnknown, func(d *protocol.ResultData) { d.AnalysisID = "an_2" }},
		{"claim", store.ErrUnissued, func(d *protocol.ResultData) { d.Claim = "clm_other" }},
		{"epoch", store.ErrUnissued, func(d *protocol.ResultData) { d.Epoch = 2 }},
		{"key", store.ErrUnissued, func(d *protocol.ResultData) { d.Artifact.Key = "analyses/an_2/pose.json.gz" }},
		{"size", store.ErrUnissued, func(d *protocol.ResultData) { d.Artifact.Size++ }},
		{"sha256", store.ErrUnissued, func(d *protocol.ResultData) { d.Artifact.SHA256 = "00" }},
	} {
		p := good
		art := *good.Result.Data.Artifact
		p.Result.Data.Artifact = &art
		c.edit(&p.Result.Data)
		if _, err := b.RecordResult(b.ctx, p); !errors.Is(err, c.want) {
			t.Errorf("another %s: %v", c.name, err)
		}
	}
	// G07: none of the refused ones has used up the id.
	b.MustRecord(t, good, store.DecisionAccepted)
}

// Twenty different outcomes at once: one counts.
func testResultParallel(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	var posts []store.ResultPost
	for i := range 20 {
		l := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder(fmt.Sprint("w", i), "an_1", i+1)))
		posts = append(posts, b.Completed(t, l))
	}
	won, conceded := 0, 0
	for i, v := range parallel(len(posts), func(i int) any {
		v, err := b.RecordResult(b.ctx, posts[i])
		if err != nil {
			return err
		}

		return v.Decision
	}) {
		switch v {
		case store.DecisionAccepted:
			won++
		case store.DecisionConceded:
			conceded++
		default:
			t.Errorf("%d: %v", i, v)
		}
	}
	if notices := b.count(t, store.OutboxSettled); won != 1 || conceded != 19 || notices != 1 {
		t.Fatalf("%d accepted, %d conceded, %d notices", won, conceded, notices)
	}
}

// Twenty arrivals of one message at once: one effect, twenty equal answers. Interruptions are the hard case, since
// the row is not terminal after the first.
func testResultSameParallel(t *testing.T, b *Bundle) {
	for _, kind := range []protocol.ResultType{protocol.ResultCompleted, protocol.ResultFailed, protocol.ResultInterrupted} {
		id := "an_" + string(kind[len("pose."):])
		b.Queued(t, id)
		l := LeaseOf(b.MustRedeem(t, id, HTTPHolder("w1", id)))
		p := map[protocol.ResultType]store.ResultPost{
			protocol.ResultCompleted: b.Completed(t, l), protocol.ResultFailed: Failed(l), protocol.ResultInterrupted: Interrupted(l),
		}[kind]
		outbox := map[bool]store.OutboxKind{true: store.OutboxDispatch, false: store.OutboxSettled}[kind == protocol.ResultInterrupted]
		before := b.count(t, outbox)
		first := 0
		for i, v := range parallel(20, func(int) any {
			v, err := b.RecordResult(b.ctx, p)
			if err != nil {
				return err
			}

			return v
		}) {
			v, ok := v.(store.Verdict)
			if !ok || v.Decision != store.DecisionAccepted {
				t.Errorf("%s %d: %v", kind, i, v)
			}
			if !v.Repeat {
				first++
			}
		}
		if got := b.count(t, outbox) - before; first != 1 || got != 1 {
			t.Errorf("%s: %d effects, %d outbox entries", kind, first, got)
		}
	}
}

func testResultAfterCancel(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	p := b.Completed(t, LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1))))
	if _, err := b.Cancel(b.ctx, "an_1"); err != nil {
		t.Fatal(err)
	}
	if v := b.MustRecord(t, p, store.DecisionConceded); v.Status != store.StatusCancelled {
		t.Fatalf("%+v", v)
	}
	b.WantStatus(t, "an_1", store.StatusCancelled)
}

func testInterruptedHTTP(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	h := HTTPHolder("w1", "an_1")
	l := LeaseOf(b.MustRedeem(t, "an_1", h))
	b.MustRecord(t, Interrupted(l), store.DecisionAccepted)
	b.WantStatus(t, "an_1", store.StatusQueued)
	if got := b.count(t, store.OutboxDispatch); got != 1 {
		t.Fatalf("%d dispatches, want 1", got)
	}
	if err := b.Renew(b.ctx, l, Lease); !errors.Is(err, store.ErrLost) {
		t.Fatalf("renew: %v", err)
	}
	// The worker releases the claim as well, before or after: no matter.
	if err := b.Release(b.ctx, l); err != nil {
		t.Fatal(err)
	}
	b.MustRedeem(t, "an_1", QueueHolder("w2", "an_1", 1))
	b.WantStatus(t, "an_1", store.StatusProcessing)
}

func testInterruptedQueue(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	l := LeaseOf(b.MustRedeem(t, "an_1", QueueHolder("w1", "an_1", 1)))
	if err := b.Release(b.ctx, l); err != nil {
		t.Fatal(err)
	}
	b.MustRecord(t, Interrupted(l), store.DecisionAccepted)
	b.WantStatus(t, "an_1", store.StatusQueued)
	if got := b.count(t, store.OutboxDispatch); got != 0 {
		t.Fatalf("%d dispatches: the queue has the job already", got)
	}
}

func testInterruptedLate(t *testing.T, b *Bundle) {
	b.Queued(t, "an_1")
	l := LeaseOf(b.MustRedeem(t, "an_1", HTTPHolder("w1", "an_1")))
	b.MustRecord(t, b.Completed(t, l), store.DecisionAccepted)
	b.MustRecord(t, Interrupted(l), store.DecisionConceded)
	b.WantStatus(t, "an_1", store.StatusDelivered)
	if got := b.count(t, store.OutboxDispatch); got != 0 {
		t.Fatalf("%d dispatches of a delivered analysis", got)
	}
}
