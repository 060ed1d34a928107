package worker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

func TestReplays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rs := newReplays()
		sum := digest("POST", "/v1/jobs", []byte("{}"))
		r, first, same := rs.claim("msg_1", sum)
		if !first || !same {
			t.Fatal("a new message is not first")
		}
		if _, again, same := rs.claim("msg_1", sum); again || !same {
			t.Fatal("a repetition counts as new")
		}
		for _, other := range [][32]byte{
			digest("POST", "/v1/jobs", []byte("{ }")), digest("POST", "/v1/jobs/a/cancel", []byte("{}")), digest("GET", "/v1/jobs", []byte("{}")),
		} {
			if _, _, same := rs.claim("msg_1", other); same {
				t.Error("another content counts as the same")
			}
		}
		if rs.reopen(r) {
			t.Error("reopened while it is being decided")
		}
		rs.settle(r, answer{status: 429}, false)
		if known, _ := rs.state(r); known != nil {
			t.Error("an undecided answer was kept")
		}
		if !rs.reopen(r) || rs.reopen(r) {
			t.Error("an undecided message is judged again by exactly one")
		}
		rs.settle(r, answer{status: 202}, true)
		if known, _ := rs.state(r); known == nil || known.status != 202 || rs.reopen(r) {
			t.Error("a decision was not kept")
		}
		time.Sleep(replayFor + time.Second) //nolint:forbidigo // fake time
		if _, first, _ := rs.claim("msg_1", sum); !first {
			t.Error("not forgotten after 10 minutes")
		}
		for i := range 2 * replayKept {
			rs.claim(fmt.Sprint("msg_many_", i), sum)
		}
		if n := rs.order.Len(); n > replayKept || n != len(rs.byID) {
			t.Errorf("%d remembered, %d indexed", n, len(rs.byID))
		}
	})
}

func TestRunsRememberEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rs := newRuns()
		for i := range endedKept + 10 {
			r := newTestRun(fmt.Sprint("an_", i))
			if rs.begin(r, true) != r {
				t.Fatal("not begun")
			}
			rs.end(r, protocol.DoorDelivered, true)
		}
		if _, ok := rs.lately("an_0"); ok || len(rs.ended) != endedKept || rs.order.Len() != endedKept {
			t.Errorf("%d ends kept", len(rs.ended))
		}
		last := fmt.Sprint("an_", endedKept+9)
		if end, ok := rs.lately(last); !ok || !end.final || end.state.Status != protocol.DoorDelivered || end.state.Progress != 1 {
			t.Errorf("end %+v %t", end, ok)
		}
		time.Sleep(endedFor) //nolint:forbidigo // fake time
		if _, ok := rs.lately(last); ok {
			t.Error("remembered after an hour")
		}
		select {
		case <-rs.empty():
		default:
			t.Error("not empty")
		}
	})
}

func TestRunsOfOneID(t *testing.T) {
	t.Parallel()
	rs := newRuns()
	a, b := newTestRun("an_1"), newTestRun("an_1")
	rs.begin(a, true)
	if rs.begin(b, true) != a {
		t.Error("the door started the same id twice")
	}
	if rs.begin(b, false) != b { // the queue's second start, while the first is being killed
		t.Error("the queue was refused")
	}
	rs.end(a, "", false)
	if rs.find("an_1") != b {
		t.Error("the second run is not found")
	}
	rs.cancelAll(ErrDraining)
	c := newTestRun("an_2")
	ctx, cancel := context.WithCancelCause(t.Context())
	c.cancel = cancel
	rs.begin(c, false)
	if context.Cause(ctx) != ErrDraining { //nolint:errorlint // the very cause
		t.Error("a run that began after cancelAll goes on")
	}
	rs.close()
	if rs.begin(newTestRun("an_3"), true) != nil {
		t.Error("a closed registry let the door begin")
	}
}

func newTestRun(id string) *run {
	return &run{id: id, source: protocol.SourceHTTP, attempt: 1, started: time.Now(), cancel: func(error) {}}
}

func TestRemaining(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newTestRun("an_1")
		r.enter(protocol.StageExtract)
		if _, ok := r.remaining(time.Now()); ok {
			t.Error("an estimate before anything is known")
		}
		time.Sleep(30 * time.Second) //nolint:forbidigo // fake time
		r.setProgress(0.5)           // 15 % + 40 %
		left, ok := r.remaining(time.Now())
		if want := 24545 * time.Millisecond; !ok || left.Round(time.Millisecond) != want {
			t.Errorf("%s %t, want %s", left, ok, want)
		}
	})
}
