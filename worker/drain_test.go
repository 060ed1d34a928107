package worker_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker/internal/extractortest"
)

func zero() redis.Z { return redis.Z{Score: 0, Member: "0"} }

func (b *bench) command(hello ...string) []string { return extractortest.Command(hello...) }

func (r *running) awaitStage(id, stage string) {
	r.b.t.Helper()
	wait.For(r.b.t, long, func() bool { return r.get(id).Body["stage"] == stage }, "%s is not in stage %s", id, stage)
}

// TestDrainLetsWorkEnd: SIGTERM is not felt by a job that ends in time.
func TestDrainLetsWorkEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	w := b.start("SLOTS", "2", "LOCK_RENEW_TIME", "500ms")
	b.plane.Add("an_q", "slow 8s")
	b.plane.Add("an_h", "slow 8s")
	b.plane.Add("an_late", "ok")
	b.add("an_q", 1)
	if got := w.post("an_h"); got.Code != 202 {
		t.Fatalf("%d", got.Code)
	}
	w.awaitStage("an_q", "extract")
	w.awaitStage("an_h", "extract")
	w.Drain()
	const renewals = `posefleet_lock_extensions_total{result="ok"}`
	before := w.metric(renewals)
	wait.For(t, long, func() bool { return w.metric(renewals) > before }, "no lock is renewed in the drain")
	b.add("an_late", 1)
	wait.For(t, long, func() bool { return w.metric(`posefleet_state{state="draining"}`) == 1 }, "not draining")
	if got := w.post("an_late"); got.Code != 503 || got.Body["code"] != "worker_draining" || got.Header.Get("Retry-After") == "" {
		t.Errorf("draining: %d %v", got.Code, got.Body)
	}
	if got := w.post("an_h"); got.Code != 202 {
		t.Errorf("draining, the same id: %d", got.Code)
	}
	if code, _ := w.admin("/healthz", ""); code != http.StatusOK {
		t.Errorf("draining: healthz %d", code)
	}
	if code, _ := w.admin("/readyz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("draining: readyz %d", code)
	}
	w.wait()
	for _, id := range []string{"an_q", "an_h"} {
		if s, _ := b.plane.State(id); s != "delivered" {
			t.Errorf("%s is %q", id, s)
		}
	}
	if s := b.state("an_q"); s != queue.StateCompleted {
		t.Errorf("the queue's job is %s", s)
	}
	if s := b.state("an_late"); s != queue.StateWaiting {
		t.Errorf("the late job is %s", s)
	}
	if left := b.files(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestGiveBack: what can't end goes to another worker at once, no attempt spent: claim released first, then the job.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	w := b.start("SLOTS", "2", "DRAIN_TIMEOUT", "1s")
	b.plane.Add("an_q", "hang")
	b.plane.Add("an_h", "hang")
	b.add("an_q", 1)
	if got := w.post("an_h"); got.Code != 202 {
		t.Fatalf("%d", got.Code)
	}
	w.awaitStage("an_q", "extract")
	w.awaitStage("an_h", "extract")
	begin := time.Now()
	w.Drain()
	w.wait()
	if took := time.Since(begin); took < time.Second || took > long {
		t.Errorf("the drain took %s", took)
	}
	if s := b.state("an_q"); s != queue.StateWaiting {
		t.Fatalf("the queue's job is %s", s)
	}
	if j := b.job("an_q"); j.AttemptsMade != 0 || j.FailedReason != "" {
		t.Errorf("given back with %d attempts and reason %q", j.AttemptsMade, j.FailedReason)
	}
	if diff := cmp.Diff([]string{"redeem", "get", "release"}, operations(b.plane, "an_q")); diff != "" {
		t.Errorf("order of effects:\n%s", diff)
	}
	r := b.plane.Results("an_h")
	if len(r) != 1 || r[0].Parsed.Type != protocol.ResultInterrupted || r[0].WebhookID != "int_an_h_1" || r[0].Status != 200 {
		t.Errorf("the door's job: %+v", r)
	}
	if b.plane.Held("an_q") || b.plane.Held("an_h") {
		t.Error("a claim is still held")
	}

	b.plane.Add("an_q", "ok") // another worker, where it does not hang
	b.start()
	b.awaitState("an_q", queue.StateCompleted)
}

