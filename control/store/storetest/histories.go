package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// history is one analysis under random use, with what must hold at every step kept beside it.
type history struct {
	*Bundle
	id string
	// leases are all that were given out; last is the analysis after the last step.
	leases []store.Lease
	last   store.Analysis
	// life counts how often the analysis was decided and reopened.
	decided, reopened int
}

// testHistories lets starts, renewals, releases, results, cancellation and time happen in any order, and holds every
// step against the promises of the package comment of store.
func testHistories(t *testing.T, b *Bundle) {
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		h := &history{Bundle: b, id: fmt.Sprintf("an_%d", n)}
		h.last = b.Queued(t, h.id)
		settledBefore := b.count(t, store.OutboxSettled)
		r.Repeat(map[string]func(*rapid.T){
			"redeem":  h.redeem,
			"renew":   h.renew,
			"release": h.release,
			"result":  h.result,
			"cancel":  h.cancel,
			"time":    func(r *rapid.T) { b.Clock.Advance(time.Duration(rapid.IntRange(1, 200).Draw(r, "s")) * time.Second) },
			"":        h.check,
		})
		if got := b.count(t, store.OutboxSettled) - settledBefore; got != h.decided {
			r.Fatalf("%d notices for %d decisions", got, h.decided)
		}
		h.drain(t)
	})
}

