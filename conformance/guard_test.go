package conformance

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
)

// TestGuard shows what the compare-and-set is for. An execution fails, but its report is slow: it hangs somewhere in the network while the
// worker behind it dies, the queue hands the job to another worker, and that one delivers. Then the report arrives. With the guard the
// result stays; in a build of the control plane without it (-tags unguarded) the failure is written over a delivered result.
func TestGuard(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name     string
		program  func(testing.TB) string
		status   string
		conceded bool
	}{
		{"guarded", posefleet, "delivered", true},
		{"unguarded", unguarded, "failed", false},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			s := newSystem(t, test.program(t))
			late := s.holdResult("an_1", protocol.ResultFailed)

			s.prepare("an_1", s.textClip(), nil)
			s.add("an_1", 3)

			failing := s.startWorker("failing", quickLocks(stopwatch{fail: "invalid_media"}))
			late.awaitHeld(t)
			failing.Kill()

			delivering := s.startWorker("delivering", quickLocks(stopwatch{}))
			s.awaitJob("an_1")

			if got := s.status("an_1"); got != "delivered" {
				t.Fatalf("the second execution made it %s", got)
			}

			if got := late.release(t, s); conceded(got) != test.conceded {
				t.Errorf("the late report was answered %d %s", got.Status, got.Answer)
			}

			if got := s.status("an_1"); got != test.status {
				t.Errorf("after the late report the analysis is %s, want %s", got, test.status)
			}

			s.checkQuiet(delivering)
		})
	}
}

// quickLocks are settings for tests in which a worker dies: nobody waits long for its lock.
func quickLocks(s stopwatch) extra {
	return extra{
		"POSEFLEET_LOCK_DURATION":    "4s",
		"POSEFLEET_LOCK_RENEW_TIME":  "500ms", // a machine that stands still for seconds loses none
		"POSEFLEET_STALLED_INTERVAL": "500ms",
		"POSEFLEET_EXTRACTOR":        s.command(),
	}
}

// held is a result that does not get on.
type held struct {
	id   string
	kind protocol.ResultType
	came chan struct{} // closed when it is there
	// webhookID is the held message's, valid once it came.
	webhookID string
	// letGo lets it go on; it may be called twice.
	letGo func()
}

// holdResult holds the first result of this type for the analysis in front of the control plane.
func (s *system) holdResult(id string, kind protocol.ResultType) *held {
	free := make(chan struct{})
	h := &held{id: id, kind: kind, came: make(chan struct{}), letGo: sync.OnceFunc(func() { close(free) })}
	s.t.Cleanup(h.letGo)

	var taken atomic.Bool

	s.front.intercept(func(_ context.Context, m *message) bool {
		if m.is("result", id) && m.resultType() == kind && taken.CompareAndSwap(false, true) {
			h.webhookID = m.WebhookID

			close(h.came)
			<-free // not the request's end: a message in the network outlives its sender
		}

		return true
	}, nil)

	return h
}

func (h *held) awaitHeld(t *testing.T) {
	t.Helper()
	awaitClosed(t, h.came, string(h.kind))
}

// release lets the result go on and returns it with the control plane's answer.
func (h *held) release(t *testing.T, s *system) message {
	t.Helper()
	h.letGo()

	var late message

	wait.For(t, startLimit, func() bool {
		for _, m := range s.front.seen("result", h.id) {
			if m.WebhookID == h.webhookID && m.Status != 0 {
				late = m

				return true
			}
		}

		return false
	}, "the late %s is not answered", h.kind)

	return late
}

// conceded tells whether the control plane said that another result counts.
func conceded(m message) bool { return m.Status == http.StatusConflict || alreadyDelivered(m) }
