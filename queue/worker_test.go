package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// recorder notes what a worker tells.
type recorder struct {
	NopObserver
	mu       sync.Mutex
	ended    map[string][]Outcome
	fetches  int
	renewals int
}

func newRecorder() *recorder { return &recorder{ended: map[string][]Outcome{}} }

// JobEnded implements Observer.
func (r *recorder) JobEnded(j *Job, o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.ended[j.ID] = append(r.ended[j.ID], o)
}

// FetchDone implements Observer.
func (r *recorder) FetchDone(bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.fetches++
}

// LockExtended implements Observer.
func (r *recorder) LockExtended(int, int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.renewals++
}

// extended is how many calls have renewed locks.
func (r *recorder) extended() int {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.renewals
}

// times is how many runs have ended so.
func (r *recorder) times(o Outcome) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	for _, all := range r.ended {
		for _, one := range all {
			if one == o {
				n++
			}
		}
	}

	return n
}

func (r *recorder) outcomes(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()

	return fmt.Sprint(r.ended[id])
}

func (r *recorder) rounds() int {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.fetches
}

func (k *kit) awaitState(q *Queue, id string, want State) {
	k.t.Helper()

	var got State

	if !wait.Until(k.t, testTimeout, func() bool {
		got, _ = q.State(k.t.Context(), id)
		return got == want
	}) {
		k.t.Fatalf("job %s is %s, want %s", id, got, want)
	}
}

func TestWorkerWorks(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	o := k.workerOptions("q")
	o.WorkerName, o.Concurrency = "a name", 4

	_, stop := k.run(o, func(ctx context.Context, j *Job) (any, error) {
		k.must(j.UpdateProgress(ctx, map[string]float64{"done": 0.5}))
		k.must(j.Log(ctx, "half way"))

		return map[string]string{"was": string(j.Data)}, nil
	})
	defer stop()

	wait.For(t, testTimeout, func() bool {
		workers, err := q.Workers(t.Context())
		return err == nil && len(workers) == 1 && workers[0].Name == "a-name"
	}, "the worker is not listed")

	id := k.add(q, "n", json.RawMessage(`{"a": [1,  2]}`), JobOptions{})
	k.awaitState(q, id, StateCompleted)

	j, err := q.Job(t.Context(), id)
	k.must(err)

	if string(j.Data) != `{"a": [1,  2]}` || string(j.ReturnValue) != `{"was":"{\"a\": [1,  2]}"}` || string(j.Progress) != `{"done":0.5}` {
		t.Errorf("data %s, returned %s, progress %s", j.Data, j.ReturnValue, j.Progress)
	}

	if j.AttemptsMade != 1 || j.AttemptsStarted != 1 || j.ProcessedBy != "a name" || j.FinishedOn.IsZero() {
		t.Errorf("%+v", j)
	}

	if rows, err := q.Logs(t.Context(), id); err != nil || fmt.Sprint(rows) != "[half way]" {
		t.Errorf("logs %v, %v", rows, err)
	}
}

