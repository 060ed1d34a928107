package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/wait"
)

// kill -9 of a Go worker in the middle of a job: Node's worker, which is there already and leaves the job alone while its lock is renewed,
// gets it back by the stalled rule and completes it, once.
func TestNodeTakesOverFromGo(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		q := k.queue("q")
		id := n.add("n", map[string]any{"n": 7}, nil)
		proc := k.startChild(id)

		n.ask(nil, map[string]any{"op": "work", "opts": map[string]any{"lockDuration": 4000, "stalledInterval": 200}})
		// Two stalled checks have to pass: they find the job active, and its lock alive.
		for range 3 {
			before := k.r.Get(t.Context(), "bull:q:stalled-check").Val()

			wait.For(t, testTimeout, func() bool {
				now := k.r.Get(t.Context(), "bull:q:stalled-check").Val()
				return now != "" && now != before
			}, "nobody looks for stalled jobs")
		}

		if s, err := q.State(t.Context(), id); err != nil || s != StateActive || k.count("stalled") != 0 {
			t.Errorf("the job of a living worker is %s, stalled %d times, %v", s, k.count("stalled"), err)
		}

		proc.Kill()
		k.awaitState(q, id, StateCompleted)

		j, err := q.Job(t.Context(), id)
		k.must(err)

		if j.StalledCount != 1 || j.AttemptsStarted != 2 || j.AttemptsMade != 1 || j.ProcessedBy != "node" {
			t.Errorf("stalled %d, started %d, made %d, by %s", j.StalledCount, j.AttemptsStarted, j.AttemptsMade, j.ProcessedBy)
		}

		if k.count("completed") != 1 || k.r.LLen(t.Context(), "bull:q:active").Val() != 0 {
			t.Errorf("completed %d times, %d active", k.count("completed"), k.r.LLen(t.Context(), "bull:q:active").Val())
		}
	})
}

// count is how many events of a name the stream of queue q has.
func (k *kit) count(name string) int {
	k.t.Helper()

	n := 0

	for _, line := range k.events("bull:q:events") {
		if line == "event="+name || strings.HasPrefix(line, "event="+name+" |") {
			n++
		}
	}

	return n
}

// eventLog is what an Events reader has delivered, written like the stream itself.
type eventLog struct {
	mu    sync.Mutex
	lines []string
	all   []Event
}

func (l *eventLog) add(e Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.all = append(l.all, e)
	l.lines = append(l.lines, strings.TrimSpace(e.Name+" "+e.JobID))

	return nil
}

func (l *eventLog) snapshot() ([]string, []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return append([]string{}, l.lines...), append([]Event{}, l.all...)
}

// streamed are the names and jobs of the stream's events, in order.
func (k *kit) streamed() []string {
	k.t.Helper()

	var lines []string

	for _, line := range k.events("bull:q:events") {
		name, id := "", ""

		for part := range strings.SplitSeq(line, " | ") {
			if v, ok := strings.CutPrefix(part, "event="); ok {
				name = v
			}

			if v, ok := strings.CutPrefix(part, "jobId="); ok {
				id = v
			}
		}

		lines = append(lines, strings.TrimSpace(name+" "+id))
	}

	return lines
}

// All that Node does is seen by our Events, in order and decoded.
func TestOurEventsSeeNodes(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		q := k.queue("q")

		var seen eventLog

		events, err := NewEvents(k.options("q"))
		k.must(err)

		ctx, stop := context.WithCancel(t.Context())
		defer stop()

		var reader sync.WaitGroup

		defer reader.Wait()
		defer stop()
		reader.Go(func() { _ = events.RunFrom(ctx, "0", seen.add) }) // ends with stop

		n.ask(nil, map[string]any{"op": "pause"})
		n.ask(nil, map[string]any{"op": "resume"})

		late := n.add("n", map[string]any{}, map[string]any{"delay": 60000})
		n.ask(nil, map[string]any{"op": "remove", "id": late})
		n.ask(nil, map[string]any{"op": "work", "opts": map[string]any{}})

		good := n.add("n", map[string]any{"n": 3}, map[string]any{"jobId": "good"})
		n.add("n", map[string]any{}, map[string]any{"jobId": "good"})
		bad := n.add("n", map[string]any{"failures": 9}, map[string]any{"attempts": 2, "backoff": 10})
		k.awaitState(q, good, StateCompleted)
		k.awaitState(q, bad, StateFailed)

		var got []string

		wait.For(t, testTimeout, func() bool {
			got, _ = seen.snapshot()
			return len(got) == len(k.streamed()) && k.count("retries-exhausted") == 1
		})

		if diff := cmp.Diff(k.streamed(), got); diff != "" {
			t.Error(diff)
		}

		_, all := seen.snapshot()
		for _, e := range all {
			switch {
			case e.Name == "completed" && !strings.HasPrefix(string(e.ReturnValue()), `{"by":"node","n":3`),
				e.Name == "progress" && string(e.Progress()) != `{"done":0.5}`,
				e.Name == "failed" && e.Fields["failedReason"] != "not yet",
				e.Gap:
				t.Errorf("%+v", e)
			}
		}
	})
}

// All that Go does is seen by Node's QueueEvents, in order, and its reader is alive to the end.
func TestNodesEventsSeeOurs(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		q, ctx := k.queue("q"), t.Context()

		n.ask(nil, map[string]any{"op": "listen"})
		k.must(q.Pause(ctx))
		k.must(q.Resume(ctx))

		late := k.add(q, "n", nil, JobOptions{Delay: time.Hour})
		k.must(q.Promote(ctx, late))
		k.must(q.Remove(ctx, late))
		k.add(q, "n", map[string]int{"n": 3}, JobOptions{JobID: "good"})
		k.add(q, "n", nil, JobOptions{JobID: "good"})
		k.add(q, "n", nil, JobOptions{Deduplication: &Deduplication{ID: "d"}, Delay: time.Hour})
		k.add(q, "n", nil, JobOptions{Deduplication: &Deduplication{ID: "d"}})

		f, err := NewFlows(FlowOptions{RedisURL: k.url})
		k.must(err)
		t.Cleanup(func() { _ = f.Close() })

		_, err = f.Add(ctx, FlowJob{Queue: "q", Name: "p", Opts: JobOptions{JobID: "p"}, Children: []FlowJob{{Queue: "q", Name: "c"}}})
		k.must(err)

		k.run(k.workerOptions("q"), func(ctx context.Context, j *Job) (any, error) {
			if j.Name == "bad" {
				return nil, errors.New("a reason with \"quotes\" and\nlines")
			}

			return goHandler(ctx, j)
		})

		bad := k.add(q, "bad", nil, JobOptions{Attempts: 2, Backoff: &Backoff{Type: "fixed", Delay: 10 * time.Millisecond}})
		for id, state := range map[string]State{"good": StateCompleted, "p": StateCompleted, bad: StateFailed} {
			k.awaitState(q, id, state)
		}

		_, err = q.Clean(ctx, 0, 0, StateFailed)
		k.must(err)

		var (
			events []map[string]any
			got    []string
		)

		wait.For(t, testTimeout, func() bool {
			n.ask(&events, map[string]any{"op": "events"})
			return len(events) >= len(k.streamed())
		})

		for _, e := range events {
			id, _ := e["jobId"].(string)
			got = append(got, strings.TrimSpace(fmt.Sprint(e["event"], " ", id)))

			if e["event"] == "failed" && e["failedReason"] != "a reason with \"quotes\" and\nlines" {
				t.Errorf("%v", e)
			}
		}

		if diff := cmp.Diff(k.streamed(), got); diff != "" {
			t.Error(diff)
		}
	})
}
