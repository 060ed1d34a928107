package extractor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/worker/internal/extractor"
	"github.com/posefleet/posefleet/worker/internal/extractortest"
)

func TestMain(m *testing.M) {
	extractortest.Main()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if kids := children("/"); len(kids) > 0 || zombies() > 0 {
			fmt.Fprintf(os.Stderr, "children left: %v, zombies: %d\n", kids, zombies())
			code = 1
		}
		os.Exit(code)
	}))
}

var errOverTime = errors.New("over time")

// bundle is a running pool and what it told.
type bundle struct {
	pool     *extractor.Pool
	dir      string
	restarts sync.Map // Reason -> *atomic.Int64
}

func (b *bundle) count(r extractor.Reason) int64 {
	n, _ := b.restarts.LoadOrStore(r, new(atomic.Int64))
	return n.(*atomic.Int64).Load()
}

func setup(t *testing.T, change ...func(*extractor.Config)) *bundle {
	t.Helper()
	b := &bundle{dir: t.TempDir()}
	cfg := extractor.Config{
		Command: extractortest.Command(), Env: []string{"PATH=/usr/bin:/bin"}, Count: 1, TempDir: filepath.Join(b.dir, "tmp"),
		KillDelay: 300 * time.Millisecond, BackoffMin: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond,
		TimeoutCause: errOverTime, Logger: slog.New(slog.DiscardHandler),
		OnRestart: func(r extractor.Reason) {
			n, _ := b.restarts.LoadOrStore(r, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	pool, err := extractor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.pool = pool
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- pool.Run(ctx) }() // ends in Cleanup
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if kids := children(b.dir); len(kids) > 0 {
			t.Errorf("children left: %v", kids)
		}
	})
	return b
}

// children lists this process's living children whose working directory is below dir.
func children(dir string) []string {
	var out []string
	for pid, stat := range ownChildren() {
		if cwd, err := os.Readlink(filepath.Join("/proc", pid, "cwd")); err == nil && strings.HasPrefix(cwd, dir) {
			out = append(out, stat)
		}
	}
	return out
}

// zombies counts the children that nobody reaped.
func zombies() int {
	n := 0
	for _, stat := range ownChildren() {
		if strings.HasPrefix(stat, "Z") {
			n++
		}
	}
	return n
}

// ownChildren maps the pid of each child to its stat line from the state on.
func ownChildren() map[string]string {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	out := map[string]string{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		rest := string(raw[bytes.LastIndexByte(raw, ')')+2:])
		var state string
		var ppid int
		if _, err := fmt.Sscan(rest, &state, &ppid); err == nil && ppid == os.Getpid() {
			out[filepath.Base(filepath.Dir(f))] = rest
		}
	}
	return out
}

// job makes a job whose clip says what.
func (b *bundle) job(t *testing.T, id, what string) protocol.ExtractorJob {
	t.Helper()
	dir := t.TempDir()
	clip, out := filepath.Join(dir, "clip-0"), filepath.Join(dir, "out")
	if err := errors.Join(os.WriteFile(clip, []byte(what+"\n"), 0o600), os.Mkdir(out, 0o700)); err != nil {
		t.Fatal(err)
	}
	return protocol.ExtractorJob{
		Type: protocol.MessageJob, Job: id, OutDir: out, Params: json.RawMessage(`{"model":"lite"}`),
		Clips: []protocol.ExtractorClip{{ID: "c1", Path: clip}},
	}
}

func (b *bundle) mustWork(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := b.pool.Extract(ctx, b.job(t, "an_probe", "ok"), nil); err != nil {
		t.Fatalf("the job after it failed: %v", err)
	}
}

func wantCode(t *testing.T, err error, code protocol.Code, retryable bool) {
	t.Helper()
	f, ok := errors.AsType[*protocol.Fault](err)
	if !ok || f.Code != code || f.Retryable != retryable {
		t.Fatalf("got %v, want %s (retryable %t)", err, code, retryable)
	}
	if strings.ContainsAny(f.Message, "\n\r") {
		t.Fatalf("a reason of several lines: %q", f.Message)
	}
}

func TestExtract(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var last atomic.Value
	got, err := b.pool.Extract(t.Context(), b.job(t, "an_1", "ok"), func(done float64) { last.Store(done) })
	if err != nil {
		t.Fatal(err)
	}
	if got.Artifact != "pose.json.gz" || got.Size == 0 || got.Model.Name != "fake" || got.Clips[0].Frames != extractortest.Frames {
		t.Fatalf("result %+v", got)
	}
	if last.Load() != 1.0 {
		t.Fatalf("last progress %v, want 1", last.Load())
	}
	first, _ := os.ReadFile(got.Path)
	again, err := b.pool.Extract(t.Context(), b.job(t, "an_1", "ok"), nil)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := os.ReadFile(again.Path)
	if string(first) != string(second) {
		t.Fatal("the same job gave other bytes")
	}
	if hello, ok := b.pool.Hello(); !ok || hello.Name != "fake" {
		t.Fatalf("hello %+v %t", hello, ok)
	}
}