func TestHandlerOutcomes(t *testing.T) {
	t.Parallel()

	twice := JobOptions{Attempts: 2}
	later := JobOptions{Attempts: 3, Backoff: &Backoff{Type: "exponential", Delay: 100 * time.Millisecond}}

	for _, test := range []struct {
		name  string
		opts  JobOptions
		first func() error // of the first run; later ones succeed
		state State
		made  int // attempts
		runs  int
	}{
		{"success", twice, func() error { return nil }, StateCompleted, 1, 1},
		{"retry at once", twice, func() error { return errBoom }, StateCompleted, 2, 2},
		{"retry after backoff", later, func() error { return errBoom }, StateCompleted, 2, 2},
		{"last attempt", JobOptions{}, func() error { return errBoom }, StateFailed, 1, 1},
		{"unrecoverable", later, func() error { return fmt.Errorf("no: %w", Unrecoverable(errBoom)) }, StateFailed, 1, 1},
		{"put back", JobOptions{}, func() error { return PutBack(errBoom) }, StateCompleted, 1, 2},
		{"put back with priority", JobOptions{Priority: 3}, func() error { return PutBack(errBoom) }, StateCompleted, 1, 2},
		{"delay", JobOptions{}, func() error { return DelayFor(50*time.Millisecond, errBoom) }, StateCompleted, 1, 2},
		{"panic", JobOptions{}, func() error { panic("ouch") }, StateFailed, 1, 1},
		{
			"strange backoff",
			JobOptions{Attempts: 2, Backoff: &Backoff{Type: "mine", Delay: time.Millisecond}},
			func() error { return errBoom },
			StateCompleted, 2, 2,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			k := newKit(t)
			q := k.queue("q")

			var runs atomic.Int32

			_, stop := k.run(k.workerOptions("q"), func(context.Context, *Job) (any, error) {
				if runs.Add(1) == 1 {
					return nil, test.first()
				}

				return nil, nil
			})
			defer stop()

			id := k.add(q, "n", nil, test.opts)
			k.awaitState(q, id, test.state)

			j, err := q.Job(t.Context(), id)
			k.must(err)

			if j.AttemptsMade != test.made || int(runs.Load()) != test.runs || j.AttemptsStarted != test.runs {
				t.Errorf("%d attempts, %d runs; want %d and %d", j.AttemptsMade, runs.Load(), test.made, test.runs)
			}

			if test.state == StateFailed && (j.FailedReason == "" || len(j.Stacktrace) != 1) {
				t.Errorf("failed because of %q, stack %q", j.FailedReason, j.Stacktrace)
			}
		})
	}
}

func TestResultThatIsNoJSON(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	_, stop := k.run(k.workerOptions("q"), func(context.Context, *Job) (any, error) { return make(chan int), nil })
	id := k.add(q, "n", nil, JobOptions{})
	k.awaitState(q, id, StateFailed)
	stop()
}

// A job whose options are no JSON must not stay active for ever.
func TestJobWithBrokenOptions(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.must(k.r.HSet(t.Context(), "bull:q:x", "name", "n", "data", "{}", "opts", "{broken").Err())
	k.must(k.r.LPush(t.Context(), "bull:q:wait", "x").Err())
	_, stop := k.run(k.workerOptions("q"), func(context.Context, *Job) (any, error) { return nil, nil })
	k.awaitState(q, "x", StateFailed)
	stop()
}

// An id without a hash is thrown away, and leaves no hash behind.
func TestGhostIDs(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.must(k.r.RPush(t.Context(), "bull:q:wait", "ghost", "0:0", "0:123").Err())
	k.must(k.r.ZAdd(t.Context(), "bull:q:delayed", z(1, "ghost2")).Err())
	id := k.add(q, "n", nil, JobOptions{})

	_, stop := k.run(k.workerOptions("q"), func(_ context.Context, j *Job) (any, error) {
		if j.ID != id {
			t.Errorf("handler got %q", j.ID)
		}

		return nil, nil
	})
	k.awaitState(q, id, StateCompleted)
	stop()

	for key, d := range k.dump() {
		if strings.Contains(key, "ghost") || strings.Contains(fmt.Sprint(d.value), "ghost") {
			t.Errorf("%s: %v", key, d.value)
		}
	}
}

// kill -9 of a worker: another one gets its job back and finishes it.
func TestKilledWorker(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	id := k.add(q, "n", nil, JobOptions{})
	proc := k.startChild(id)

	o := k.workerOptions("q")
	o.StalledInterval = 200 * time.Millisecond

	var runs atomic.Int32

	_, stop := k.run(o, func(context.Context, *Job) (any, error) { runs.Add(1); return nil, nil })
	defer stop()

	proc.Kill()
	k.awaitState(q, id, StateCompleted)

	j, err := q.Job(t.Context(), id)
	k.must(err)

	if j.StalledCount != 1 || j.AttemptsStarted != 2 || j.AttemptsMade != 1 || runs.Load() != 1 {
		t.Errorf("stalled %d, started %d, made %d, runs %d", j.StalledCount, j.AttemptsStarted, j.AttemptsMade, runs.Load())
	}

	if n := k.r.LLen(t.Context(), "bull:q:active").Val(); n != 0 {
		t.Errorf("%d ids left in active", n)
	}
}

