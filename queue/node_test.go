package queue

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/wait"
)

// nodeSide is real BullMQ in a Node process (testdata/bull.cjs).
type nodeSide struct {
	t     *testing.T
	proc  *child.Process
	in    io.WriteCloser
	lines *bufio.Scanner
	mu    sync.Mutex
}

// startNode starts the client of a major on queue "q" of the kit.
func (k *kit) startNode(major string) *nodeSide {
	k.t.Helper()

	dir := need.Node(k.t)
	host, port, err := net.SplitHostPort(k.srv.Addr)
	k.must(err)

	cmd := exec.Command(need.Program(k.t, "node"), "testdata/bull.cjs", "bullmq"+major, host, port, "q")
	cmd.Env = append(cmd.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
	in, err := cmd.StdinPipe()
	k.must(err)
	out, err := cmd.StdoutPipe()
	k.must(err)
	proc, err := child.Start(cmd)
	k.must(err)

	n := &nodeSide{t: k.t, proc: proc, in: in, lines: bufio.NewScanner(out)}
	n.lines.Buffer(nil, 1<<20)
	k.t.Cleanup(proc.Kill)

	return n
}

// ask sends a command and reads its answer into to.
func (n *nodeSide) ask(to any, command map[string]any) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()

	text, err := json.Marshal(command)
	if err != nil {
		n.t.Fatal(err)
	}

	if _, err := n.in.Write(append(text, '\n')); err != nil {
		n.t.Fatal(err)
	}

	if !n.lines.Scan() {
		n.t.Fatalf("node has ended: %v\n%s", n.lines.Err(), n.proc.Output())
	}

	var answer struct {
		Value json.RawMessage
		Error string
	}

	if err := json.Unmarshal(n.lines.Bytes(), &answer); err != nil || answer.Error != "" {
		n.t.Fatalf("%s: node answers %s", text, n.lines.Bytes())
	}

	if to != nil {
		if err := json.Unmarshal(answer.Value, to); err != nil {
			n.t.Fatalf("%s: node answers %s: %v", text, n.lines.Bytes(), err)
		}
	}
}

func (n *nodeSide) add(name string, data any, opts map[string]any) (id string) {
	n.t.Helper()
	n.ask(&id, map[string]any{"op": "add", "job": name, "data": data, "opts": opts})

	return id
}

// nodeJob is a job as Node sees it.
type nodeJob struct {
	State, Name, FailedReason, ProcessedBy        string
	Data, ReturnValue, Progress                   json.RawMessage
	AttemptsMade, AttemptsStarted, StalledCounter int
	Stacktrace, Logs                              []string
	Finished                                      bool
}

func (n *nodeSide) job(id string) (j nodeJob) {
	n.t.Helper()
	n.ask(&j, map[string]any{"op": "job", "id": id})

	return j
}

func (n *nodeSide) await(id, state string) nodeJob {
	n.t.Helper()

	var j nodeJob
	if !wait.Until(n.t, testTimeout, func() bool { j = n.job(id); return j.State == state }) {
		n.t.Fatalf("job %s is %s for node, want %s", id, j.State, state)
	}

	return j
}

func eachMajor(t *testing.T, run func(t *testing.T, k *kit, n *nodeSide)) {
	t.Helper()

	for _, major := range []string{"6", "5"} {
		t.Run("bullmq "+major, func(t *testing.T) {
			t.Parallel()

			k := newKit(t)
			run(t, k, k.startNode(major))
		})
	}
}

// goHandler does what testdata/bull.cjs does.
func goHandler(ctx context.Context, j *Job) (any, error) {
	if err := errors.Join(j.UpdateProgress(ctx, map[string]float64{"done": 0.5}), j.Log(ctx, "by go")); err != nil {
		return nil, err
	}

	var data struct{ N, Failures int }
	if err := json.Unmarshal(j.Data, &data); err != nil {
		return nil, err
	}

	if data.Failures > j.AttemptsMade {
		return nil, errors.New("not yet")
	}

	return map[string]any{"by": "go", "n": data.N}, nil
}

