package conformance

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/nettest"
	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// The tests of this file cut the life of a job after one step of docs/guarantees.md each, and check the same at the end: the analysis is
// delivered, exactly one result was accepted, the job is finished, and nothing is left lying about.

// TestCutAfterStep0: the analysis and its outbox row are written; the control plane dies before the relay has added the job.
func TestCutAfterStep0(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	s.upload("an_1", s.textClip(), nil)
	s.redis.Pause()

	if err := s.api.Submit(t.Context(), "an_1", operator.DispatchQueue); err != nil {
		t.Fatal(err)
	}

	s.control.Kill()
	s.redis.Resume()

	if _, err := s.queue.Job(t.Context(), "an_1"); err == nil {
		t.Fatal("the job was added before the cut")
	}

	s.startControl(posefleet(t))
	s.awaitState("an_1", queue.StateWaiting)

	// Step 1, cut after it: the job waits for any worker.
	w := s.startWorker("worker", quickLocks(stopwatch{}))
	s.checkEnd(t, "an_1", 1, w)
}

// cutTest is a worker that is killed at a certain message, and another one that goes on.
type cutTest struct {
	name string
	// kind of the message at which the worker dies, and whether the message arrives before.
	kind    string
	arrives bool
	// starts of the extraction over both workers; epoch and outcome of the return value.
	starts  int
	outcome string
}

// TestCutAfterStep kills -9 the worker that does the job at one message of it; a second worker finds what the first has left.
func TestCutAfterStep(t *testing.T) {
	t.Parallel()

	tests := []cutTest{
		{"2 claimed, not redeemed", "redeem", false, 1, `{"outcome":"completed","epoch":1}`},
		{"3 redeemed", "redeem", true, 1, `{"outcome":"completed","epoch":2}`},
		{"5 extracted", "artifact", false, 2, `{"outcome":"completed","epoch":2}`},
		{"6 uploaded", "result", false, 1, `{"outcome":"completed","epoch":2}`},
		{"7 result stored", "result", true, 1, `{"outcome":"alreadyDelivered"}`},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

func (c cutTest) run(t *testing.T) {
	t.Helper()

	s := newSystem(t, posefleet(t))
	journal := filepath.Join(t.TempDir(), "journal")
	settings := quickLocks(stopwatch{journal: journal})
	reached := s.cutAt("an_1", c.kind, c.arrives)

	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 3)

	killed := s.startWorker("killed", settings)
	awaitClosed(t, reached, "the message "+c.kind)
	killed.Kill()
	s.front.intercept(nil, nil)

	other := s.startWorker("other", settings)
	s.checkEnd(t, "an_1", 2, other)

	if job := s.awaitJob("an_1"); string(job.ReturnValue) != c.outcome {
		t.Errorf("return value %s, want %s", job.ReturnValue, c.outcome)
	}

	if got := starts(journal, "an_1"); got != c.starts {
		t.Errorf("extracted %d times, want %d", got, c.starts)
	}

	s.restart(killed)
	s.checkQuiet(killed, other)
}

// cutAt stops the first message of a kind for good, before the control plane sees it or after, and tells when it was there.
func (s *system) cutAt(id, kind string, arrives bool) <-chan struct{} {
	reached := make(chan struct{})

	var taken atomic.Bool

	stop := func(ctx context.Context, m *message) bool {
		if !m.is(kind, id) || !taken.CompareAndSwap(false, true) {
			return true
		}

		close(reached)
		waitForSender(ctx)

		return false
	}

	if arrives {
		s.front.intercept(nil, stop)
	} else {
		s.front.intercept(stop, nil)
	}

	return reached
}

// waitForSender keeps a message hanging until its sender has gone, or has given up.
func waitForSender(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
	}
}

func awaitClosed(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()

	select {
	case <-c:
	case <-time.After(jobLimit):
		t.Fatalf("%s does not come", what)
	}
}

// checkEnd checks the end that every cut must come to.
func (s *system) checkEnd(t *testing.T, id string, starts int, workers ...*worker) {
	t.Helper()

	job := s.awaitJob(id)
	s.awaitState(id, queue.StateCompleted)

	if job.FailedReason != "" || job.AttemptsStarted != starts {
		t.Errorf("job %s: reason %q, %d starts, want %d", id, job.FailedReason, job.AttemptsStarted, starts)
	}

	s.checkDeliveredOnce(t, id)
	s.checkQuiet(workers...)
}

// TestCutAfterStep4: clips are downloaded; the worker dies while the extractor has only begun.
func TestCutAfterStep4(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	journal := filepath.Join(t.TempDir(), "journal")
	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 3)

	killed := s.startWorker("killed", quickLocks(stopwatch{work: time.Minute, journal: journal}))
	wait.For(t, jobLimit, func() bool { return starts(journal, "an_1") == 1 }, "the extraction does not begin")
	killed.Kill()

	if len(leftovers(killed.workDir)) == 0 {
		t.Error("no clip in scratch space")
	}

	other := s.startWorker("other", quickLocks(stopwatch{journal: journal}))
	s.checkEnd(t, "an_1", 2, other)
	s.restart(killed)
	s.checkQuiet(killed)
}