// A job that stalled too often is failed by the next worker, whose hook learns it first.
func TestDeferredFailure(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	id := k.add(q, "n", nil, JobOptions{Attempts: 5})
	k.must(k.r.HSet(t.Context(), "bull:q:"+id, "defa", "job stalled more than allowable limit").Err())

	var told atomic.Value

	o := k.workerOptions("q")
	o.OnDeferredFailure = func(_ context.Context, j *Job, reason string) { told.Store(j.ID + " " + reason) }
	_, stop := k.run(o, func(context.Context, *Job) (any, error) { t.Error("handler called"); return nil, nil })
	k.awaitState(q, id, StateFailed)
	stop()

	if told.Load() != id+" job stalled more than allowable limit" {
		t.Errorf("hook was told %v", told.Load())
	}
}

// The lock is taken away: the handler's context ends with the cause and nothing is written, whatever it returns.
func TestLostLock(t *testing.T) {
	t.Parallel()

	for _, answer := range []error{nil, errBoom, PutBack(errBoom), DelayFor(time.Second, errBoom)} {
		t.Run(fmt.Sprint(answer), func(t *testing.T) {
			t.Parallel()

			k := newKit(t)
			q := k.queue("q")
			rec := newRecorder()
			o := k.workerOptions("q")
			o.LockDuration, o.LockRenewTime, o.Observer, o.StalledInterval = time.Second, 200*time.Millisecond, rec, time.Hour

			started := make(chan struct{})
			caught := make(chan error, 3)

			_, stop := k.run(o, func(ctx context.Context, j *Job) (any, error) {
				close(started)
				<-ctx.Done()
				caught <- context.Cause(ctx)
				caught <- j.UpdateProgress(context.WithoutCancel(ctx), 1)
				caught <- j.Log(context.WithoutCancel(ctx), "row")

				return 1, answer
			})

			id := k.add(q, "n", nil, JobOptions{Attempts: 3})
			<-started
			k.must(k.r.Set(t.Context(), "bull:q:"+id+":lock", "another's", time.Minute).Err())

			for range 3 {
				if err := <-caught; !errors.Is(err, ErrLockLost) {
					t.Errorf("got %v, want %v", err, ErrLockLost)
				}
			}

			wait.For(t, testTimeout, func() bool { return rec.outcomes(id) != "[]" })
			stop()

			if rec.outcomes(id) != "[lost]" {
				t.Errorf("outcomes %s", rec.outcomes(id))
			}

			fields := k.r.HGetAll(t.Context(), "bull:q:"+id).Val()
			for _, f := range []string{"returnvalue", "failedReason", "progress", "atm", "finishedOn"} {
				if v, ok := fields[f]; ok {
					t.Errorf("%s=%s was written", f, v)
				}
			}

			if k.r.LLen(t.Context(), "bull:q:active").Val() != 1 || k.r.Exists(t.Context(), "bull:q:"+id+":logs").Val() != 0 {
				t.Error("the other's job was touched")
			}
		})
	}
}

// Redis freezes for longer than the lock: the handler is stopped by our own clock, while nobody answers. That it is stopped before anybody
// else could have the job is held to the millisecond where time is the test's own (TestClockLockRunsOutWithoutRedis).
func TestLockRunsOutByOwnClock(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	o := k.workerOptions("q")
	o.LockDuration, o.LockRenewTime = time.Second, 300*time.Millisecond

	started := make(chan struct{}, 10) // it may be taken again
	stopped := make(chan error, 10)

	_, stop := k.run(o, func(ctx context.Context, _ *Job) (any, error) {
		started <- struct{}{}

		<-ctx.Done()
		stopped <- context.Cause(ctx)

		return nil, nil
	})
	defer stop()

	k.add(q, "n", nil, JobOptions{})
	<-started
	k.srv.Pause()
	defer k.srv.Resume()

	select {
	case cause := <-stopped:
		if !errors.Is(cause, ErrLockLost) {
			t.Errorf("cause %v", cause)
		}
	case <-time.After(soon):
		t.Error("the handler goes on without its lock")
	}
}

