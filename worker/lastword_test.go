package worker_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker/internal/controltest"
)

// A callback that the worker must not call is found before minutes of work are spent on a result that nobody can have.
func TestCallbackNotAllowed(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.plane.Add("an_1", "ok")
	b.plane.Callback = "http://elsewhere.test/results"
	w := b.start()
	b.add("an_1", 3)
	job := b.awaitState("an_1", queue.StateFailed)
	if job.AttemptsMade != 1 || !strings.Contains(job.FailedReason, "callback") {
		t.Errorf("%q after %d attempts", job.FailedReason, job.AttemptsMade)
	}
	if ops := operations(b.plane, "an_1"); slices.Contains(ops, "get") || !slices.Contains(ops, "release") {
		t.Errorf("operations %v: nothing had to be fetched, and the claim to be released", ops)
	}
	w.awaitIdle()
}

// The lease runs out because no renewal gets through, on the last attempt: the control plane is told that no other follows.
func TestLeaseRunsOutOnTheLastAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.plane.Add("an_1", "hang")
	b.plane.Lease = time.Second
	b.plane.Fault("renew", controltest.Status(http.StatusServiceUnavailable))
	w := b.start()
	b.add("an_1", 1)
	job := b.awaitState("an_1", queue.StateFailed)
	if !strings.HasPrefix(job.FailedReason, string(protocol.CodeClaimLost)+": ") {
		t.Errorf("reason %q", job.FailedReason)
	}
	results := b.plane.Results("an_1")
	if len(results) != 1 || results[0].Parsed.Type != protocol.ResultFailed || results[0].Parsed.Data.Error.Code != protocol.CodeClaimLost {
		t.Errorf("results %+v", results)
	}
	w.awaitIdle()
}

// A failure is stored, and its answer takes longer than the next renewal, which is told that the analysis is decided: it is decided by that
// failure, and the job fails for good.
func TestRenewalBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.plane.Add("an_1", "error no_video_stream")
	b.plane.Lease = 6 * time.Second
	posted, renewed := make(chan struct{}), make(chan struct{})
	var once, again sync.Once
	b.plane.Fault("result", func(_ http.ResponseWriter, r *http.Request) bool {
		once.Do(func() { close(posted) })
		select {
		case <-renewed:
		case <-time.After(long):
		}
		select {
		case <-r.Context().Done(): // the worker has given up
			return true
		case <-time.After(time.Second): // the slowness of the answer
			return false
		}
	})
	b.plane.Fault("renew", func(w http.ResponseWriter, _ *http.Request) bool {
		select {
		case <-posted:
		default:
			return false
		}
		w.Header().Set("Content-Type", protocol.ProblemContentType)
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(protocol.Problem{Status: http.StatusConflict, Reason: protocol.GoneDelivered})
		again.Do(func() { close(renewed) })
		return true
	})
	w := b.start()
	b.add("an_1", 3)
	job := b.awaitState("an_1", queue.StateFailed)
	if !strings.HasPrefix(job.FailedReason, string(protocol.CodeNoVideoStream)+": ") {
		t.Errorf("reason %q", job.FailedReason)
	}
	if results := b.plane.Results("an_1"); len(results) != 1 || results[0].Status != http.StatusOK {
		t.Errorf("results %+v", results)
	}
	w.awaitIdle()
}