func TestNodeAddsGoWorks(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		n.ask(nil, map[string]any{"op": "listen"})

		o := k.workerOptions("q")
		o.WorkerName, o.Concurrency = "w1", 2
		k.run(o, goHandler)

		var workers []string

		wait.For(t, testTimeout, func() bool { n.ask(&workers, map[string]any{"op": "workers"}); return len(workers) == 1 })

		if !strings.HasSuffix(workers[0], ":w:w1") {
			t.Errorf("node sees the workers %q", workers)
		}

		plain := n.add("n", map[string]any{"n": 7}, map[string]any{"jobId": "mine"})
		delayed := n.add("n", map[string]any{"n": 1}, map[string]any{"delay": 100})
		first := n.add("n", map[string]any{"n": 1}, map[string]any{"priority": 3})
		tried := n.add("n", map[string]any{"failures": 2},
			map[string]any{"attempts": 3, "backoff": map[string]any{"type": "exponential", "delay": 20}})
		failed := n.add("n", map[string]any{"failures": 5}, map[string]any{"attempts": 2, "stackTraceLimit": 1})

		var parent string

		n.ask(&parent, map[string]any{"op": "flow", "tree": map[string]any{
			"name": "p", "queueName": "q", "data": map[string]any{"n": 100}, "children": []any{
				map[string]any{"name": "c", "queueName": "q", "data": map[string]any{"n": 1}, "opts": map[string]any{"removeOnComplete": true}},
				map[string]any{"name": "c", "queueName": "q", "data": map[string]any{"failures": 9}, "opts": map[string]any{
					"ignoreDependencyOnFailure": true,
				}},
			},
		}})

		for _, id := range []string{plain, delayed, first, tried, parent} {
			n.await(id, "completed")
		}

		j := n.job(plain)
		got := fmt.Sprintf("%s %s %v %d %d %s %v", j.ReturnValue, j.Progress, j.Logs, j.AttemptsMade, j.AttemptsStarted, j.ProcessedBy, j.Finished)
		if got != `{"by":"go","n":7} {"done":0.5} [by go] 1 1 w1 true` {
			t.Errorf("node reads %s", got)
		}

		if j := n.job(tried); j.AttemptsMade != 3 || j.AttemptsStarted != 3 || j.FailedReason != "not yet" || len(j.Stacktrace) != 2 {
			t.Errorf("node reads %+v", j)
		}

		if j := n.await(failed, "failed"); j.AttemptsMade != 2 || j.FailedReason != "not yet" || len(j.Stacktrace) != 1 {
			t.Errorf("node reads %+v", j)
		}

		nodeSawEvents(t, n, plain)
	})
}

// nodeSawEvents: Node's event reader got the job's events and is still alive behind them.
func nodeSawEvents(t *testing.T, n *nodeSide, id string) {
	t.Helper()

	var events []map[string]any

	find := func(name string) map[string]any {
		for _, e := range events {
			if e["event"] == name && e["jobId"] == id {
				return e
			}
		}

		return nil
	}

	wait.For(t, testTimeout, func() bool { n.ask(&events, map[string]any{"op": "events"}); return find("completed") != nil })

	got := fmt.Sprintf("%v %v %v", find("completed")["returnvalue"], find("progress")["data"], find("active")["prev"])
	if got != "map[by:go n:7] map[done:0.5] waiting" {
		t.Errorf("node's events tell %s", got)
	}
}

