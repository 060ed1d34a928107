package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// claimCost is what Redis needs for one claim before queues of different lengths.
func (b *bench) claimCost() []benchRow {
	var rows []benchRow

	for _, n := range b.sizes.waiting {
		b.fresh()
		b.fill(n)

		row := benchRow{Name: fmt.Sprintf("claim with %d jobs waiting", n), Unit: "µs", Bar: "ratio to the first ≤ 1.1"}
		if len(rows) > 0 {
			row.Other, row.Node, row.Ratio = rows[0].Name, rows[0].Go, -1.1
		}

		w := b.worker("bench")
		f := newFetcher(w)

		// The longest queue is claimed from in parts as small as the shortest allows.
		for range b.sizes.rounds {
			b.must(b.r.ConfigResetStat(b.t.Context()).Err())

			for range b.sizes.claims / b.sizes.rounds {
				_, err := f.take(b.t.Context(), w.newToken(), 1)
				b.must(err)
			}

			row.Go = append(row.Go, b.scriptCost())
		}

		rows = append(rows, row)
	}

	b.fresh()

	return rows
}

// scriptCost is the mean time of a script call in µs, by the server's own clock.
func (b *bench) scriptCost() float64 {
	stats := b.r.InfoMap(b.t.Context(), "commandstats").Item("Commandstats", "cmdstat_evalsha")
	_, text, _ := strings.Cut(stats, "usec_per_call=")
	text, _, _ = strings.Cut(text, ",")
	cost, err := strconv.ParseFloat(text, 64)
	b.must(err)

	return cost
}

// renewal notes when locks were renewed.
type renewal struct {
	NopObserver
	mu    sync.Mutex
	at    []time.Time
	whole int // calls that renewed all of them
	locks int
}

// LockExtended implements Observer.
func (r *renewal) LockExtended(ok, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.at = append(r.at, time.Now())
	if ok == r.locks && lost == 0 {
		r.whole++
	}
}

func (r *renewal) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()

	return len(r.at)
}

// renewals holds many locks while their handlers keep the shared connections full.
func (b *bench) renewals() []benchRow {
	b.fill(b.sizes.locks)

	r := &renewal{locks: b.sizes.locks}
	o := DefaultWorkerOptions()
	o.Options = Options{RedisURL: b.url, Name: "bench"}
	o.Concurrency, o.Observer = b.sizes.locks, r
	o.LockDuration, o.LockRenewTime = 2*b.sizes.renew, b.sizes.renew

	w, stop := b.run(o, func(ctx context.Context, j *Job) (any, error) {
		for ctx.Err() == nil {
			_ = j.UpdateProgress(ctx, 1) // one after the other, all handlers at once
		}

		return nil, PutBack(ctx.Err())
	})

	wait.For(b.t, testTimeout, func() bool { return w.Status().Active == b.sizes.locks })

	began := r.count() // locks of different age come into step with the first ticks
	wait.For(b.t, testTimeout, func() bool { return r.count() > began+2 })

	r.mu.Lock()
	r.at, r.whole = nil, 0
	r.mu.Unlock()

	wait.For(b.t, time.Duration(b.sizes.ticks+10)*b.sizes.renew, func() bool { return r.count() > b.sizes.ticks })
	w.cancelAll()
	stop()

	r.mu.Lock()
	defer r.mu.Unlock()

	var late []float64
	for i := range r.at[1:] {
		late = append(late, max(ms(r.at[i+1].Sub(r.at[i])-b.sizes.renew/2)/ms(b.sizes.renew)*100, 0))
	}

	return []benchRow{
		{
			Name: fmt.Sprintf("%d locks: calls that renewed all of them", b.sizes.locks), Unit: "%", Bar: "one round trip a tick",
			Go: []float64{float64(r.whole) / float64(len(r.at)) * 100}, Other: "all", Node: []float64{100}, Ratio: 1,
		},
		{
			Name: fmt.Sprintf("%d locks, pool saturated: p99 lateness", b.sizes.locks), Unit: "% of the renew time", Bar: "< 10 %",
			Go: []float64{quantile(late, 0.99)}, Other: "bar", Node: []float64{10}, Ratio: -1,
		},
	}
}

// cancelAll lets the handlers of the benchmark end.
func (w *Worker) cancelAll() {
	w.Drain()

	w.held.mu.Lock()
	defer w.held.mu.Unlock()

	for h := range w.held.all {
		h.cancel(context.Canceled)
	}
}

// idleness is what an idle worker costs.
func (b *bench) idleness() []benchRow {
	b.fresh()

	o := DefaultWorkerOptions()
	o.Options = Options{RedisURL: b.url, Name: "bench"}
	w, stop := b.run(o, func(context.Context, *Job) (any, error) { return nil, nil })
	wait.For(b.t, testTimeout, func() bool { return w.Status().Blocked })
	b.must(b.r.ConfigResetStat(b.t.Context()).Err())

	cpu := processCPU(b)
	sleep(b.t.Context(), b.sizes.idle) // what is measured is that nothing happens

	cpu = processCPU(b) - cpu
	n := b.sent()
	stop()

	hours := b.sizes.idle.Hours()

	return []benchRow{
		{
			Name: "idle worker: Redis commands", Unit: "/s", Bar: "≤ 1", Go: []float64{n / b.sizes.idle.Seconds()}, Other: "bar",
			Node: []float64{1}, Ratio: -1,
		},
		{
			Name: "idle worker: CPU of the whole process", Unit: "s an hour", Bar: "not measurable", Go: []float64{cpu.Seconds() / hours},
		},
	}
}

// sent is how many commands clients have sent: without those that scripts call.
func (b *bench) sent() (n float64) {
	stats := b.r.InfoMap(b.t.Context(), "commandstats")

	for _, name := range []string{"evalsha", "eval", "bzpopmin"} {
		text := strings.TrimPrefix(stats.Item("Commandstats", "cmdstat_"+name), "calls=")
		text, _, _ = strings.Cut(text, ",")
		n += number(text)
	}

	return n
}

func processCPU(b *bench) time.Duration {
	var u syscall.Rusage

	b.must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))

	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