// TestSecondSignalGivesBackAtOnce also covers an idle drain's exit time and code, as processes.
func TestSignals(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	idle := b.spawn()
	begin := time.Now()
	idle.signal(t, syscall.SIGTERM)
	<-idle.done
	if took := time.Since(begin); took > long || idle.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("idle: exit %d after %s", idle.cmd.ProcessState.ExitCode(), took)
	}
	b.plane.Add("an_1", "stubborn")
	b.add("an_1", 1)
	busy := b.spawn()
	wait.For(t, long, func() bool { return len(b.plane.Calls("get", "an_1")) == 1 }, "not started")
	busy.signal(t, syscall.SIGTERM)
	wait.For(t, long, func() bool { return strings.Contains(b.log.String(), "worker drains") }, "not draining")
	busy.signal(t, syscall.SIGTERM)
	<-busy.done
	if code := busy.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("busy: exit %d", code)
	}
	if s := b.state("an_1"); s != queue.StateWaiting {
		t.Errorf("job is %s", s)
	}
	if left := b.files(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestDrainWithoutRedis: a drain ends also while Redis is away.
func TestDrainWithoutRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.redis.Kill()
	w := b.launch()
	<-w.Ready()
	begin := time.Now()
	w.Drain()
	w.wait()
	if took := time.Since(begin); took > long {
		t.Errorf("took %s", took)
	}
}

// TestSigkillMidJob is the row "SIGKILL": another worker does the job, one result counts, nothing is left.
func TestSigkillMidJob(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	pairs := []string{"LOCK_DURATION", "4s", "LOCK_RENEW_TIME", "500ms", "STALLED_INTERVAL", "500ms"}
	b.plane.Add("an_1", "slow 2s")
	first := b.spawn(pairs...)
	b.add("an_1", 3)
	wait.For(t, long, func() bool { return len(b.plane.Calls("get", "an_1")) == 1 }, "not started")
	first.kill(t)
	if left := b.files(); len(left) == 0 {
		t.Log("nothing was left by the killed worker")
	}
	second := b.start(pairs...)
	job := b.awaitState("an_1", queue.StateCompleted)
	if job.AttemptsStarted != 2 || !strings.Contains(string(job.ReturnValue), `"completed"`) {
		t.Errorf("started %d times, %s", job.AttemptsStarted, job.ReturnValue)
	}
	if n := b.plane.Stored(); n != 1 {
		t.Errorf("%d results stored, want 1", n)
	}
	if _, epoch := b.plane.State("an_1"); epoch != 2 {
		t.Errorf("epoch %d, want 2", epoch)
	}
	second.awaitIdle() // and the scratch of the killed one is gone
	counts, err := b.queue.Counts(t.Context())
	if err != nil || counts.Active != 0 {
		t.Errorf("counts %+v, %v", counts, err)
	}
}

// TestFrozenWorker is the row "SIGSTOP past the lock": work goes on elsewhere; when the frozen one wakes it posts nothing that counts.
func TestFrozenWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	pairs := []string{"LOCK_DURATION", "1s", "STALLED_INTERVAL", "500ms", "MAX_STALLED_COUNT", "5"}
	b.plane.Add("an_1", "slow 2s")
	b.add("an_1", 3)
	frozen := b.spawn(pairs...)
	wait.For(t, long, func() bool { return len(b.plane.Calls("get", "an_1")) == 1 }, "not started")
	frozen.signal(t, syscall.SIGSTOP)
	b.start(pairs...)
	b.awaitState("an_1", queue.StateCompleted)
	frozen.signal(t, syscall.SIGCONT)
	frozen.signal(t, syscall.SIGTERM)
	<-frozen.done
	if code := frozen.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the frozen worker ended with %d", code)
	}
	if n := b.plane.Stored(); n != 1 {
		t.Errorf("%d results stored, want 1", n)
	}
	if s := b.state("an_1"); s != queue.StateCompleted {
		t.Errorf("job is %s", s)
	}
	if left := b.files(); len(left) != 0 {
		t.Logf("files while the second worker lives: %v", left)
	}
}

// TestRedisOutage: work goes on while its lock can be alive, the probe runs after the outage, liveness stays green.
func TestRedisOutage(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	w := b.start("LOCK_DURATION", "10s")
	b.plane.Add("an_1", "slow 1500ms")
	b.plane.Add("an_2", "ok")
	b.add("an_1", 1)
	w.awaitStage("an_1", "extract")
	b.redis.Pause()
	wait.For(t, long, func() bool { s, _ := b.plane.State("an_1"); return s == "delivered" }, "work stopped with Redis")
	if code, _ := w.admin("/healthz", ""); code != http.StatusOK {
		t.Errorf("without Redis: healthz %d", code)
	}
	b.redis.Resume()
	b.awaitState("an_1", queue.StateCompleted)
	b.add("an_2", 1)
	b.awaitState("an_2", queue.StateCompleted)
	if n := b.plane.Stored(); n != 2 {
		t.Errorf("%d results, want 2", n)
	}
}
