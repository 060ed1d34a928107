package queue

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// armedWorker runs a worker with two slots, of which one has a job until the channel is closed and the other waits with its claim behind
// the wait.
func armedWorker(t *testing.T, k *kit, drainDelay time.Duration, h Handler) (w *Worker, q *Queue, running *atomic.Int32, release chan struct{}) {
	t.Helper()

	running, release = new(atomic.Int32), make(chan struct{})
	q = k.queue("q")
	o := k.workerOptions("q")
	o.Concurrency, o.DrainDelay = 2, drainDelay
	w, _ = k.run(o, func(ctx context.Context, j *Job) (any, error) {
		running.Add(1)
		defer running.Add(-1)

		<-release

		return h(ctx, j)
	})
	k.add(q, "first", nil, JobOptions{})
	wait.For(t, testTimeout, func() bool { return running.Load() == 1 && k.blocked() })

	return w, q, running, release
}

// blocked: somebody waits in Redis.
func (k *kit) blocked() bool {
	return k.r.InfoMap(k.t.Context(), "clients").Item("Clients", "blocked_clients") == "1"
}

// A slot that waits for a job ends with the concurrency that it came from: no job starts in it.
func TestSmallerConcurrencyWhileWaiting(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	w, q, running, release := armedWorker(t, k, longSleep, nothing)

	k.must(w.SetConcurrency(1))
	wait.For(t, justBefore, func() bool { return !k.blocked() })
	k.add(q, "second", nil, JobOptions{})
	k.add(q, "third", nil, JobOptions{})

	if c, err := q.Counts(t.Context()); err != nil || c.Waiting != 2 || running.Load() != 1 {
		t.Errorf("%+v, %v, %d run", c, err, running.Load())
	}

	close(release)
	wait.For(t, testTimeout, func() bool { c, err := q.Counts(t.Context()); return err == nil && c.Completed == 3 })
}

// A job that meets a rate limit waits for its end, also where another slot waits for a job.
func TestRateLimitWhileWaiting(t *testing.T) {
	t.Parallel()

	const pause = time.Second

	var met, again atomic.Pointer[time.Time]

	k := newKit(t)
	_, q, _, release := armedWorker(t, k, DefaultDrainDelay, func(context.Context, *Job) (any, error) {
		now := time.Now()
		if met.CompareAndSwap(nil, &now) {
			return nil, RateLimitFor(pause, errBoom)
		}

		again.Store(&now)

		return nil, nil
	})

	close(release)
	wait.For(t, testTimeout, func() bool { c, err := q.Counts(t.Context()); return err == nil && c.Completed == 1 })

	if d := again.Load().Sub(*met.Load()); d < pause {
		t.Errorf("started again after %v", d)
	}
}

// A pause that comes when the fetcher has decided to wait, but does not yet, holds.
func TestPauseBeforeArmedWait(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q, w := k.queue("q"), k.worker("q")
	f := newFetcher(w)
	f.drained = true
	d := f.armed()

	w.Pause()
	k.add(q, "n", nil, JobOptions{})
	k.must(f.awaitArmed(t.Context(), t.Context(), d))
	w.jobs.Wait()

	if c, err := q.Counts(t.Context()); err != nil || c.Waiting != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A user who may not block on the marker gets no worker that asks without a break.
func TestRefusedWaitIsNoSpin(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.must(k.r.Do(t.Context(), "ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-bzpopmin").Err())
	k.url = "redis://u:p@" + k.srv.Addr

	began := time.Now()

	k.run(k.workerOptions("q"), nothing)

	rejected := func() float64 {
		_, stat, _ := strings.Cut(k.r.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_bzpopmin"), "rejected_calls=")
		n, _, _ := strings.Cut(stat, ",")

		return number(n)
	}

	wait.For(t, testTimeout, func() bool { return rejected() >= 4 })

	if spent := time.Since(began); spent < fetchPauseFirst {
		t.Errorf("four waits refused within %v", spent)
	}

	k.add(q, "n", nil, JobOptions{})
	wait.For(t, testTimeout, func() bool { c, err := q.Counts(t.Context()); return err == nil && c.Completed == 1 })
}
