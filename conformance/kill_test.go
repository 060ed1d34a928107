package conformance

import (
	"slices"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
)

// TestKillWorker: kill -9 in the middle of a real extraction. Another worker finishes the job, there is exactly one delivered result, the
// extractor does not outlive its worker, and nothing is left in active or, once that worker is started again, in its scratch space.
func TestKillWorker(t *testing.T) {
	t.Parallel()
	realExtractor(t)

	s := newSystem(t, posefleet(t))
	video := need.Media(t, "videos/pose2sim_balance_cam01.mp4")
	settings := extra{"POSEFLEET_LOCK_DURATION": "2s", "POSEFLEET_STALLED_INTERVAL": "1s"}

	s.prepare("an_1", clip{"balance.mp4", video}, &protocol.Params{Model: "lite"})
	s.add("an_1", 3)

	killed := s.startWorker("killed", settings)
	killed.awaitExtract(t, s, "an_1")

	children := descendants(killed.Pid())
	if len(children) == 0 {
		t.Error("the worker has no extractor process")
	}

	killed.Kill()

	if len(leftovers(killed.workDir)) == 0 {
		t.Error("nothing in scratch space: the worker was not in the middle of it")
	}

	other := s.startWorker("other", settings)
	job := s.awaitJob("an_1")

	if string(job.ReturnValue) != `{"outcome":"completed","epoch":2}` || job.AttemptsStarted != 2 || job.StalledCount != 1 {
		t.Errorf("return value %s, starts %d, stalled %d", job.ReturnValue, job.AttemptsStarted, job.StalledCount)
	}

	s.checkDeliveredOnce(t, "an_1")
	wait.For(t, startLimit, func() bool { return !slices.ContainsFunc(children, alive) }, "processes of the killed worker live on: %v", children)

	s.restart(killed)
	s.checkQuiet(killed, other)
}

// awaitExtract waits until the worker is in the extract stage of a job.
func (w *worker) awaitExtract(t *testing.T, s *system, id string) {
	t.Helper()

	k := s.door(w)

	wait.For(t, jobLimit, func() bool {
		state, err := k.state(t.Context(), id)

		return err == nil && state.Stage == protocol.StageExtract && state.Progress > 0
	}, "%s does not get to extract", id)
}

// checkDeliveredOnce: one result counts, and it is stored.
func (s *system) checkDeliveredOnce(t *testing.T, id string) {
	t.Helper()

	accepted := 0

	for _, m := range s.front.seen("result", id) {
		if m.Status == 200 && m.resultType() == protocol.ResultCompleted && !alreadyDelivered(m) {
			accepted++
		}
	}

	if accepted != 1 {
		t.Errorf("%d results of %s were accepted", accepted, id)
	}

	if got := s.status(id); got != "delivered" {
		t.Errorf("%s is %s", id, got)
	}

	var document struct {
		Schema string `json:"schema"`
	}
	if err := s.api.Pose(t.Context(), id, &document); err != nil || document.Schema != "posefleet.pose/1" {
		t.Errorf("stored document: schema %q, %v", document.Schema, err)
	}
}
