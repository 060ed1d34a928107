package worker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/nettest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/queue"
)

// TestAllPartsComeBack: after a loss of the network not only jobs are taken again. Locks are renewed, progress and log are written, jobs of
// dead workers are found, a pause is obeyed, and what is said of the worker is true, on whichever connection each of them lives.
func TestAllPartsComeBack(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(*nettest.Proxy){"cut off": (*nettest.Proxy).Cut, "silent": (*nettest.Proxy).Mute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, true)
			line := nettest.Start(t, b.redis.Addr)
			w := b.start("REDIS_URL", "redis://"+line.Addr(), "SLOTS", "2", "LOCK_RENEW_TIME", "500ms") // a claim in flight on a dead line holds one
			before := w.metric("posefleet_last_fetch_timestamp_seconds")
			strike(line)
			b.plane.Add("an_door", "ok")
			if got := w.post("an_door"); got.Code != 202 {
				t.Errorf("the other door: %d %v", got.Code, got.Body)
			}
			line.Heal()

			b.plane.Add("an_long", "slow 4s") // its lock is renewed
			b.add("an_long", 1)
			job := b.awaitState("an_long", queue.StateCompleted)
			if job.AttemptsStarted != 1 || !strings.Contains(string(job.Progress), `"stage":"report"`) {
				t.Errorf("%d starts, progress %s", job.AttemptsStarted, job.Progress)
			}
			if logs, err := b.queue.Logs(t.Context(), "an_long"); err != nil || len(logs) < 5 {
				t.Errorf("job log %q, %v", logs, err)
			}
			if n := w.metric(`posefleet_lock_extensions_total{result="ok"}`); n == 0 {
				t.Error("no lock was renewed")
			}
			if now := w.metric("posefleet_last_fetch_timestamp_seconds"); now <= before {
				t.Errorf("last fetch %v, before the fault %v", now, before)
			}
			b.checkPause(t, w)
			b.checkRecovery(t)
			if code, text := w.admin("/readyz", ""); code != 200 {
				t.Errorf("readyz %d %s", code, text)
			}
		})
	}
}

// checkPause: a paused queue gives no job, however often the worker asks, and all of them when it goes on.
func (b *bench) checkPause(t *testing.T, w *running) {
	t.Helper()
	if err := b.queue.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.plane.Add("an_paused", "ok")
	b.add("an_paused", 1)
	asked := w.metric("posefleet_last_fetch_timestamp_seconds")
	wait.For(t, long, func() bool { return w.metric("posefleet_last_fetch_timestamp_seconds") > asked }, "the worker does not ask")
	if n := len(b.plane.Calls("redeem", "an_paused")); n != 0 {
		t.Error("a job of a paused queue was started")
	}
	if err := b.queue.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.awaitState("an_paused", queue.StateCompleted)
}

// checkRecovery: a job that is active without a lock, as a dead worker leaves it, is found and done.
func (b *bench) checkRecovery(t *testing.T) {
	t.Helper()
	c := b.redis.Client()
	b.plane.Add("an_orphan", "ok")
	if err := b.queue.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.add("an_orphan", 1)
	for _, list := range []string{"wait", "paused"} { // the one or the other, by the version of the protocol
		if c.LRem(t.Context(), "bull:pose:"+list, 1, "an_orphan").Val() == 1 {
			c.LPush(t.Context(), "bull:pose:active", "an_orphan")
		}
	}
	if s := b.state("an_orphan"); s != queue.StateActive {
		t.Fatalf("an_orphan is %s", s)
	}
	if err := b.queue.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.awaitState("an_orphan", queue.StateCompleted)
}

// TestSecondsOfLatency: a network on which each answer takes two seconds and more costs time and nothing else.
func TestSecondsOfLatency(t *testing.T) {
	t.Parallel()
	const oneWay = 1100 * time.Millisecond
	b := newBench(t, true)
	line := nettest.Start(t, b.redis.Addr)
	w := b.start("REDIS_URL", "redis://"+line.Addr(), "LOCK_DURATION", "30s")
	line.Delay(oneWay)
	b.plane.Add("an_1", "slow 1s")
	b.add("an_1", 1)
	if j := b.awaitState("an_1", queue.StateCompleted); j.AttemptsStarted != 1 {
		t.Errorf("%d starts", j.AttemptsStarted)
	}
	if n := len(b.plane.Calls("get", "an_1")); n != 1 {
		t.Errorf("%d downloads", n)
	}
	if n := w.metric(`posefleet_jobs_total{outcome="lost_lock",source="queue"}`); n != 0 {
		t.Error("a lock was lost")
	}
	line.Heal()
}

// TestFiveSecondsOfLatency: on a network where each answer takes five seconds a running job keeps its lock and ends once, though its end is
// the first call of a script that the server does not know, and the next one is taken.
func TestFiveSecondsOfLatency(t *testing.T) {
	t.Parallel()
	const patience = 90 * time.Second
	b := newBench(t, true)
	line := nettest.Start(t, b.redis.Addr)
	w := b.start("REDIS_URL", "redis://"+line.Addr(), "LOCK_DURATION", "30s")
	b.plane.Add("an_1", "slow 16s") // longer than the half of the lock's time, after which it is renewed
	b.add("an_1", 2)
	wait.For(t, long, func() bool { return len(b.plane.Calls("get", "an_1")) == 1 }, "no download")
	line.Delay(2500 * time.Millisecond)
	b.plane.Add("an_2", "")
	b.add("an_2", 2)
	for _, id := range []string{"an_1", "an_2"} {
		wait.For(t, patience, func() bool { return b.state(id) == queue.StateCompleted }, "job %s is not completed", id)
		if j := b.job(id); j.AttemptsStarted != 1 || j.AttemptsMade != 1 {
			t.Errorf("%s: %d starts, %d attempts", id, j.AttemptsStarted, j.AttemptsMade)
		}
	}
	if n := w.metric(`posefleet_jobs_total{outcome="lost_lock",source="queue"}`); n != 0 {
		t.Error("a lock was lost")
	}
	line.Heal()
}
