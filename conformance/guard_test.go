package conformance

import (
	"context"
	"net/http"
	"sync"
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
		name    string
		program func(testing.TB) string
		status  string
		answer  int
	}{
		{"guarded", posefleet, "delivered", http.StatusConflict},
		{"unguarded", unguarded, "failed", http.StatusOK},
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

			if got := late.release(t, s); got != test.answer {
				t.Errorf("the late report was answered %d, want %d", got, test.answer)
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
		"POSEFLEET_LOCK_DURATION":    "1s",
		"POSEFLEET_STALLED_INTERVAL": "500ms",
		"POSEFLEET_EXTRACTOR":        s.command(),
	}
}

// held is a result that does not get on.
type held struct {
	id   string
	kind protocol.ResultType
	came chan struct{} // closed when it is there
	free chan struct{} // closed to let it go on
}

// holdResult holds the first result of this type for the analysis in front of the control plane.
func (s *system) holdResult(id string, kind protocol.ResultType) *held {
	h := &held{id: id, kind: kind, came: make(chan struct{}), free: make(chan struct{})}

	var once sync.Once

	s.front.intercept(func(_ context.Context, m *message) bool {
		if m.is("result", id) && m.resultType() == kind {
			once.Do(func() { close(h.came); <-h.free }) // not the request's end: a message in the network outlives its sender
		}

		return true
	}, nil)

	return h
}

func (h *held) awaitHeld(t *testing.T) {
	t.Helper()
	wait.For(t, jobLimit, func() bool {
		select {
		case <-h.came:
			return true
		default:
			return false
		}
	}, "no %s for %s", h.kind, h.id)
}

// release lets the result go on and returns how the control plane answered it.
func (h *held) release(t *testing.T, s *system) int {
	t.Helper()
	close(h.free)

	status := 0

	wait.For(t, startLimit, func() bool {
		for _, m := range s.front.seen("result", h.id) {
			if m.resultType() == h.kind && m.Status != 0 {
				status = m.Status

				return true
			}
		}

		return false
	}, "the late %s is not answered", h.kind)

	return status
}
