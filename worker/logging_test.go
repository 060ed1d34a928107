package worker_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
)

// entry is a line of the log.
type entry struct {
	Level, Msg, Reason, Stage, Error, Address string
}

func (b *bench) entries() []entry {
	b.t.Helper()
	var out []entry
	for line := range strings.Lines(b.log.String()) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil && json.Valid([]byte(line)) {
			continue // another line with a field of such a name
		} else if err != nil {
			b.t.Fatalf("%v in %s", err, line)
		}
		out = append(out, e)
	}
	return out
}

// TestWantedEndsAreNoWarnings: whoever cancels an analysis or stops a worker finds in the log what they asked for, as information.
func TestWantedEndsAreNoWarnings(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(b *bench, w *running)
		want string // the reason of the stage's end
	}{
		{"cancelled at the door", func(b *bench, w *running) {
			if got := w.cancel("an_1"); got.Code != 202 {
				b.t.Fatalf("%d %v", got.Code, got.Body)
			}
			b.awaitState("an_1", queue.StateCompleted)
		}, "the job was cancelled"},
		{"cancelled at the control plane", func(b *bench, _ *running) {
			b.plane.Cancel("an_1")
			b.awaitState("an_1", queue.StateCompleted)
		}, "the analysis is not wanted any more"},
		{"the worker drains", func(b *bench, w *running) {
			w.Drain()
			w.wait()
			if s := b.state("an_1"); s != queue.StateWaiting {
				b.t.Errorf("the job is %s", s)
			}
		}, "the worker is stopping"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, true)
			b.plane.Lease = 30 * time.Second
			w := b.start("LOCK_DURATION", "60s", "DRAIN_TIMEOUT", "0s")
			b.plane.Add("an_1", "hang")
			b.add("an_1", 3)
			w.awaitStage("an_1", "extract")
			tt.end(b, w)
			ended := func(e entry) bool { return e.Msg == "extractor ended" && e.Reason == "cancelled" }
			wait.For(t, long, func() bool { return slices.ContainsFunc(b.entries(), ended) }, "no extractor ended")
			stopped := func(e entry) bool {
				return e.Level == "INFO" && e.Msg == "stage stopped" && e.Stage == "extract" && strings.HasPrefix(e.Reason, tt.want)
			}
			if !wait.Until(t, long, func() bool { return slices.ContainsFunc(b.entries(), stopped) }) {
				t.Errorf("the stage's end is not told:\n%s", b.log.String())
			}
			for _, e := range b.entries() {
				if e.Level == "WARN" || e.Level == "ERROR" {
					t.Errorf("%s: %s %s %s", e.Level, e.Msg, e.Reason, e.Error)
				}
			}
		})
	}
}

// TestFaultsAreWarnings: what nobody asked for stays one.
func TestFaultsAreWarnings(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.start("LOCK_DURATION", "60s")
	b.plane.Add("an_1", "crash")
	b.add("an_1", 1)
	b.awaitState("an_1", queue.StateFailed)
	for _, msg := range []string{"stage failed", "extractor ended"} {
		warned := func(e entry) bool { return e.Level == "WARN" && e.Msg == msg }
		wait.For(t, long, func() bool { return slices.ContainsFunc(b.entries(), warned) }, "no warning %q", msg)
	}
}

// TestRedisAwayIsTold: a worker that waits for Redis says once where it looks for it and which variable says so, without the password.
func TestRedisAwayIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.redis.Kill()
	_, address, _ := strings.Cut(b.redis.URL, "://")
	address, _, _ = strings.Cut(address, "/")
	b.launch("REDIS_URL", "redis://user:canary@"+address)
	told := func(e entry) bool {
		return e.Level == "WARN" && strings.Contains(e.Msg, "POSEFLEET_REDIS_URL") && e.Address == address && strings.Contains(e.Error, "refused")
	}
	wait.For(t, long, func() bool { return slices.ContainsFunc(b.entries(), told) }, "nothing is said of Redis")
	if strings.Contains(b.log.String(), "canary") {
		t.Error("the password is in the log")
	}
}

// TestPortTaken: the fault of an address that is in use names the variable.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	for _, name := range []string{"LISTEN", "ADMIN_LISTEN"} {
		cfg, err := worker.LoadConfig(b.env(name, b.plane.Host()))
		if err != nil {
			t.Fatal(err)
		}
		w, err := worker.New(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), worker.EnvPrefix+name+")") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
