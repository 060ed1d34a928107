package queuecmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/queuecmd"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// bundle is a desk at a real Redis.
type bundle struct {
	*queuecmd.Desk
	t   *testing.T
	r   *redis.Client
	out *buffer
	now time.Time
}

// buffer is output that a test reads while it is still being written.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.buf.Write(p)
}

func (b *buffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.buf.Reset()

	return b.buf.String()
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.buf.String()
}

func setup(t *testing.T) *bundle {
	t.Helper()

	srv := redistest.Start(t)
	b := &bundle{t: t, r: srv.Client(), out: &buffer{}, now: time.Now().Truncate(time.Second)}
	b.Desk = b.desk(queue.Options{RedisURL: srv.URL, Prefix: "pre", Name: "pose"})

	return b
}

func (b *bundle) desk(o queue.Options) *queuecmd.Desk {
	b.t.Helper()

	q, err := queue.NewQueue(o)
	if err != nil {
		b.t.Fatal(err)
	}

	b.t.Cleanup(func() { _ = q.Close() })

	return &queuecmd.Desk{Queue: q, Options: o, Out: b.out, Now: func() time.Time { return b.now }}
}

func (b *bundle) add(id string, o queue.JobOptions) {
	b.t.Helper()

	o.JobID = id
	if _, err := b.Queue.Add(b.t.Context(), "analysis", json.RawMessage(`{"v":1,"analysisId":"`+id+`"}`), o); err != nil {
		b.t.Fatal(err)
	}
}

// text is what an action writes for people.
func (b *bundle) text(err error) string {
	b.t.Helper()

	if err != nil {
		b.t.Fatal(err)
	}

	return b.out.take()
}

// json is the document that an action writes for scripts.
func (b *bundle) json(do func() error) map[string]any {
	b.t.Helper()

	b.JSON = true
	defer func() { b.JSON = false }()

	if err := do(); err != nil {
		b.t.Fatal(err)
	}

	return decode(b.t, b.out.take())
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()

	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil || strings.Count(text, "\n") != 1 {
		t.Fatalf("%v: no single JSON line: %q", err, text)
	}

	return doc
}

// work runs a worker until stop is called.
func (b *bundle) work(name string, h queue.Handler) (stop func()) {
	b.t.Helper()

	o := queue.DefaultWorkerOptions()
	o.Options, o.WorkerName = b.Options, name

	w, err := queue.NewWorker(o, h)
	if err != nil {
		b.t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())

	var wg sync.WaitGroup

	wg.Go(func() { _ = w.Run(ctx) }) // ends with stop

	stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
	})
	b.t.Cleanup(stop)

	return stop
}

func (b *bundle) await(id string, want queue.State) {
	b.t.Helper()
	wait.For(b.t, patience, func() bool {
		s, err := b.Queue.State(b.t.Context(), id)

		return err == nil && s == want
	}, "%s is not %s", id, want)
}

// rows splits a table of two columns.
func rows(text string) map[string]string {
	m := map[string]string{}

	for row := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(row), "  ")
		m[name] = strings.TrimSpace(value)
	}

	return m
}