// Renewal is on no job's path: jobs that last many locks run once, with another worker waiting for them.
func TestLongJobsKeepTheirLocks(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")

	var runs atomic.Int32

	rec := newRecorder()

	for range 2 {
		o := k.workerOptions("q")
		o.Observer = rec
		o.LockDuration, o.LockRenewTime, o.StalledInterval, o.Concurrency = 4*time.Second, 200*time.Millisecond, 50*time.Millisecond, 3
		k.run(o, func(ctx context.Context, _ *Job) (any, error) {
			runs.Add(1)
			sleep(ctx, 10*time.Second) // the job's work: longer than two locks

			return nil, context.Cause(ctx)
		})
	}

	for range 6 {
		k.add(q, "n", nil, JobOptions{})
	}

	wait.For(t, testTimeout, func() bool { c, _ := q.Counts(t.Context()); return c.Completed == 6 })

	// A machine that stands still for longer than a lock loses it; then its worker knows.
	if lost := rec.times(OutcomeLost); runs.Load() != 6+int32(lost) {
		t.Errorf("%d runs of 6 jobs, %d locks lost", runs.Load(), lost)
	}
}

func TestDrainIdle(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	o := k.workerOptions("q")
	o.DrainDelay = longSleep
	w, err := NewWorker(o, func(context.Context, *Job) (any, error) { return nil, nil })
	k.must(err)

	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()

	wait.For(t, testTimeout, func() bool { return w.Status().Blocked })

	began := time.Now()

	w.Drain()
	k.must(<-ended)

	if took := time.Since(began); took > justBefore {
		t.Errorf("draining an idle worker took %v", took)
	}

	if err := w.Run(t.Context()); !errors.Is(err, ErrAlreadyRan) {
		t.Errorf("second run: %v", err)
	}
}

// Drain lets the running job end and takes no other; a drain before Run ends it at once.
func TestDrainBusy(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	started, release := make(chan struct{}), make(chan struct{})

	w, err := NewWorker(k.workerOptions("q"), func(context.Context, *Job) (any, error) {
		close(started)
		<-release

		return nil, nil
	})
	k.must(err)

	for range 5 {
		k.add(q, "n", nil, JobOptions{})
	}

	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()

	<-started
	w.Drain()
	w.Drain()
	close(release)
	k.must(<-ended)

	if c, err := q.Counts(t.Context()); err != nil || c.Waiting != 4 || c.Completed != 1 || c.Active != 0 {
		t.Errorf("%+v, %v", c, err)
	}

	early := k.worker("q")
	early.Drain()
	k.must(early.Run(t.Context()))
}

// The end of Run's context reaches the handler, and what it answers is still written.
func TestHardStop(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	started := make(chan struct{})
	w, err := NewWorker(k.workerOptions("q"), func(ctx context.Context, _ *Job) (any, error) {
		close(started)
		<-ctx.Done()

		return nil, PutBack(context.Cause(ctx))
	})
	k.must(err)

	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()

	id := k.add(q, "n", nil, JobOptions{})
	<-started
	cancel(errBoom)

	if err := <-ended; !errors.Is(err, errBoom) {
		t.Errorf("run ended with %v", err)
	}

	k.awaitState(q, id, StateWaiting)

	if k.r.Exists(t.Context(), "bull:q:"+id+":lock").Val() != 0 {
		t.Error("the lock is still there")
	}
}

