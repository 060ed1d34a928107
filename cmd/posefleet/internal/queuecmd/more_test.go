package queuecmd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/queuecmd"
	"github.com/posefleet/posefleet/queue"
)

func TestSchedulerLife(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()
	r := queue.Repeat{Pattern: "0 3 * * *", TZ: "Europe/Berlin", Limit: 5}
	template := queue.NewJob{Name: "sweep", Data: json.RawMessage(`{"deep":true}`), Opts: queue.JobOptions{Attempts: 2}}

	text := b.text(b.SetScheduler(ctx, "nightly", r, template))
	if !strings.HasPrefix(text, "scheduler nightly is set; its next job repeat:nightly:") {
		t.Error(text)
	}

	got := rows(b.text(b.Scheduler(ctx, "nightly")))
	if got["when"] != "0 3 * * * (Europe/Berlin)" || got["job"] != "sweep" || got["limit"] != "5 jobs" || got["data"] != `{"deep":true}` {
		t.Errorf("%v", got)
	}

	// Set again is a change, not a second one.
	doc := b.json(func() error { return b.SetScheduler(ctx, "nightly", queue.Repeat{Every: time.Hour}, template) })
	if doc["id"] != "nightly" || !strings.HasPrefix(fmt.Sprint(doc["nextJob"]), "repeat:nightly:") {
		t.Errorf("%v", doc)
	}

	all := b.json(func() error { return b.Schedulers(ctx) })
	if list, _ := all["schedulers"].([]any); len(list) != 1 || list[0].(map[string]any)["every"] != "1h0m0s" {
		t.Errorf("%v", all)
	}

	if text := b.text(b.RemoveScheduler(ctx, "nightly")); text != "scheduler nightly is removed: it makes no more jobs\n" {
		t.Error(text)
	}

	for name, err := range map[string]error{"get": b.Scheduler(ctx, "nightly"), "remove": b.RemoveScheduler(ctx, "nightly")} {
		if !errors.Is(err, queue.ErrSchedulerNotFound) || err.Error() != "scheduler nightly does not exist" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()

	if diff := cmp.Diff(map[string]string{"jobs at once": "no limit", "starts": "no limit"}, rows(b.text(b.Limits(ctx)))); diff != "" {
		t.Error(diff)
	}

	got := rows(b.text(b.SetLimits(ctx, 3, queue.Limiter{Max: 10, Duration: time.Minute}, time.Hour)))
	if got["jobs at once"] != "3" || got["starts"] != "10 in 1m0s" || got["held for"] == "" {
		t.Errorf("%v", got)
	}

	doc := b.json(func() error { return b.ClearLimits(ctx, queuecmd.LimitKinds{Rate: true, Hold: true}) })
	if diff := cmp.Diff(map[string]any{"concurrency": 3.0, "rateMax": 0.0, "rateDurationMs": 0.0, "heldForMs": 0.0}, doc); diff != "" {
		t.Error(diff)
	}

	b.text(b.ClearLimits(ctx, queuecmd.LimitKinds{Concurrency: true}))

	if n, err := b.Queue.GlobalConcurrency(ctx); err != nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()

	if text := b.text(b.Metrics(ctx, 60)); !strings.HasPrefix(text, "no metrics") {
		t.Error(text)
	}

	// Two series of which one is a minute behind.
	at := time.Date(2026, 5, 1, 12, 30, 20, 0, time.UTC)
	for key, values := range map[string][]any{
		"pre:pose:metrics:completed": {"count", 9, "prevTS", at.UnixMilli(), "prevCount", 8},
		"pre:pose:metrics:failed":    {"count", 1, "prevTS", at.Add(-time.Minute).UnixMilli(), "prevCount", 1},
	} {
		if err := b.r.HSet(ctx, key, values...).Err(); err != nil {
			t.Fatal(err)
		}
	}

	if err := errors.Join(b.r.RPush(ctx, "pre:pose:metrics:completed:data", 5, 3).Err(), b.r.RPush(ctx, "pre:pose:metrics:failed:data", 1).Err()); err != nil {
		t.Fatal(err)
	}

	const want = `9 completed and 1 failed since the count began
MINUTE                COMPLETED  FAILED
2026-05-01 12:29 UTC  5          -
2026-05-01 12:28 UTC  3          1
`
	if text := b.text(b.Metrics(ctx, 60)); text != want {
		t.Error(cmp.Diff(want, text))
	}

	if doc := b.json(func() error { return b.Metrics(ctx, 1) }); !cmp.Equal(doc["completed"].(map[string]any)["perMinute"], []any{5.0}) {
		t.Errorf("%v", doc)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()
	b.work("", func(_ context.Context, j *queue.Job) (any, error) {
		if j.ID == "bad" {
			return nil, errors.New("no\ngood")
		}

		return map[string]int{"reps": 8}, nil
	})
	b.add("good", queue.JobOptions{})
	b.add("bad", queue.JobOptions{})
	b.add("late", queue.JobOptions{Delay: time.Hour})

	if text := b.text(b.Wait(ctx, []string{"good"}, 0)); text != "good completed: {\"reps\":8}\n" {
		t.Error(text)
	}

	// In the shortest time it is a call to Redis that has none left.
	if err := b.Wait(ctx, []string{"late"}, 1); !errors.Is(err, queuecmd.ErrNotInTime) || err.Error() != "job late has not finished in time" {
		t.Error(err)
	}

	if err := b.Wait(ctx, []string{"late"}, 50*time.Millisecond); !errors.Is(err, queuecmd.ErrNotInTime) || err.Error() != "job late has not finished in time" {
		t.Errorf("%v", err)
	}

	b.JSON = true
	err := b.Wait(ctx, []string{"good", "bad", "nobody"}, 0)
	b.JSON = false

	if err == nil || err.Error() != "job bad failed: no good\njob nobody does not exist, or not any more" {
		t.Errorf("%v", err)
	}

	got := map[string]any{}

	for _, entry := range decode(t, b.out.take())["jobs"].([]any) {
		one := entry.(map[string]any)
		got[fmt.Sprint(one["id"])] = fmt.Sprint(one["completed"], " ", one["reason"])
	}

	if diff := cmp.Diff(map[string]any{
		"good": "true <nil>", "bad": "false no\ngood", "nobody": "false job nobody does not exist, or not any more",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFlow(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()

	const tree = `{"name": "report", "opts": {"jobId": "top", "attempts": 3, "backoff": 500}, "data": {"a": 1}, "children": [
		{"name": "page", "queueName": "render", "opts": {"jobId": "p1", "failParentOnFailure": true, "removeOnComplete": {"count": 5}}},
		{"name": "page", "queueName": "render", "opts": {"jobId": "p2", "delay": 60000}}]}`

	if text := b.text(b.AddFlow(ctx, strings.NewReader(tree))); text != "pose:top added\n  render:p1 added\n  render:p2 added\n" {
		t.Error(text)
	}

	j, err := b.Queue.Job(ctx, "top")
	if err != nil || j.Opts.Attempts != 3 || j.Opts.Backoff == nil || j.Opts.Backoff.Delay != 500*time.Millisecond || string(j.Data) != `{"a": 1}` {
		t.Errorf("%+v, %v", j, err)
	}

	const want = "waiting-children  pose:top  report\n  waiting  render:p1  page\n  delayed  render:p2  page\n"
	if text := b.text(b.Flow(ctx, "top", 10, 20)); text != want {
		t.Error(cmp.Diff(want, text))
	}

	doc := b.json(func() error { return b.Flow(ctx, "top", 1, 20) })
	if doc["state"] != "waiting-children" || doc["children"] != nil {
		t.Errorf("%v", doc)
	}

	// What is there already is said, and several trees come in an array.
	doc = b.json(func() error {
		return b.AddFlow(ctx, strings.NewReader(`[{"name":"x","opts":{"jobId":"top"}},{"name":"y"}]`))
	})
	if list, _ := doc["added"].([]any); len(list) != 2 || list[0].(map[string]any)["wasThere"] != true {
		t.Errorf("%v", doc)
	}

	for _, bad := range []string{
		``, `{"name":"x"} {}`, `{"name":"x","optz":{}}`, `{"name":"x","opts":{"atempts":3}}`, `{"name":"x","opts":{"jobId":"12"}}`, `[{"name":1}]`,
	} {
		if err := b.AddFlow(ctx, strings.NewReader(bad)); !errors.Is(err, queuecmd.ErrBadFlow) {
			t.Errorf("%s: %v", bad, err)
		}
	}

	if err := b.Flow(ctx, "nobody", 10, 20); !errors.Is(err, queue.ErrJobNotFound) {
		t.Error(err)
	}
}

// A tail can go on where it ended, and says where Redis has thrown events away.
func TestEventsGoOn(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()

	for _, id := range []string{"a", "b", "c"} {
		b.add(id, queue.JobOptions{})
	}

	quiet := slog.New(slog.DiscardHandler)
	text := b.text(b.Events(ctx, "0", 2, quiet))

	_, after, found := strings.Cut(strings.TrimSpace(text), "go on with --after=")
	if !found || strings.Count(text, "\n") != 3 {
		t.Fatalf("%q", text)
	}

	text = b.text(b.Events(ctx, after, 1, quiet))
	if !strings.Contains(text, "added") || !strings.Contains(text, " b ") || strings.Contains(text, "missing") {
		t.Errorf("%q", text)
	}

	if err := b.r.XTrimMaxLen(ctx, "pre:pose:events", 1).Err(); err != nil {
		t.Fatal(err)
	}

	if text := b.text(b.Events(ctx, after, 1, quiet)); !strings.HasPrefix(text, "-- events are missing here") {
		t.Errorf("%q", text)
	}

	if doc := b.json(func() error { return b.Events(ctx, after, 1, quiet) }); doc["gap"] != true {
		t.Errorf("%v", doc)
	}
}

// A no leaves everything as it is; the question tells what would go.
func TestSecondThoughts(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()
	no := errors.New("no")

	var asked string

	b.Confirm = func(question string) error { asked = question; return no }

	b.add("w1", queue.JobOptions{})
	b.add("w2", queue.JobOptions{})

	for want, do := range map[string]func() error{
		"delete the 2 waiting jobs of queue pre:pose":                                        func() error { return b.Clean(ctx, queue.StateWaiting, 0, 0) },
		"delete up to 5 of the 2 waiting jobs that are older than 1h0m0s, of queue pre:pose": func() error { return b.Clean(ctx, queue.StateWaiting, time.Hour, 5) },
		"delete all jobs of queue pre:pose that wait":                                        func() error { return b.Drain(ctx, false) },
		"delete all jobs of queue pre:pose that are in no state":                             func() error { return b.RemoveOrphans(ctx) },
		"delete queue pre:pose with everything in it, which is 2 jobs":                       func() error { return b.Obliterate(ctx, true) },
	} {
		if err := do(); !errors.Is(err, no) || asked != want {
			t.Errorf("%v, asked %q, want %q", err, asked, want)
		}
	}

	if n, err := b.Queue.Counts(ctx); err != nil || n.Waiting != 2 || n.Paused {
		t.Errorf("%+v, %v", n, err)
	}

	b.Confirm = func(string) error { return nil }

	if text := b.text(b.Drain(ctx, false)); text != "2 jobs removed that had not begun\n" {
		t.Error(text)
	}
}

func TestRemoveUnprocessedChildren(t *testing.T) {
	t.Parallel()

	b := setup(t)
	ctx := t.Context()

	flows, err := queue.NewFlows(queue.FlowOptions{RedisURL: b.Options.RedisURL, Prefix: b.Options.Prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer flows.Close()

	if _, err := flows.Add(ctx, queue.FlowJob{
		Queue: "pose", Name: "n", Opts: queue.JobOptions{JobID: "parent"}, Children: []queue.FlowJob{{Queue: "pose", Name: "n"}},
	}); err != nil {
		t.Fatal(err)
	}

	err = b.RemoveUnprocessedChildren(ctx, []string{"parent", "nobody"})
	if text := b.out.take(); text != "parent is relieved of the children that had not begun\n1 job relieved\n" {
		t.Error(text)
	}

	if err == nil || err.Error() != "job nobody does not exist" {
		t.Errorf("%v", err)
	}

	if s, err := b.Queue.State(ctx, "parent"); err != nil || s != queue.StateWaiting {
		t.Errorf("the parent is %s, %v", s, err)
	}
}

func TestPrometheus(t *testing.T) {
	t.Parallel()

	b := setup(t)
	if text := b.text(b.Prometheus(t.Context())); !strings.Contains(text, "\nbullmq_job_count{queue=\"pose\", state=\"waiting\"} 0\n") {
		t.Error(text)
	}

	if doc := b.json(func() error { return b.Prometheus(t.Context()) }); !strings.Contains(fmt.Sprint(doc["text"]), "bullmq_job_failed_total") {
		t.Error(doc)
	}
}