func TestStats(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()

	got := rows(b.text(b.Stats(ctx)))
	want := map[string]string{
		"queue": "pre:pose", "state": "running", "waiting": "0", "prioritized": "0", "delayed": "0", "waiting-children": "0", "active": "0",
		"completed": "0", "failed": "0", "oldest waiting": "-", "workers": "0",
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	b.add("an_1", queue.JobOptions{Timestamp: b.now.Add(-90 * time.Second)})
	b.add("an_2", queue.JobOptions{Timestamp: b.now})
	b.add("an_3", queue.JobOptions{Priority: 2, Timestamp: b.now})
	b.add("an_4", queue.JobOptions{Delay: time.Hour, Timestamp: b.now})
	// What a major 5 client does when it pauses.
	if err := errors.Join(b.r.Rename(ctx, "pre:pose:wait", "pre:pose:paused").Err(), b.r.HSet(ctx, "pre:pose:meta", "paused", "1").Err()); err != nil {
		t.Fatal(err)
	}

	stop := b.work("w-1", func(context.Context, *queue.Job) (any, error) { return nil, nil })

	wait.For(t, patience, func() bool { return rows(b.text(b.Stats(ctx)))["workers"] == "1" })

	got = rows(b.text(b.Stats(ctx)))
	want["state"], want["waiting"], want["prioritized"], want["delayed"] = "paused: nobody takes jobs", "2", "1", "1"
	want["oldest waiting"], want["workers"] = "1m30s (an_1)", "1"

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	doc := b.json(func() error { return b.Stats(ctx) })

	workers, _ := doc["workers"].([]any)
	if len(workers) != 1 || workers[0].(map[string]any)["name"] != "w-1" {
		t.Errorf("workers %v", doc["workers"])
	}

	delete(doc, "workers")

	if diff := cmp.Diff(map[string]any{
		"prefix": "pre", "queue": "pose", "paused": true,
		"counts": map[string]any{
			"waiting": 2.0, "prioritized": 1.0, "delayed": 1.0, "active": 0.0, "waitingChildren": 0.0, "completed": 0.0, "failed": 0.0,
		},
		"oldestWaiting": map[string]any{"id": "an_1", "since": b.now.Add(-90 * time.Second).UTC().Format(time.RFC3339), "ageSeconds": 90.0},
	}, doc); diff != "" {
		t.Error(diff)
	}

	if text := b.text(b.Workers(ctx)); !strings.Contains(text, "NAME") || !strings.Contains(text, "w-1") {
		t.Error(text)
	}

	stop()
	wait.For(t, patience, func() bool { return b.text(b.Workers(ctx)) == "no worker is connected to queue pre:pose\n" })
}

func TestJob(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()
	b.add("an_1", queue.JobOptions{Attempts: 3, Backoff: &queue.Backoff{Type: "exponential", Delay: time.Hour}, Timestamp: b.now.Add(-time.Minute)})
	b.work("w-1", func(ctx context.Context, j *queue.Job) (any, error) {
		return nil, errors.Join(j.Log(ctx, "first\x1b[31m row"), j.Log(ctx, "second"), j.UpdateProgress(ctx, map[string]any{"stage": "extract", "done": 0.5}),
			errors.New("extractor_crashed: it ended\n\x1b]0;title\x07"))
	})
	b.await("an_1", queue.StateDelayed)

	text := b.text(b.Get(ctx, "an_1"))
	got := rows(text)

	for name, want := range map[string]string{
		"id": "an_1", "name": "analysis", "state": "delayed", "attempts": "1 made of 3, 1 started, stalled 0 times",
		"backoff": "exponential, 1h0m0s", "worker": "w-1", "progress": `{"done":0.5,"stage":"extract"}`, "log": "2 rows",
		"failed because": "extractor_crashed: it ended ·]0;title·", "data": `{"v":1,"analysisId":"an_1"}`,
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}

	if !strings.Contains(got["added"], "(1m0s ago)") || strings.ContainsAny(text, "\x1b\x07") {
		t.Errorf("%q", text)
	}

	doc := b.json(func() error { return b.Get(ctx, "an_1") })
	if doc["state"] != "delayed" || doc["attemptsMade"] != 1.0 || doc["logRows"] != 2.0 || doc["data"].(map[string]any)["analysisId"] != "an_1" {
		t.Errorf("%v", doc)
	}

	if o, _ := doc["options"].(map[string]any); o["attempts"] != 3.0 || o["backoff"].(map[string]any)["delayMs"] != 3600000.0 {
		t.Errorf("%v", doc["options"])
	}

	if text := b.text(b.Logs(ctx, "an_1", 0)); text != "first·[31m row\nsecond\n" {
		t.Errorf("%q", text)
	}

	if text := b.text(b.Logs(ctx, "an_1", 1)); text != "second\n" {
		t.Errorf("%q", text)
	}

	if doc := b.json(func() error { return b.Logs(ctx, "an_1", 0) }); !cmp.Equal(doc["logs"], []any{"first\x1b[31m row", "second"}) {
		t.Errorf("%v", doc)
	}

	for name, err := range map[string]error{"get": b.Get(ctx, "an_9"), "logs": b.Logs(ctx, "an_9", 0)} {
		if !errors.Is(err, queue.ErrJobNotFound) || err.Error() != "job an_9 does not exist" || b.out.take() != "" {
			t.Errorf("%s: %v", name, err)
		}
	}

	if text := b.text(b.List(ctx, queue.StateDelayed, 0, 10)); !strings.Contains(text, "an_1") || !strings.Contains(text, "1m0s ago") {
		t.Error(text)
	}

	if text := b.text(b.List(ctx, queue.StateFailed, 0, 10)); text != "no failed jobs\n" {
		t.Error(text)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()

	b := setup(t)
	if text := b.text(b.Pause(t.Context())); !strings.HasPrefix(text, "queue pre:pose is paused") {
		t.Error(text)
	}

	if doc := b.json(func() error { return b.Stats(t.Context()) }); doc["paused"] != true {
		t.Error(doc)
	}

	if doc := b.json(func() error { return b.Resume(t.Context()) }); doc["paused"] != false {
		t.Error(doc)
	}

	if rows(b.text(b.Stats(t.Context())))["state"] != "running" {
		t.Error("still paused")
	}
}

func TestRetryAndRemove(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()

	release := make(chan struct{})
	stop := b.work("", func(ctx context.Context, j *queue.Job) (any, error) {
		if j.ID == "runs" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}

		return nil, errors.New("no")
	})

	for _, id := range []string{"f1", "f2", "f3"} {
		b.add(id, queue.JobOptions{})
		b.await(id, queue.StateFailed)
	}

	b.add("runs", queue.JobOptions{})
	b.await("runs", queue.StateActive)

	if err := b.Pause(ctx); err != nil {
		t.Fatal(err)
	}

	b.out.take()

	err := b.Retry(ctx, []string{"f1", "nobody", "runs", "f2"}, queue.RetryOptions{ResetAttemptsMade: true})
	if text := b.out.take(); text != "f1 waits again\nf2 waits again\n2 jobs retried\n" {
		t.Error(text)
	}

	if err == nil || err.Error() != "job nobody does not exist\njob runs is active" || !errors.Is(err, queue.ErrJobNotFound) {
		t.Errorf("%v", err)
	}

	b.await("f1", queue.StateWaiting)

	if j, err := b.Queue.Job(ctx, "f1"); err != nil || j.AttemptsMade != 0 {
		t.Errorf("%+v, %v", j, err)
	}

	if doc := b.json(func() error { return b.RetryFailed(ctx, queue.RetryOptions{}) }); !cmp.Equal(doc, map[string]any{"retried": []any{"f3"}, "count": 1.0}) {
		t.Error(doc)
	}

	err = b.Remove(ctx, []string{"f1", "runs", "nobody"})
	if text := b.out.take(); text != "f1 removed\n1 job removed\n" {
		t.Error(text)
	}

	if err == nil || err.Error() != "job runs is being worked on\njob nobody does not exist" {
		t.Errorf("%v", err)
	}

	if n := b.r.Exists(ctx, "pre:pose:f1").Val(); n != 0 {
		t.Error("the job is still there")
	}

	if doc := b.json(func() error { return b.Remove(ctx, []string{"f2"}) }); !cmp.Equal(doc["removed"], []any{"f2"}) {
		t.Error(doc)
	}

	if text := b.text(b.Drain(ctx, false)); text != "1 job removed that had not begun\n" {
		t.Error(text)
	}

	close(release)
	b.await("runs", queue.StateFailed)
	stop()
}

func TestClean(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()

	stop := b.work("", func(context.Context, *queue.Job) (any, error) { return nil, nil })

	for _, id := range []string{"c1", "c2", "c3"} {
		b.add(id, queue.JobOptions{})
		b.await(id, queue.StateCompleted)
	}

	stop()
	// Two of them finished long ago.
	for i, id := range []string{"c1", "c2"} {
		at := float64(time.Now().Add(-time.Hour).UnixMilli() + int64(i))
		if err := b.r.ZAdd(ctx, "pre:pose:completed", redis.Z{Score: at, Member: id}).Err(); err != nil {
			t.Fatal(err)
		}
	}

	if text := b.text(b.Clean(ctx, queue.StateFailed, 0, 0)); text != "0 jobs removed from failed\n" {
		t.Error(text)
	}

	if text := b.text(b.Clean(ctx, queue.StateCompleted, time.Minute, 1)); text != "c1 removed\n1 job removed from completed\n" {
		t.Error(text)
	}

	if doc := b.json(func() error { return b.Clean(ctx, queue.StateCompleted, time.Minute, 0) }); !cmp.Equal(doc, map[string]any{
		"state": "completed", "removed": []any{"c2"}, "count": 1.0,
	}) {
		t.Error(doc)
	}

	if s, err := b.Queue.State(ctx, "c3"); err != nil || s != queue.StateCompleted {
		t.Errorf("a job of now is %s, %v", s, err)
	}

	// Waiting jobs, also where major 5 has moved them.
	b.add("w1", queue.JobOptions{})
	b.add("w2", queue.JobOptions{})

	if err := b.r.Rename(ctx, "pre:pose:wait", "pre:pose:paused").Err(); err != nil {
		t.Fatal(err)
	}

	b.add("w3", queue.JobOptions{})

	if text := b.text(b.Clean(ctx, queue.StateWaiting, 0, 2)); !strings.HasSuffix(text, "2 jobs removed from waiting\n") {
		t.Error(text)
	}

	if text := b.text(b.Clean(ctx, queue.StateWaiting, 0, 0)); !strings.HasSuffix(text, "\n1 job removed from waiting\n") {
		t.Error(text)
	}

	if err := b.Clean(ctx, queue.StateWaitingChildren, 0, 0); !errors.Is(err, queuecmd.ErrBadState) {
		t.Error(err)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.add("an_1", queue.JobOptions{})

	ctx, cancel := context.WithCancel(t.Context())
	d := b.desk(b.Options)
	d.JSON = true

	var wg sync.WaitGroup

	wg.Go(func() {
		if err := d.Events(ctx, "0", 0, slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
	})

	wait.For(t, patience, func() bool { return strings.Contains(b.out.String(), `"event":"waiting"`) })
	cancel()
	wg.Wait()

	first, _, _ := strings.Cut(b.out.take(), "\n")
	if doc := decode(t, first+"\n"); doc["event"] != "added" || doc["jobId"] != "an_1" || doc["at"] == "" {
		t.Error(first)
	}
}

func TestEdits(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()

	for _, id := range []string{"d1", "d2", "d3"} {
		b.add(id, queue.JobOptions{Delay: time.Hour})
	}

	err := b.Promote(ctx, []string{"d1", "nobody", "d1"})
	if text := b.out.take(); text != "d1 waits now\n1 job promoted\n" {
		t.Error(text)
	}

	if err == nil || err.Error() != "job nobody does not exist\njob d1 is waiting" {
		t.Errorf("%v", err)
	}

	if text := b.text(b.ChangeDelay(ctx, "d2", time.Minute)); text != "d2 is due in 1m0s\n1 job changed\n" {
		t.Error(text)
	}

	if doc := b.json(func() error { return b.PromoteAll(ctx) }); doc["count"] != 2.0 {
		t.Error(doc)
	}

	if text := b.text(b.ChangePriority(ctx, "d2", 7, false)); text != "d2 has priority 7\n1 job changed\n" {
		t.Error(text)
	}

	b.await("d2", queue.StatePrioritized)

	if err := b.r.HSet(ctx, "pre:pose:lost", "name", "a", "data", "{}", "timestamp", "1").Err(); err != nil {
		t.Fatal(err)
	}

	if text := b.text(b.RemoveOrphans(ctx)); text != "lost removed\n1 job removed that was in no state\n" {
		t.Error(text)
	}

	if _, err := b.Queue.UpsertScheduler(ctx, "nightly", queue.Repeat{Pattern: "0 3 * * *", TZ: "UTC"}, queue.NewJob{Name: "sweep"}); err != nil {
		t.Fatal(err)
	}

	if text := b.text(b.Schedulers(ctx)); !strings.Contains(text, "nightly") || !strings.Contains(text, "0 3 * * * (UTC)") {
		t.Error(text)
	}

	if text := b.text(b.Obliterate(ctx, false)); text != "queue pre:pose is deleted, with 4 jobs\n" {
		t.Error(text)
	}

	if keys := b.r.Keys(ctx, "*").Val(); len(keys) > 0 {
		t.Error("left:", keys)
	}

	// A running job keeps the queue.
	if err := errors.Join(b.r.LPush(ctx, "pre:pose:active", "x").Err(), b.r.HSet(ctx, "pre:pose:x", "name", "a").Err()); err != nil {
		t.Fatal(err)
	}

	if err := b.Obliterate(ctx, false); err == nil || !strings.Contains(err.Error(), "jobs are running") {
		t.Error(err)
	}
}

// A Redis that forbids what is optional costs only that; a Redis that is away is an error that shows no password.
func TestFewRightsAndNoRedis(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()

	if err := b.r.Do(ctx, "ACL", "SETUSER", "few", "on", ">canary", "~*", "+@all", "-client").Err(); err != nil {
		t.Fatal(err)
	}

	o := b.Options
	o.RedisURL = strings.Replace(o.RedisURL, "redis://", "redis://few:canary@", 1)
	d := b.desk(o)

	if err := d.Stats(ctx); err != nil {
		t.Fatal(err)
	}

	if s := rows(b.out.take())["workers"]; !strings.HasPrefix(s, "unknown") {
		t.Error(s)
	}

	if err := d.Workers(ctx); err == nil || strings.Contains(err.Error(), "canary") {
		t.Error(err)
	}

	o.RedisURL = "redis://few:canary@127.0.0.1:1"
	d = b.desk(o)

	for name, do := range map[string]func(context.Context) error{
		"stats": d.Stats, "pause": d.Pause, "resume": d.Resume, "get": func(ctx context.Context) error { return d.Get(ctx, "x") },
		"retry":  func(ctx context.Context) error { return d.Retry(ctx, []string{"x", "y"}, queue.RetryOptions{}) },
		"events": func(ctx context.Context) error { return d.Events(ctx, "", 0, slog.New(slog.DiscardHandler)) },
	} {
		if err := do(ctx); err == nil || strings.Contains(err.Error(), "canary") || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseState(t *testing.T) {
	t.Parallel()

	if s, err := queuecmd.ParseState("Wait"); err != nil || s != queue.StateWaiting {
		t.Error(s, err)
	}

	if _, err := queuecmd.ParseState("done"); !errors.Is(err, queuecmd.ErrBadState) {
		t.Error(err)
	}
}
