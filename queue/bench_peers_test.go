package queue

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/need"
)

// bench is one run of the benchmark program.
type bench struct {
	*kit
	sizes  benchSizes
	node   *benchNode
	report benchReport
}

func newBench(t *testing.T, sizes benchSizes) *bench {
	b := &bench{kit: newKit(t), sizes: sizes}
	b.node = b.startBenchNode()
	b.report.Machine = describeMachine(b.kit)

	return b
}

// fresh is an empty database.
func (b *bench) fresh() {
	b.t.Helper()
	b.must(b.r.FlushAll(b.t.Context()).Err())
}

// benchNode is BullMQ in a Node process (testdata/bench.cjs).
type benchNode struct {
	t     *testing.T
	proc  *child.Process
	in    io.Writer
	lines *bufio.Scanner
}

func (b *bench) startBenchNode() *benchNode {
	b.t.Helper()

	dir := need.Node(b.t)
	host, port, err := net.SplitHostPort(b.srv.Addr)
	b.must(err)

	cmd := exec.Command(need.Program(b.t, "node"), "testdata/bench.cjs", "bullmq6", host, port)
	cmd.Env = append(cmd.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
	in, err := cmd.StdinPipe()
	b.must(err)
	out, err := cmd.StdoutPipe()
	b.must(err)
	proc, err := child.Start(cmd)
	b.must(err)
	b.t.Cleanup(proc.Kill)

	n := &benchNode{t: b.t, proc: proc, in: in, lines: bufio.NewScanner(out)}
	n.lines.Buffer(nil, 1<<20)

	return n
}

func (n *benchNode) ask(to any, command map[string]any) {
	n.t.Helper()

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

	if err := json.Unmarshal(answer.Value, to); err != nil {
		n.t.Fatalf("%s: node answers %s: %v", text, n.lines.Bytes(), err)
	}
}

// perSecond of n things in ms.
func perSecond(n int, ms float64) float64 { return float64(n) / ms * 1000 }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// nodeBulk and the like answer jobs per second.
func (b *bench) nodeBulk(step int) float64 {
	var took float64

	b.node.ask(&took, map[string]any{"op": "bulk", "queue": "bench", "n": b.sizes.jobs, "step": step})

	return perSecond(b.sizes.jobs, took)
}

func (b *bench) nodeDrain() float64 {
	var took float64

	b.node.ask(&took, map[string]any{"op": "drain", "queue": "bench", "n": b.sizes.jobs, "concurrency": benchConcurrency})

	return perSecond(b.sizes.jobs, took)
}

func (b *bench) benchQueue() *Queue {
	b.t.Helper()

	q, err := NewQueue(Options{RedisURL: b.url, Name: "bench"})
	b.must(err)
	b.t.Cleanup(func() { _ = q.Close() })

	return q
}

func (b *bench) newJobs(n int) []NewJob {
	jobs := make([]NewJob, n)
	for i := range jobs {
		jobs[i] = NewJob{Name: "job", Data: map[string]int{"i": i}}
	}

	return jobs
}

func (b *bench) fill(n int) {
	b.t.Helper()

	q := b.benchQueue()

	for ; n > 0; n -= min(n, 100_000) {
		_, err := q.AddBulk(b.t.Context(), b.newJobs(min(n, 100_000)))
		b.must(err)
	}
}

func (b *bench) goBulk() float64 {
	q := b.benchQueue()
	b.must(q.Ping(b.t.Context()))
	runtime.GC()

	began := time.Now()

	// The jobs are made inside of the measured time, as Node's are.
	_, err := q.AddBulk(b.t.Context(), b.newJobs(b.sizes.jobs))
	b.must(err)

	return perSecond(b.sizes.jobs, ms(time.Since(began)))
}

// countdown tells when so many jobs have ended.
type countdown struct {
	NopObserver
	left atomic.Int64
	done chan struct{}
}

// JobEnded implements Observer.
func (c *countdown) JobEnded(*Job, Outcome) {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}

// goDrain answers jobs per second, and allocations and bytes per job.
func (b *bench) goDrain() (rate, allocs, bytes float64) {
	c := &countdown{done: make(chan struct{})}
	c.left.Store(int64(b.sizes.jobs))

	o := DefaultWorkerOptions()
	o.Options = Options{RedisURL: b.url, Name: "bench"}
	o.Concurrency, o.Observer = benchConcurrency, c

	w, err := NewWorker(o, func(context.Context, *Job) (any, error) { return nil, nil })
	b.must(err)

	var before, after runtime.MemStats

	runtime.GC()
	runtime.ReadMemStats(&before)

	began, ended := time.Now(), make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }() // ends by Drain

	<-c.done
	took := time.Since(began)

	runtime.ReadMemStats(&after)
	w.Drain()
	b.must(<-ended)

	n := float64(b.sizes.jobs)

	return perSecond(b.sizes.jobs, ms(took)), float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n
}