func TestCancelJob(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	started := make(chan string, 1)
	w, stop := k.run(k.workerOptions("q"), func(ctx context.Context, j *Job) (any, error) {
		started <- j.ID
		<-ctx.Done()

		return nil, Unrecoverable(context.Cause(ctx))
	})

	id := k.add(q, "n", nil, JobOptions{})
	<-started

	if w.CancelJob("other", errBoom) || !w.CancelJob(id, errBoom) {
		t.Error("the wrong job was cancelled")
	}

	k.awaitState(q, id, StateFailed)
	stop()

	if j, err := q.Job(t.Context(), id); err != nil || j.FailedReason != "boom" {
		t.Errorf("%+v, %v", j, err)
	}
}

// With the queue's global concurrency used up, the end of one job starts the next at once, not after a block timeout.
func TestGlobalConcurrency(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.must(k.r.HSet(t.Context(), "bull:q:meta", "concurrency", 1).Err())

	var running, most atomic.Int32

	o := k.workerOptions("q")
	o.Concurrency, o.DrainDelay = 3, longSleep
	k.run(o, func(ctx context.Context, _ *Job) (any, error) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		sleep(ctx, 20*time.Millisecond) // the job's work

		return nil, nil
	})

	for range 10 {
		k.add(q, "n", nil, JobOptions{})
	}

	began := time.Now()

	wait.For(t, testTimeout, func() bool { c, _ := q.Counts(t.Context()); return c.Completed == 10 })

	// Nine times longSleep, if it were so.
	if took := time.Since(began); took > soon || most.Load() != 1 {
		t.Errorf("took %v with %d at once", took, most.Load())
	}
}

func TestLimiterAndPause(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.must(q.Pause(t.Context()))

	for range 6 {
		k.add(q, "n", nil, JobOptions{})
	}

	o := k.workerOptions("q")
	o.Limiter = &Limiter{Max: 2, Duration: 300 * time.Millisecond}
	w, _ := k.run(o, nothing)

	wait.For(t, testTimeout, func() bool { return w.Status().Blocked })

	if c, err := q.Counts(t.Context()); err != nil || c.Waiting != 6 || !c.Paused {
		t.Fatalf("%+v, %v", c, err)
	}

	k.must(q.Resume(t.Context()))
	wait.For(t, testTimeout, func() bool { c, _ := q.Counts(t.Context()); return c.Completed == 6 })

	starts := k.starts()
	if took := starts[5].Sub(starts[0]); len(starts) != 6 || took < 590*time.Millisecond {
		t.Errorf("6 jobs at 2 per 300 ms took %v", took)
	}
}

// starts are the moments in which jobs were taken, by the clock of Redis: a handler's own may be late.
func (k *kit) starts() (at []time.Time) {
	k.t.Helper()

	entries, err := k.r.XRange(k.t.Context(), "bull:q:events", "-", "+").Result()
	k.must(err)

	for _, e := range entries {
		if ms, _, _ := strings.Cut(e.ID, "-"); e.Values["event"] == "active" {
			at = append(at, time.UnixMilli(int64(number(ms))))
		}
	}

	return at
}

func TestDelayedJobsStartOnTime(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")

	var late, early atomic.Int64

	o := k.workerOptions("q")
	o.DrainDelay = longSleep // nobody finds them by looking from time to time
	w, _ := k.run(o, func(_ context.Context, j *Job) (any, error) {
		off := int64(time.Since(j.Timestamp.Add(j.Opts.Delay)))
		late.Store(max(late.Load(), off))
		early.Store(min(early.Load(), off))

		return nil, nil
	})

	wait.For(t, testTimeout, func() bool { return w.Status().Blocked })

	for _, d := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 300 * time.Millisecond, time.Second} {
		k.add(q, "n", nil, JobOptions{Delay: d})
	}

	wait.For(t, testTimeout, func() bool { c, _ := q.Counts(t.Context()); return c.Completed == 4 })

	// How late exactly is seen where time is the test's own (TestClockDelayedJobsRunWhenDue): here the machine may be busy.
	if most, least := time.Duration(late.Load()), time.Duration(early.Load()); most > justBefore || least < -time.Millisecond {
		t.Errorf("a job started %v after its time, and one %v", most, least)
	}
}
