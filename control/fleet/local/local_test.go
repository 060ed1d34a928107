package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/control/fleet"
	"github.com/posefleet/posefleet/internal/wait"
)

// modeVariable makes the test binary a worker: one that is "good", "stubborn" against SIGTERM, "slow" to get ready, that "dies" or
// "talks".
const modeVariable = "LOCAL_TEST_WORKER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		work(mode)
	}
	goleak.VerifyTestMain(m)
}

// work is the worker: a process with an admin port that listens to signals.
func work(mode string) {
	if mode == "dies" {
		os.Exit(3)
	}
	if mode == "talks" {
		slog.New(slog.NewJSONHandler(os.Stderr, nil)).With(slog.String("service_name", "posefleet")).Warn("a job", slog.Int("slot", 7))
		fmt.Print("last words")
		os.Exit(0)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		if <-signals; mode != "stubborn" {
			os.Exit(0)
		}
	}()
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if mode == "slow" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Getenv("POSEFLEET_ADMIN_LISTEN"), nil)) //nolint:gosec // a test's
	os.Exit(1)
}

// start runs a fleet for the length of the test.
func start(t *testing.T, mode string) (f *Fleet, end func()) {
	t.Helper()
	f, err := New(Config{Command: []string{os.Args[0]}, Env: []string{modeVariable + "=" + mode}, Grace: time.Second, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	end = func() {
		cancel()
		<-done
	}
	t.Cleanup(end)

	return f, end
}

func (f *Fleet) pids() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []int
	for _, m := range slices.Concat(f.members, f.leaving) {
		if pid, _ := m.state(); pid != 0 {
			all = append(all, pid)
		}
	}

	return all
}

func await(t *testing.T, f *Fleet, want fleet.Seen) {
	t.Helper()
	wait.For(t, time.Minute, func() bool {
		got, err := f.Look(t.Context())

		return err == nil && got == want
	}, "fleet is not %+v", want)
}

func set(t *testing.T, f *Fleet, n int, busy ...string) {
	t.Helper()
	if err := f.Set(t.Context(), n, busy); err != nil {
		t.Fatal(err)
	}
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestFromZeroAndBack(t *testing.T) {
	t.Parallel()
	f, end := start(t, "good")
	await(t, f, fleet.Seen{})
	set(t, f, 2)
	await(t, f, fleet.Seen{Desired: 2, Running: 2, Ready: 2})
	pids := f.pids()

	// The busy one stays, whatever its age.
	busy := fmt.Sprintf("host-%d-abcdef", pids[1])
	if least, err := f.Spare(t.Context(), 0, []string{busy, "another-1-x"}); least != 1 || err != nil {
		t.Errorf("spare: %d, %v", least, err)
	}
	set(t, f, 1, busy)
	await(t, f, fleet.Seen{Desired: 1, Running: 1, Ready: 1})
	if got := f.pids(); !slices.Equal(got, pids[1:]) {
		t.Errorf("processes %v of %v", got, pids)
	}

	// One that is killed comes again.
	if err := syscall.Kill(pids[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait.For(t, time.Minute, func() bool {
		now := f.pids()

		return len(now) == 1 && now[0] != pids[1]
	})
	await(t, f, fleet.Seen{Desired: 1, Running: 1, Ready: 1})
	pids = append(pids, f.pids()...)
	set(t, f, 0)
	await(t, f, fleet.Seen{})
	end()
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if err := f.Set(t.Context(), 1, nil); !errors.Is(err, errEnded) {
		t.Errorf("after the end: %v", err)
	}
}

func TestEndEndsStubbornAndSlow(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]fleet.Seen{"stubborn": {Desired: 1, Running: 1, Ready: 1}, "slow": {Desired: 1, Running: 1}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f, end := start(t, mode)
			set(t, f, 1)
			await(t, f, want)
			pids := f.pids()
			end()
			if !gone(pids[0]) {
				t.Errorf("process %d is still there", pids[0])
			}
		})
	}
}

// A worker that can't start is tried again, with pauses that grow, until it is not wanted any more.
func TestDies(t *testing.T) {
	t.Parallel()
	log := &written{}
	f, end := start(t, "dies")
	f.cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	set(t, f, 1)
	wait.For(t, time.Minute, func() bool {
		return log.has("pause_ms=250") && log.has("pause_ms=500") && log.has("exit status 3")
	}, "not started again")
	await(t, f, fleet.Seen{Desired: 1})
	f.StandDown()
	await(t, f, fleet.Seen{})
	end()
	if _, err := New(Config{}); !errors.Is(err, errNoCommand) {
		t.Errorf("no command: %v", err)
	}
}

// What workers write is in our log: records as they were, with the process that they are of.
func TestOutputIsTagged(t *testing.T) {
	t.Parallel()
	f, end := start(t, "talks")
	log := &written{}
	f.cfg.Log = slog.New(slog.NewJSONHandler(log, nil))
	set(t, f, 1)
	wait.For(t, time.Minute, func() bool { return log.has("last words") })
	end()
	first := log.lines()
	var pid int
	var got []map[string]any
	for _, line := range first {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if n, ok := record["pid"].(float64); ok && pid == 0 {
			pid = int(n)
		}
		if record["worker_pid"] == float64(pid) {
			delete(record, "time")
			got = append(got, record)
		}
	}
	want := []map[string]any{
		{"level": "WARN", "msg": "a job", "worker_pid": float64(pid), "slot": float64(7)},
		{"level": "WARN", "msg": "worker wrote", "worker_pid": float64(pid), "line": "last words"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s\n%s", d, first)
	}
}

func TestParseRecord(t *testing.T) {
	t.Parallel()
	for line, good := range map[string]bool{
		`{"time":"2026-11-30T12:00:00.5Z","level":"DEBUG","msg":"m","a":[1,{"b":2}]}`: true,
		`{"msg":"m"}`: true, `{"level":"INFO"}`: false, `{"msg":"m"} x`: false, `{"msg":"m"`: false, `{"msg":"m","level":"loud"}`: false,
		`{"msg":"m","time":"noon"}`: false, `[1]`: false, `panic: x`: false, ``: false, `{"msg":1}`: false,
	} {
		if _, err := parseRecord([]byte(line), slog.Int("pid", 1)); (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// written keeps a log.
type written struct {
	mu  sync.Mutex
	buf strings.Builder
}

// Write implements io.Writer.
func (l *written) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.buf.Write(b)
}

func (l *written) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return strings.Split(strings.TrimSpace(l.buf.String()), "\n")
}

func (l *written) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	return strings.Contains(l.buf.String(), text)
}
