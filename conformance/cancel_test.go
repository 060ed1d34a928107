package conformance

import (
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// soon is far less than the 40 s to the next renewal of a lease of two minutes.
const soon = 30 * time.Second

// TestCancelRunning cancels an analysis at the control plane while a worker is at it: the worker stops at once, the queue's job completes as
// cancelled, and a job that still waited is gone. Nothing of either is left for a worker to come.
func TestCancelRunning(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	w := s.startWorker("worker", extra{"POSEFLEET_EXTRACTOR": stopwatch{work: 10 * time.Minute}.command()})

	for _, id := range []string{"an_1", "an_2"} {
		s.upload(id, s.textClip(), nil)

		if err := s.api.Submit(t.Context(), id, operator.DispatchQueue); err != nil {
			t.Fatal(err)
		}

		if id == "an_1" {
			w.awaitExtract(t, s, id)
		}
	}

	s.awaitState("an_2", queue.StateWaiting) // there is one slot
	s.prepare("an_3", s.textClip(), nil)
	s.add("an_3", 3) // somebody else's job stays his

	for _, id := range []string{"an_3", "an_2"} {
		if err := s.api.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}

	wait.For(t, soon, func() bool { return s.stateOf("an_2") == queue.StateUnknown }, "the job that waits is not removed")

	if got := s.stateOf("an_3"); got != queue.StateWaiting {
		t.Errorf("the job that another added is %s", got)
	}

	s.cancelNow(t, "an_1")

	for _, id := range []string{"an_1", "an_3"} {
		job := s.awaitJob(id)
		if want := map[string]string{"an_1": `{"outcome":"cancelled","epoch":1}`, "an_3": `{"outcome":"cancelled"}`}[id]; string(job.ReturnValue) != want {
			t.Errorf("%s returned %s, want %s", id, job.ReturnValue, want)
		}
	}

	s.checkQuiet(w)
	s.checkEmpty(t)
}

// TestCancelByDoor is the same with a worker that knows no queue.
func TestCancelByDoor(t *testing.T) {
	t.Parallel()

	s := newQueueOnly(t)
	s.front, s.dir = newFront(t), t.TempDir()
	s.workerSecret, s.doorSecret = webhook.Generate(), webhook.Generate()
	door := address(t)
	s.controlEnv = extra{"POSEFLEET_DISPATCH": "http:100%", "POSEFLEET_DOOR_URL": "http://" + door + "/v1/jobs", "POSEFLEET_DOOR_SECRET": s.doorSecret}
	s.startControl(posefleet(t))
	w := s.startWorker("worker", extra{
		"POSEFLEET_LISTEN": door, "POSEFLEET_QUEUE_ENABLED": "false", "POSEFLEET_EXTRACTOR": stopwatch{work: 10 * time.Minute}.command(),
	})

	s.upload("an_1", s.textClip(), nil)

	if err := s.api.Submit(t.Context(), "an_1", operator.DispatchQueue); err != nil {
		t.Fatal(err)
	}

	w.awaitExtract(t, s, "an_1")
	began := time.Now()

	if err := s.api.Cancel(t.Context(), "an_1"); err != nil {
		t.Fatal(err)
	}

	k := s.door(w)

	wait.For(t, soon, func() bool {
		state, err := k.state(t.Context(), "an_1")

		return err == nil && state.Status == protocol.DoorCancelled
	}, "the worker goes on")
	t.Logf("stopped after %v", time.Since(began))
	s.checkQuiet(w)
	s.checkEmpty(t)
}

// cancelNow cancels an analysis that a worker is at, and checks that its job ends soon.
func (s *system) cancelNow(t *testing.T, id string) {
	t.Helper()

	began := time.Now()

	if err := s.api.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}

	wait.For(t, soon, func() bool { return s.stateOf(id) == queue.StateCompleted }, "the worker goes on at %s", id)
	t.Logf("%s ended %v after it was cancelled", id, time.Since(began))
}

// checkEmpty checks that no job is left to be done, now or later.
func (s *system) checkEmpty(t *testing.T) {
	t.Helper()

	c, err := s.queue.Counts(t.Context())
	if err != nil || c.Waiting+c.Active+c.Delayed+c.Prioritized+c.Failed != 0 {
		t.Errorf("left in the queue: %+v, %v", c, err)
	}
}