func TestGoAddsNodeWorks(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		q := k.queue("q")
		n.ask(nil, map[string]any{"op": "work", "opts": map[string]any{"concurrency": 2}})

		data := map[string]int{"n": 7}
		added, err := q.AddBulk(t.Context(), []NewJob{
			{Name: "n", Data: data, Opts: JobOptions{JobID: "mine"}},
			{Name: "n", Data: data, Opts: JobOptions{Delay: 100 * time.Millisecond}},
			{Name: "n", Data: data, Opts: JobOptions{Priority: 5}},
			{Name: "n", Data: data, Opts: JobOptions{LIFO: true}},
			{Name: "n", Data: map[string]int{"failures": 2, "n": 7}, Opts: JobOptions{
				Attempts: 3, Backoff: &Backoff{Type: "fixed", Delay: 20 * time.Millisecond, Jitter: 0.5},
			}},
		})
		k.must(err)

		for _, a := range added {
			k.awaitState(q, a.ID, StateCompleted)
		}

		j, err := q.Job(t.Context(), "mine")
		k.must(err)

		if string(j.ReturnValue) != `{"by":"node","n":7,"children":{}}` || string(j.Progress) != `{"done":0.5}` || j.ProcessedBy != "node" {
			t.Errorf("returned %s, progress %s, by %q", j.ReturnValue, j.Progress, j.ProcessedBy)
		}

		if rows, err := q.Logs(t.Context(), "mine"); err != nil || fmt.Sprint(rows) != "[by node]" {
			t.Errorf("%v, %v", rows, err)
		}

		workers, err := q.Workers(t.Context())
		if err != nil || len(workers) != 1 || workers[0].Name != "node" {
			t.Errorf("workers %+v, %v", workers, err)
		}

		gone := k.add(q, "n", data, JobOptions{RemoveOnComplete: &Keep{Now: true}})
		wait.For(t, testTimeout, func() bool { s, err := q.State(t.Context(), gone); return err == nil && s == StateUnknown })
	})
}

// Both libraries work on one queue; each job is done once.
func TestNodeAndGoShareAQueue(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		q := k.queue("q")
		n.ask(nil, map[string]any{"op": "work", "opts": map[string]any{"concurrency": 2}})

		var byGo atomic.Int32

		o := k.workerOptions("q")
		o.Concurrency = 2
		k.run(o, func(ctx context.Context, j *Job) (any, error) { byGo.Add(1); return goHandler(ctx, j) })

		for i := range 100 {
			if i%2 == 0 {
				n.add("n", map[string]any{"n": i}, nil)
			} else {
				k.add(q, "n", map[string]int{"n": i}, JobOptions{Priority: i % 3})
			}
		}

		wait.For(t, testTimeout, func() bool { c, err := q.Counts(t.Context()); return err == nil && c.Completed == 100 })

		ids, err := q.IDs(t.Context(), StateCompleted, 0, 200)
		k.must(err)

		for _, id := range ids {
			if j, err := q.Job(t.Context(), id); err != nil || j.AttemptsStarted != 1 {
				t.Errorf("job %s started %d times, %v", id, j.AttemptsStarted, err)
			}
		}

		t.Logf("%d of 100 jobs done by Go", byGo.Load())
	})
}

// kill -9 of a Node worker: Go finishes its job. Pauses by Node hold Go's workers.
func TestGoTakesOverFromNode(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		q := k.queue("q")
		n.ask(nil, map[string]any{"op": "work", "opts": map[string]any{"lockDuration": 4000, "stalledInterval": 200}})
		id := n.add("n", map[string]any{"hang": true}, nil)
		k.awaitState(q, id, StateActive)
		n.ask(nil, map[string]any{"op": "pause"})
		n.proc.Kill()

		o := k.workerOptions("q")
		o.StalledInterval = 200 * time.Millisecond
		w, _ := k.run(o, goHandler)

		k.awaitState(q, id, StateWaiting)
		wait.For(t, testTimeout, func() bool { return w.Status().Blocked })
		k.must(q.Resume(t.Context()))
		k.awaitState(q, id, StateCompleted)

		if j, err := q.Job(t.Context(), id); err != nil || j.StalledCount != 1 || j.AttemptsMade != 1 || k.count("completed") != 1 {
			t.Errorf("%+v, completed %d times, %v", j, k.count("completed"), err)
		}
	})
}