// TestCutAfterStep7AnswerLost: the result is stored and the answer to it is lost. The worker posts the same bytes under the same id and is
// told that they are there.
func TestCutAfterStep7AnswerLost(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))

	var taken atomic.Bool

	s.front.intercept(nil, func(_ context.Context, m *message) bool {
		return !m.is("result", "an_1") || !taken.CompareAndSwap(false, true)
	})
	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 3)
	w := s.startWorker("worker", quickLocks(stopwatch{}))
	s.checkEnd(t, "an_1", 1, w)

	posts := s.front.seen("result", "an_1")
	if len(posts) != 2 {
		t.Fatalf("%d posts, want 2", len(posts))
	}

	if posts[0].WebhookID != "res_an_1_1" || posts[1].WebhookID != posts[0].WebhookID || string(posts[1].Body) != string(posts[0].Body) {
		t.Errorf("the second post is another message: %s, %s", posts[0].WebhookID, posts[1].WebhookID)
	}

	if posts[1].Status != http.StatusOK || !alreadyDelivered(posts[1]) {
		t.Errorf("the second post was answered %d %s", posts[1].Status, posts[1].Answer)
	}
}

// TestCutAfterStep8ReplyLost: Redis has finished the job and its reply is lost. The worker looks again instead of failing what is done.
func TestCutAfterStep8ReplyLost(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	journal := filepath.Join(t.TempDir(), "journal")
	cable := nettest.Start(t, s.redis.Addr)
	settings := quickLocks(stopwatch{journal: journal})
	settings["POSEFLEET_REDIS_URL"] = "redis://" + cable.Addr()
	settings["POSEFLEET_LOCK_DURATION"] = "10s"

	s.front.intercept(nil, func(_ context.Context, m *message) bool {
		if m.is("result", "an_1") {
			cable.LoseAnswers(1, func(command []byte) bool {
				return bytes.Contains(command, []byte("an_1")) && bytes.Contains(command, []byte("completed"))
			})
		}

		return true
	})
	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 3)
	w := s.startWorker("worker", settings)
	s.checkEnd(t, "an_1", 1, w)

	if cable.Lost() == 0 {
		t.Error("no reply was lost: the test tests nothing")
	}

	if got := starts(journal, "an_1"); got != 1 {
		t.Errorf("extracted %d times", got)
	}
}

// TestTerm: SIGTERM lets the running analysis end and takes no other.
func TestTerm(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	journal := filepath.Join(t.TempDir(), "journal")
	w := s.startWorker("worker", quickLocks(stopwatch{work: 2 * time.Second, journal: journal}))

	s.prepare("an_1", s.textClip(), nil)
	s.prepare("an_2", s.textClip(), nil)
	s.add("an_1", 1)
	wait.For(t, jobLimit, func() bool { return starts(journal, "an_1") == 1 }, "the extraction does not begin")
	w.terminate(t)
	s.add("an_2", 1)

	if code := w.awaitExit(t, startLimit); code != 0 {
		t.Errorf("exit code %d", code)
	}

	s.checkEnd(t, "an_1", 1)

	if got := s.stateOf("an_2"); got != queue.StateWaiting {
		t.Errorf("the job that came while draining is %s", got)
	}

	if left := leftovers(w.workDir); len(left) > 0 {
		t.Errorf("left in scratch space: %v", left)
	}
}

// TestTermTwice: the second SIGTERM gives the work back at once: the claim first, then the job, with no attempt spent.
func TestTermTwice(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	journal := filepath.Join(t.TempDir(), "journal")
	w := s.startWorker("worker", extra{"POSEFLEET_EXTRACTOR": stopwatch{work: time.Minute, journal: journal}.command()})

	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 1)
	wait.For(t, jobLimit, func() bool { return starts(journal, "an_1") == 1 }, "the extraction does not begin")
	w.terminate(t)
	wait.For(t, startLimit, func() bool { return get(w.admin+"/readyz") == http.StatusServiceUnavailable }, "the worker does not drain")
	w.terminate(t)

	if code := w.awaitExit(t, startLimit); code != 0 {
		t.Errorf("exit code %d", code)
	}

	if got := s.stateOf("an_1"); got != queue.StateWaiting {
		t.Errorf("the job is %s", got)
	}

	if released := s.front.seen("release", "an_1"); len(released) != 1 || released[0].Status != http.StatusNoContent {
		t.Errorf("the claim was released %d times", len(released))
	}

	other := s.startWorker("other", quickLocks(stopwatch{}))
	s.checkEnd(t, "an_1", 2, other)

	if job := s.awaitJob("an_1"); job.AttemptsMade != 1 {
		t.Errorf("%d attempts spent, want 1: giving back costs none", job.AttemptsMade)
	}
}

