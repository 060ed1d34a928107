package conformance

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/queue"
)

// The founding experiment: a job that is three times as long as its lock, and two workers that would both like to have it.
const (
	experimentLock    = 2 * time.Second
	experimentWork    = 6 * time.Second
	experimentStalled = time.Second
)

// observation is what one kind of worker made of it.
type observation struct {
	worker     string
	renewal    string
	executions int
	// lost counts workers that could not finish because the lock was not theirs any more.
	lost  int
	state queue.State
}

// TestLockExperiment shows what the whole design rests on: whether a job runs once or twice depends on nothing but whether the renewal
// shares a thread with the job. The table is kept in docs/experiments.md.
func TestLockExperiment(t *testing.T) {
	t.Parallel()

	type experiment struct {
		name string
		run  func(*testing.T) observation
		want observation
	}

	experiments := []experiment{
		{"node5-blocked", nodeExperiment(bullmq5, true), observation{executions: 2, lost: 2}},
		{"node6-blocked", nodeExperiment(bullmq6, true), observation{executions: 2, lost: 2}},
		{"node6-free", nodeExperiment(bullmq6, false), observation{executions: 1, state: queue.StateCompleted}},
		{"go-queue", goExperiment, observation{executions: 1, state: queue.StateCompleted}},
		{"posefleet", programExperiment, observation{executions: 1, state: queue.StateCompleted}},
	}

	var mu sync.Mutex

	table := make([]observation, len(experiments))

	t.Cleanup(func() { t.Log("\n" + render(table)) })

	for i, e := range experiments {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()

			got := e.run(t)

			mu.Lock()
			table[i] = got
			mu.Unlock()

			if got.executions != e.want.executions || got.lost != e.want.lost || (e.want.state != "" && got.state != e.want.state) {
				t.Errorf("executions %d, failed finishes %d, state %s; want %d, %d, %s", got.executions, got.lost, got.state,
					e.want.executions, e.want.lost, e.want.state)
			}
		})
	}
}

// nodeExperiment: two Node workers. With blocking the handler holds the event loop, and with it the renewal timer.
func nodeExperiment(library string, blocking bool) func(*testing.T) observation {
	return func(t *testing.T) observation {
		t.Helper()

		s := newQueueOnly(t)
		env := map[string]string{
			"LOCK_MS": millis(experimentLock), "STALLED_MS": millis(experimentStalled), "WORK_MS": millis(experimentWork), "MAX_STALLED": "1",
		}
		o := observation{worker: strings.Replace(library, "bullmq", "Node, BullMQ ", 1), renewal: "timer beside the job", executions: 1}

		if blocking {
			env["BLOCKING"] = "1"
			o.renewal, o.executions, o.lost = "blocked by the job", 2, 2
		}

		workers := []*script{s.nodeWorker(library, "w1", env), s.nodeWorker(library, "w2", env)}
		sum := func(count func(*script) int) int { return count(workers[0]) + count(workers[1]) }
		ends := func(w *script) int { return w.count("end") }
		// A worker whose finish is refused tries to fail the job, is refused again and reports both.
		lost := func(w *script) int { return min(1, w.lockLost()) }

		s.addPlain(t, "long")
		wait.For(t, jobLimit, func() bool { return sum(ends) >= o.executions && sum(lost) >= o.lost }, "the executions do not end")
		s.awaitSettled("long")

		o.executions, o.lost = sum(func(w *script) int { return w.count("start") }), sum(lost)
		o.state = s.stateOf("long")

		return o
	}
}

// goExperiment: two workers of package queue whose handler keeps a CPU busy.
func goExperiment(t *testing.T) observation {
	s := newQueueOnly(t)

	var executions, lost atomic.Int32

	handler := func(ctx context.Context, _ *queue.Job) (any, error) {
		executions.Add(1)
		burn(ctx, experimentWork)

		if ctx.Err() != nil {
			lost.Add(1)
		}

		return "done", context.Cause(ctx)
	}

	var workers sync.WaitGroup

	ctx, stop := context.WithCancel(t.Context())
	defer workers.Wait()
	defer stop()

	for i := range 2 {
		options := queue.DefaultWorkerOptions()
		options.RedisURL, options.Name, options.WorkerName = s.redis.URL, queueName, fmt.Sprintf("g%d", i)
		options.LockDuration, options.LockRenewTime, options.StalledInterval = experimentLock, experimentLock/2, experimentStalled

		w, err := queue.NewWorker(options, handler)
		if err != nil {
			t.Fatal(err)
		}

		workers.Go(func() { _ = w.Run(ctx) }) // ends with ctx; a hard stop is no fault
	}

	s.addPlain(t, "long")
	s.awaitJob("long")

	return observation{
		worker: "Go, package queue", renewal: "timer beside the job", executions: int(executions.Load()),
		lost: int(lost.Load()), state: s.stateOf("long"),
	}
}

// burn keeps a CPU busy, as a pose model does.
func burn(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
	}
}

// programExperiment: two posefleet workers whose extractor keeps a CPU busy.
func programExperiment(t *testing.T) observation {
	s := newSystem(t, posefleet(t))
	journal := filepath.Join(t.TempDir(), "journal")
	settings := extra{
		"POSEFLEET_LOCK_DURATION":    experimentLock.String(),
		"POSEFLEET_STALLED_INTERVAL": experimentStalled.String(),
		"POSEFLEET_EXTRACTOR":        stopwatch{work: experimentWork, burn: true, journal: journal}.command(),
	}
	workers := []*worker{s.startWorker("p1", settings), s.startWorker("p2", settings)}

	s.prepare("an_long", s.textClip(), nil)
	s.add("an_long", 3)
	s.awaitJob("an_long")
	s.checkQuiet(workers...)

	lost := 0
	for _, w := range workers {
		if w.log.has("lock_lost") {
			lost++
		}
	}

	return observation{
		worker: "posefleet worker", renewal: "process beside the job", executions: starts(journal, "an_long"), lost: lost,
		state: s.stateOf("an_long"),
	}
}

func (s *system) addPlain(t *testing.T, id string) {
	t.Helper()

	if _, err := s.queue.Add(t.Context(), "work", nil, queue.JobOptions{JobID: id}); err != nil {
		t.Fatal(err)
	}
}

// awaitSettled waits until a job is active no more.
func (s *system) awaitSettled(id string) {
	s.t.Helper()
	wait.For(s.t, jobLimit, func() bool { return s.stateOf(id) != queue.StateActive && s.stateOf(id) != queue.StateWaiting },
		"job %s does not settle", id)
}

func (s *system) stateOf(id string) queue.State {
	s.t.Helper()

	state, err := s.queue.State(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}

	return state
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func render(table []observation) string {
	var b strings.Builder

	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', tabwriter.Debug)
	fmt.Fprintln(w, "workers (two of)\trenewal\texecutions\tfailed finishes\tjob is then")

	for _, o := range table {
		if o.worker == "" { // not run
			continue
		}

		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", o.worker, o.renewal, o.executions, o.lost, o.state)
	}

	_ = w.Flush() // to a string

	return b.String()
}