// drain empties the outbox, so that the next history counts its own entries only.
func (h *history) drain(t *testing.T) {
	all, err := h.Outbox(h.ctx, 1000)
	for _, e := range all {
		err = errors.Join(err, h.OutboxDone(h.ctx, e))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (h *history) redeem(r *rapid.T) {
	who := rapid.SampledFrom([]store.Holder{
		QueueHolder("w1", h.id, 1), QueueHolder("w2", h.id, 1), QueueHolder("w1", h.id, 2), QueueHolder("w2", h.id, 3),
		QueueHolder("w3", h.id, 4), HTTPHolder("w1", h.id), HTTPHolder("w2", h.id),
	}).Draw(r, "holder")
	before := h.last
	g, err := h.Redeem(h.ctx, h.id, who, store.JobSeen{}, Lease)
	held, isHeld := errors.AsType[*store.HeldError](err)
	gone, isGone := errors.AsType[*store.GoneError](err)
	switch {
	case isHeld:
		if before.Status != store.StatusProcessing || before.Holder == who || !before.LeaseUntil.Equal(h.Clock.Now().Add(held.Left)) {
			r.Fatalf("held for %s, the row was %+v", held.Left, before)
		}
	case isGone:
		if before.Status != gone.Status || !before.Status.Terminal() {
			r.Fatalf("gone as %s, the row was %+v", gone.Status, before)
		}
	case err != nil:
		r.Fatal(err)
	case g.Repeat:
		if g.Analysis.Epoch != before.Epoch || g.Analysis.Claim != before.Claim || before.Holder != who {
			r.Fatalf("a repeat by %+v of %+v", who, before)
		}
	default:
		h.granted(r, before, who, g)
	}
}

// granted checks a new epoch.
func (h *history) granted(r *rapid.T, before store.Analysis, who store.Holder, g store.Grant) {
	later := before.Holder.Source == who.Source && before.Holder.JobID == who.JobID && who.Attempt > before.Holder.Attempt
	live := before.Status == store.StatusProcessing && before.LeaseUntil.After(h.Clock.Now())
	if g.Analysis.Epoch != before.Epoch+1 || g.Analysis.Claim == before.Claim {
		r.Fatalf("epoch %d after %d", g.Analysis.Epoch, before.Epoch)
	}
	if live && !later {
		r.Fatalf("%+v robbed %+v", who, before.Holder)
	}
	if before.Status == store.StatusFailed {
		h.reopened++
		if !later {
			r.Fatalf("%+v reopened a failure of %+v", who, before.Holder)
		}
	} else if before.Status.Terminal() {
		r.Fatalf("a claim of a %s analysis", before.Status)
	}
	h.leases = append(h.leases, LeaseOf(g))
}

// pick chooses a lease that was given out, the newest ones as often as all others.
func (h *history) pick(r *rapid.T) store.Lease {
	if len(h.leases) == 0 {
		r.Skip("no lease yet")
	}

	return h.leases[max(0, len(h.leases)-1-rapid.IntRange(0, 3).Draw(r, "back"))]
}

func (h *history) renew(r *rapid.T) {
	l := h.pick(r)
	err := h.Renew(h.ctx, l, Lease)
	mine := h.last.Status == store.StatusProcessing && h.last.Epoch == l.Epoch
	if mine != (err == nil) || (err != nil && !errors.Is(err, store.ErrLost)) {
		r.Fatalf("renew of epoch %d: %v, the row was %+v", l.Epoch, err, h.last)
	}
}

func (h *history) release(r *rapid.T) {
	if err := h.Release(h.ctx, h.pick(r)); err != nil {
		r.Fatal(err)
	}
}

func (h *history) result(r *rapid.T) {
	l := h.pick(r)
	var p store.ResultPost
	switch rapid.SampledFrom([]string{"completed", "failed", "failed", "interrupted"}).Draw(r, "type") {
	case "completed":
		if h.last.Status != store.StatusProcessing || h.last.Epoch != l.Epoch {
			r.Skip("its artifact can't be granted any more")
		}
		art := Artifact(l)
		if err := h.GrantArtifact(h.ctx, l, art); err != nil {
			r.Fatal(err)
		}
		p = Post(l, "pose.completed", func(d *protocol.ResultData) {
			d.Artifact = &protocol.Artifact{Key: art.Key, Size: art.Size, SHA256: art.SHA256}
		})
	case "failed":
		p = Failed(l)
	case "interrupted":
		p = Interrupted(l)
	}
	v, err := h.RecordResult(h.ctx, p)
	if errors.Is(err, store.ErrConflict) {
		return // completed and failed of one epoch share an id; the first one had it
	}
	if err != nil {
		r.Fatal(err)
	}
	counts := v.Decision == store.DecisionAccepted && !v.Repeat
	if counts && (h.last.Status.Terminal() || (h.last.Epoch != l.Epoch && p.Result.Type != "pose.completed")) {
		r.Fatalf("%s of epoch %d counted over %+v", p.Result.Type, l.Epoch, h.last)
	}
	if counts && v.Status.Terminal() {
		h.decided++
	}
}

func (h *history) cancel(r *rapid.T) {
	if rapid.IntRange(0, 9).Draw(r, "rarely") != 0 {
		r.Skip("most are not cancelled")
	}
	a, err := h.Cancel(h.ctx, h.id)
	if (err != nil) != (h.last.Status == store.StatusDelivered || h.last.Status == store.StatusFailed) {
		r.Fatalf("cancel: %v, the row was %+v", err, h.last)
	}
	if err == nil && h.last.Status != a.Status {
		h.decided++
	}
}

// check holds after every step.
func (h *history) check(r *rapid.T) {
	a, err := h.Analysis(h.ctx, h.id)
	if err != nil {
		r.Fatal(err)
	}
	was := h.last
	if a.Epoch < was.Epoch {
		r.Fatalf("epoch fell from %d to %d", was.Epoch, a.Epoch)
	}
	if (was.Status == store.StatusDelivered || was.Status == store.StatusCancelled) && (a.Status != was.Status || string(a.Result) != string(was.Result)) {
		r.Fatalf("%s became %s", was.Status, a.Status)
	}
	if (a.Status == store.StatusProcessing) != !a.LeaseUntil.IsZero() {
		r.Fatalf("status %s with a lease until %s", a.Status, a.LeaseUntil)
	}
	if a.Status.Terminal() == a.SettledAt.IsZero() {
		r.Fatalf("status %s settled at %s", a.Status, a.SettledAt)
	}
	h.last = a
}