// TestFaultsCostOneAttempt runs each kind of poison and then a good job on the same slot.
func TestFaultsCostOneAttempt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, clip string
		code       protocol.Code
		retryable  bool
		reason     extractor.Reason // "" = the process lives on
	}{
		{"crash", "crash", protocol.CodeExtractorCrashed, true, extractor.ReasonCrash},
		{"segfault", "segv", protocol.CodeExtractorCrashed, true, extractor.ReasonCrash},
		{"orphaned child", "orphan", protocol.CodeExtractorCrashed, true, extractor.ReasonCrash},
		{"garbage line", "garbage", protocol.CodeExtractorCrashed, true, extractor.ReasonGarbage},
		{"line without end", "huge", protocol.CodeExtractorCrashed, true, extractor.ReasonGarbage},
		{"artifact outside", "escape", protocol.CodeExtractorCrashed, true, extractor.ReasonGarbage},
		{"artifact missing", "missing", protocol.CodeExtractorCrashed, true, extractor.ReasonGarbage},
		{"job that was never given", "stranger", protocol.CodeExtractorCrashed, true, extractor.ReasonGarbage},
		{"bad code", "error Bad-Code", protocol.CodeExtractorCrashed, true, extractor.ReasonGarbage},
		{"permanent", "error no_video_stream", protocol.CodeNoVideoStream, false, ""},
		{"retryable", "error internal retryable", protocol.CodeInternal, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			_, err := b.pool.Extract(t.Context(), b.job(t, "an_bad", tt.clip), nil)
			wantCode(t, err, tt.code, tt.retryable)
			b.mustWork(t)
			if tt.reason != "" && b.count(tt.reason) != 1 {
				t.Errorf("%d restarts for %s, want 1", b.count(tt.reason), tt.reason)
			}
		})
	}
}

// What a process says of a job that it has ended costs the process, never the job that it was given next.
func TestLeftoversCostNoOtherJob(t *testing.T) {
	t.Parallel()
	t.Run("in one write", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		const jobs = 8
		for i := range jobs {
			if _, err := b.pool.Extract(t.Context(), b.job(t, fmt.Sprintf("an_%d", i), "surplus"), nil); err != nil {
				t.Fatalf("job %d: %v", i, err)
			}
		}
		wait.For(t, time.Minute, func() bool { return b.count(extractor.ReasonGarbage) == jobs }, "a process with leftovers lives on")
	})
	// A new attempt at the same job is left out: a late result that names its file just as the process writes it can't be told apart.
	for _, next := range []string{"an_2"} {
		t.Run("while "+next+" runs", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if _, err := b.pool.Extract(t.Context(), b.job(t, "an_1", "late"), nil); err != nil {
				t.Fatal(err)
			}
			job := b.job(t, next, "ok")
			got, err := b.pool.Extract(t.Context(), job, nil)
			if err != nil || got.Job != next {
				t.Fatalf("got the result of %q, %v", got.Job, err)
			}
			if files, err := os.ReadDir(job.OutDir); err != nil || len(files) != 1 {
				t.Errorf("the killed process left something in the folder: %v, %v", files, err)
			}
			if n := b.count(extractor.ReasonGarbage); n != 1 {
				t.Errorf("%d restarts for garbage, want 1", n)
			}
		})
	}
}

func TestCancelKillsTheGroup(t *testing.T) {
	t.Parallel()
	for _, clip := range []string{"hang", "stubborn", "slow 1h"} {
		t.Run(clip, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("lock lost")
			started := make(chan struct{})
			var once sync.Once
			go func() { // ends when the job has started
				<-started
				cancel(why)
			}()
			begin := time.Now()
			_, err := b.pool.Extract(ctx, b.job(t, "an_1", clip), func(float64) { once.Do(func() { close(started) }) })
			if !errors.Is(err, why) {
				t.Fatalf("got %v, want the cause", err)
			}
			if took := time.Since(begin); took > time.Minute {
				t.Fatalf("took %s to kill", took)
			}
			if kids := children(filepath.Join(b.dir, "tmp")); len(kids) > 1 { // the next process may be there
				t.Fatalf("children left: %v", kids)
			}
			b.mustWork(t)
			if b.count(extractor.ReasonCancelled) != 1 {
				t.Errorf("%d restarts for cancel, want 1", b.count(extractor.ReasonCancelled))
			}
		})
	}
}

func TestOverTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mustWork(t) // the process is up: the time runs for the job alone
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errOverTime)
	defer cancel()
	_, err := b.pool.Extract(ctx, b.job(t, "an_1", "hang"), nil)
	wantCode(t, err, protocol.CodeExtractorTimeout, true)
	b.mustWork(t)
	if b.count(extractor.ReasonTimeout) != 1 {
		t.Errorf("%d restarts for timeout, want 1", b.count(extractor.ReasonTimeout))
	}
}

func TestHello(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"none", "wrong", "garbage", "exit"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(c *extractor.Config) {
				c.Command, c.HelloTimeout = extractortest.Command(how), 500*time.Millisecond
			})
			wait.For(t, time.Minute, func() bool { return b.count(extractor.ReasonHello) >= 2 }, "no second try")
			if ok, _ := b.pool.Usable(); ok {
				t.Error("usable without a hello")
			}
		})
	}
	t.Run("late", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *extractor.Config) { c.Command = extractortest.Command("late", "3s") })
		if ok, _ := b.pool.Usable(); ok {
			t.Error("usable before the hello")
		}
		b.mustWork(t) // waits for the process
		if ok, _ := b.pool.Usable(); !ok {
			t.Error("not usable after the hello")
		}
	})
}

// The reason why an extractor does not start is in the error: its own last line, cut to one readable length.
func TestLastWords(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = r.Close() })
	setup(t, func(c *extractor.Config) {
		c.Command = []string{"/bin/sh", "-c", `echo early >&2; printf 'models are missing %0999d\n\n' 0 >&2; exit 3`}
		c.Logger = slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	var line struct{ Error string }
	if err := json.NewDecoder(r).Decode(&line); err != nil {
		t.Fatal(err)
	}
	_ = r.Close() // later tries find nobody who reads
	if !strings.Contains(line.Error, "before it said hello; it said last: models are missing 000") || len(line.Error) > 400 {
		t.Errorf("error %q", line.Error)
	}
}

func TestMissingProgram(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *extractor.Config) { c.Command = []string{"/nonexistent/extractor"} })
	wait.For(t, time.Minute, func() bool { return b.count(extractor.ReasonHello) >= 2 }, "no second try")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOverTime)
	_, err := b.pool.Extract(ctx, b.job(t, "an_1", "ok"), nil)
	wantCode(t, err, protocol.CodeExtractorTimeout, true)
}

func TestNoisyExtractorIsDrainedAndItsLogBounded(t *testing.T) {
	t.Parallel()
	var logged countingWriter
	b := setup(t, func(c *extractor.Config) { c.Logger = slog.New(slog.NewJSONHandler(&logged, nil)) })
	if _, err := b.pool.Extract(t.Context(), b.job(t, "an_1", "noisy"), nil); err != nil {
		t.Fatal(err)
	}
	if n := logged.n.Load(); n > 64<<10 {
		t.Fatalf("%d bytes of log from a noisy extractor", n)
	}
}

func TestTempDirIsEmptiedAfterEachJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.pool.Extract(t.Context(), b.job(t, "an_1", "litter"), nil); err != nil {
		t.Fatal(err)
	}
	wait.For(t, time.Minute, func() bool {
		left, err := os.ReadDir(filepath.Join(b.dir, "tmp", "slot-0"))
		return err == nil && len(left) == 0
	}, "litter left in the extractor's folder")
}

func TestManyJobsOnTwoProcesses(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *extractor.Config) { c.Count = 2 })
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			what, id := "ok", fmt.Sprintf("an_%d", i)
			if i%10 == 9 {
				what = "crash"
			}
			got, err := b.pool.Extract(t.Context(), b.job(t, id, what), nil)
			if (err != nil) != (what == "crash") {
				t.Errorf("job %d (%s): %v", i, what, err)
			}
			if err == nil && got.Job != id {
				t.Errorf("job %d got the result of %s", i, got.Job)
			}
		})
	}
	wg.Wait()
}

func TestPoolStopsWhileAJobRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool, err := extractor.New(extractor.Config{Command: extractortest.Command(), Count: 1, TempDir: dir, KillDelay: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- pool.Run(ctx) }() // ends with cancel
	b := &bundle{dir: dir}
	_, err = pool.Extract(t.Context(), b.job(t, "an_1", "hang"), func(float64) { cancel() })
	if !errors.Is(err, extractor.ErrStopped) {
		t.Fatalf("got %v, want ErrStopped", err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Extract(t.Context(), b.job(t, "an_2", "ok"), nil); !errors.Is(err, extractor.ErrStopped) {
		t.Fatalf("got %v after the end, want ErrStopped", err)
	}
}

type countingWriter struct{ n atomic.Int64 }

func (w *countingWriter) Write(p []byte) (int, error) {
	w.n.Add(int64(len(p)))
	return len(p), nil
}

var _ io.Writer = (*countingWriter)(nil)
