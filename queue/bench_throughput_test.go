package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	benchConcurrency = 64
	echoEnd          = "$3\r\nend\r\n"
)

// throughput measures adding and draining, Node and Go in turns. One core is Redis': more threads of ours than the others would take from
// it what they gain. Node has one thread anyway.
func (b *bench) throughput() []benchRow {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(runtime.NumCPU()-1, 1)))

	bulk := benchRow{Name: fmt.Sprintf("adding %d jobs by AddBulk", b.sizes.jobs), Unit: "jobs/s", Bar: "≥ 3 × Node", Ratio: 3}
	drain := benchRow{Name: fmt.Sprintf("draining %d trivial jobs, concurrency 64", b.sizes.jobs), Unit: "jobs/s", Bar: "≥ 4 × Node", Ratio: 4}
	ceiling := benchRow{
		Name: "… beside the same scripts without client work", Unit: "jobs/s", Other: "scripts alone", Bar: "≥ 85 %", Ratio: 0.85,
	}
	allocs := benchRow{Name: "allocations per job drained", Unit: "allocs", Bar: "stated"}
	size := benchRow{Name: "bytes allocated per job drained", Unit: "B", Bar: "stated"}

	for range b.sizes.rounds {
		b.fresh()
		bulk.Node = append(bulk.Node, b.nodeBulk(1000))
		drain.Node = append(drain.Node, b.nodeDrain())

		b.fresh()
		bulk.Go = append(bulk.Go, b.goBulk())
		rate, n, bytes := b.goDrain()
		drain.Go, allocs.Go, size.Go = append(drain.Go, rate), append(allocs.Go, n), append(size.Go, bytes)

		b.fresh()
		ceiling.Node = append(ceiling.Node, b.scriptsAlone())
	}

	ceiling.Go = drain.Go
	b.fresh()

	return []benchRow{drain, ceiling, bulk, allocs, size}
}

// scriptsAlone is how many jobs per second the scripts reach that a worker uses: all of its calls, made up before, are sent without
// waiting for an answer. The ids of the jobs are known, since the queue is fresh.
func (b *bench) scriptsAlone() float64 {
	b.fill(b.sizes.jobs)

	w := b.worker("bench")
	calls := b.drainCalls(w)

	conn, err := (&net.Dialer{}).DialContext(b.t.Context(), "tcp", b.srv.Addr)
	b.must(err)
	defer conn.Close()

	for _, s := range []*script{w.scripts.take, w.scripts.finish} {
		b.must(b.r.ScriptLoad(b.t.Context(), s.body).Err())
	}

	var reader sync.WaitGroup

	began := time.Now()

	// Ends with the echo at the end of the answers.
	reader.Go(func() { b.must(readUntil(conn, echoEnd)) })

	_, err = conn.Write(calls)
	b.must(err)
	reader.Wait()

	took := time.Since(began)
	if n := b.r.ZCard(b.t.Context(), w.keys.of(keyCompleted)).Val(); n != int64(b.sizes.jobs) {
		b.t.Errorf("the scripts alone completed %d jobs", n)
	}

	return perSecond(b.sizes.jobs, ms(took))
}

// drainCalls are the calls of a worker: two takes, then finishes of a half of its jobs each that take as many.
func (b *bench) drainCalls(w *Worker) []byte {
	const half = benchConcurrency / 2

	var out bytes.Buffer

	now, lock := strconv.FormatInt(time.Now().UnixMilli(), 10), strconv.FormatInt(w.opts.LockDuration.Milliseconds(), 10)
	token := func(first int) string { return w.id + ":" + strconv.Itoa(first/half) }

	for _, first := range []int{0, half} {
		writeCall(&out, "EVALSHA", w.scripts.take.sha, "1", w.keys.base, now, token(first), lock, "", "", "", strconv.Itoa(half))
	}

	for first := 0; first < b.sizes.jobs; first += half {
		args := []string{
			"EVALSHA", w.scripts.finish.sha, "1", w.keys.base, "0", strconv.Itoa(half), now, token(first + benchConcurrency), lock, "", "", "",
		}
		last := min(first+half, b.sizes.jobs)
		args = append(args, "=", token(first), now, "null", strconv.Itoa(last-first))
		for id := first + 1; id <= last; id++ {
			args = append(args, strconv.Itoa(id))
		}

		writeCall(&out, args...)
	}

	writeCall(&out, "ECHO", "end")

	return out.Bytes()
}

func writeCall(to *bytes.Buffer, args ...string) {
	fmt.Fprintf(to, "*%d\r\n", len(args))

	for _, a := range args {
		fmt.Fprintf(to, "$%d\r\n%s\r\n", len(a), a)
	}
}

// readUntil throws answers away up to the given end.
func readUntil(r io.Reader, end string) error {
	buf := make([]byte, 1<<16)
	tail := ""

	for {
		n, err := r.Read(buf)
		if err != nil {
			return err
		}

		tail += string(buf[max(n-len(end), 0):n])
		tail = tail[max(len(tail)-len(end), 0):]

		if tail == end {
			return nil
		}

		if bytes.Contains(buf[:n], []byte("\r\n-")) {
			return errors.New("a script failed: " + string(buf[:min(n, 200)]))
		}
	}
}

// latency is the time from an add to the start of the handler on an idle worker. Our threads leave Redis a core, as in throughput.
func (b *bench) latency() []benchRow {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(runtime.NumCPU()-1, 1)))

	p50 := benchRow{Name: "idle worker, add → handler starts, p50", Unit: "ms", Bar: "≤ 0.5 × Node", Ratio: -0.5}
	p99 := benchRow{Name: "idle worker, add → handler starts, p99", Unit: "ms", Bar: "≤ 0.5 × Node", Ratio: -0.5}

	for range b.sizes.rounds {
		b.fresh()

		var node []float64

		b.node.ask(&node, map[string]any{
			"op": "latency", "queue": "bench", "n": b.sizes.starts, "pause": b.sizes.pause.Milliseconds(),
		})
		b.fresh()

		own := b.goLatency()
		p50.Node, p50.Go = append(p50.Node, quantile(node, 0.5)), append(p50.Go, quantile(own, 0.5))
		p99.Node, p99.Go = append(p99.Node, quantile(node, 0.99)), append(p99.Go, quantile(own, 0.99))
	}

	return []benchRow{p50, p99}
}

func (b *bench) goLatency() []float64 {
	q := b.benchQueue()
	started := make(chan time.Time, 1)

	o := DefaultWorkerOptions()
	o.Options = Options{RedisURL: b.url, Name: "bench"}

	_, stop := b.run(o, func(context.Context, *Job) (any, error) { started <- time.Now(); return nil, nil })
	defer stop()

	var times []float64

	for i := range b.sizes.starts {
		sleep(b.t.Context(), b.sizes.pause) // as Node's side does: the worker is to be idle again

		began := time.Now()
		_, err := q.Add(b.t.Context(), "job", map[string]int{"i": i}, JobOptions{})
		b.must(err)

		times = append(times, ms((<-started).Sub(began)))
	}

	return times
}

// quantile of the values, which it sorts.
func quantile(values []float64, q float64) float64 {
	slices.Sort(values)

	return values[min(int(q*float64(len(values))), len(values)-1)]
}