// TestFrozen: a worker is stopped (SIGSTOP) for longer than its lock lives. The work goes on elsewhere; when the frozen worker wakes up it
// finds its lock gone, ends its extractor and posts nothing.
func TestFrozen(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	journal := filepath.Join(t.TempDir(), "journal")
	frozen := s.startWorker("frozen", quickLocks(stopwatch{work: time.Minute, journal: journal}))

	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 3)
	wait.For(t, jobLimit, func() bool { return starts(journal, "an_1") == 1 }, "the extraction does not begin")
	frozen.freeze(t)

	other := s.startWorker("other", quickLocks(stopwatch{}))
	s.awaitJob("an_1")
	frozen.thaw(t)
	s.checkEnd(t, "an_1", 2, frozen, other)

	if posts := s.front.seen("result", "an_1"); len(posts) != 1 {
		t.Errorf("%d results were posted, want one", len(posts))
	}
}

// TestFrozenInStep7: the worker is frozen while its result is on the way. Another one delivers; the late result concedes.
func TestFrozenInStep7(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	late := s.holdResult("an_1", protocol.ResultCompleted)

	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 3)

	frozen := s.startWorker("frozen", quickLocks(stopwatch{}))
	late.awaitHeld(t)
	frozen.freeze(t)

	other := s.startWorker("other", quickLocks(stopwatch{}))
	s.awaitJob("an_1")

	if m := late.release(t, s); !conceded(m) {
		t.Errorf("the late result was answered %d %s", m.Status, m.Answer)
	}

	frozen.thaw(t)
	s.checkEnd(t, "an_1", 2, frozen, other)
}

// TestRedisGone: Redis does not answer for longer than the lock lives. The worker lives, and the job is done once it is back.
func TestRedisGone(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	journal := filepath.Join(t.TempDir(), "journal")
	w := s.startWorker("worker", quickLocks(stopwatch{work: 10 * time.Second, journal: journal}))

	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 3)
	wait.For(t, jobLimit, func() bool { return starts(journal, "an_1") == 1 }, "the extraction does not begin")
	s.redis.Pause()
	wait.For(t, startLimit, func() bool { return w.metric("posefleet_slots_in_use") == "0" }, "the work does not stop without a lock")

	if get(w.admin+"/healthz") != http.StatusOK {
		t.Error("not healthy without Redis: it would be killed")
	}

	s.redis.Resume()
	s.awaitJob("an_1")
	s.checkDeliveredOnce(t, "an_1")
	s.checkQuiet(w)
}

// TestRedisRestored: Redis forgets, as after a restore from an older snapshot, and the job of a delivered analysis comes back. The redeem
// says so and the job ends with no work done.
func TestRedisRestored(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	journal := filepath.Join(t.TempDir(), "journal")
	w := s.startWorker("worker", quickLocks(stopwatch{journal: journal}))

	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 3)
	s.awaitJob("an_1")

	if err := s.redis.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}

	s.add("an_1", 3)
	s.checkEnd(t, "an_1", 1, w)

	if job := s.awaitJob("an_1"); string(job.ReturnValue) != `{"outcome":"alreadyDelivered"}` {
		t.Errorf("return value %s", job.ReturnValue)
	}

	if got := starts(journal, "an_1"); got != 1 {
		t.Errorf("extracted %d times", got)
	}
}

// TestStorageGone: storage answers 503 to the first requests. The transfer is tried again and the job needs no second attempt.
func TestStorageGone(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	s.front.failStorage(2)
	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 1)
	w := s.startWorker("worker", quickLocks(stopwatch{}))
	s.checkEnd(t, "an_1", 1, w)

	if left := s.front.failStorage(0); left != 0 {
		t.Errorf("%d of the faults were not met", left)
	}
}

// TestTwoControlPlanes: a deploy puts a second control plane beside the first, on the same Postgres and storage. What one has handed out the
// other takes: redeemed here, granted and delivered there.
func TestTwoControlPlanes(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	s.control.Kill()
	s.controlEnv = extra{"POSEFLEET_DATABASE_URL": pgtest.Start(t).Database()}
	s.startControl(posefleet(t))
	second := s.launchControl(posefleet(t), "http://"+address(t))

	s.front.intercept(nil, func(_ context.Context, m *message) bool {
		if m.is("redeem", "an_1") {
			s.front.pointTo(t, second)
		}

		return true
	})
	s.prepare("an_1", s.textClip(), nil)
	s.add("an_1", 1)
	w := s.startWorker("worker", quickLocks(stopwatch{}))
	s.checkEnd(t, "an_1", 1, w)

	if got := s.front.to().String(); got != second {
		t.Errorf("the messages still go to %s", got)
	}
}
