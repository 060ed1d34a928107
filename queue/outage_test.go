package queue

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/wait"
)

func z(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// throughProxy is a kit whose workers and queues reach Redis through a network of the test's own.
func throughProxy(t *testing.T) (*kit, *proxy) {
	t.Helper()

	k := newKit(t)
	p := newProxy(t, k.srv.Addr)
	k.url = p.url()

	return k, p
}

func sha(t *testing.T, pick func(*scripts) *script) string {
	t.Helper()

	s, err := loadScripts()
	if err != nil {
		t.Fatal(err)
	}

	return pick(s).sha
}

// The answers of transitions get lost: each has its effect once.
func TestLostAnswers(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		name string
		pick func(*scripts) *script
		err  error // of the first run
		want string
		opts JobOptions
		made int
	}{
		{"finish", func(s *scripts) *script { return s.finish }, nil, "[completed]", JobOptions{}, 1},
		{
			"finish, removed at once", func(s *scripts) *script { return s.finish }, nil, "[completed]",
			JobOptions{RemoveOnComplete: &Keep{Now: true}},
			0,
		},
		{"failure", func(s *scripts) *script { return s.finish }, errBoom, "[failed]", JobOptions{}, 1},
		{"retry", func(s *scripts) *script { return s.retry }, errBoom, "[retried completed]", JobOptions{Attempts: 2}, 2},
		{
			"backoff", func(s *scripts) *script { return s.delay }, errBoom, "[retried completed]",
			JobOptions{Attempts: 2, Backoff: &Backoff{Type: "fixed", Delay: time.Second}},
			2,
		},
		{"put back", func(s *scripts) *script { return s.putback }, PutBack(errBoom), "[put_back completed]", JobOptions{}, 1},
		{"take", func(s *scripts) *script { return s.take }, nil, "[completed]", JobOptions{}, 1},
		{"renewal", func(s *scripts) *script { return s.extend }, nil, "[completed]", JobOptions{}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			k, p := throughProxy(t)
			rec := newRecorder()
			o := k.workerOptions("q")
			o.LockDuration, o.LockRenewTime, o.Observer, o.StalledInterval = 20*time.Second, 200*time.Millisecond, rec, time.Hour

			var runs atomic.Int32

			w, stop := k.run(o, func(ctx context.Context, _ *Job) (any, error) {
				// The job's work lasts until a renewal has got through, and one whose answer is lost before it.
				for before := rec.extended(); rec.extended() == before && sleep(ctx, time.Millisecond); {
				}

				if runs.Add(1) == 1 {
					return 1, test.err
				}

				return 1, nil
			})

			wait.For(t, testTimeout, func() bool { return w.Status().Blocked })

			// Straight to Redis: the add is not part of the fault.
			direct := *k
			direct.url = k.srv.URL
			id := "j1"
			test.opts.JobID = id
			p.loseAnswer(sha(t, test.pick), 1)
			k.add(direct.queue("q"), "n", nil, test.opts)

			wait.For(t, testTimeout, func() bool { return rec.outcomes(id) == test.want }, "outcomes are %s", rec.outcomes(id))
			stop()

			if p.lostAnswers() != 1 {
				t.Errorf("%d answers lost", p.lostAnswers())
			}

			wantRuns := int32(strings.Count(test.want, " ") + 1)
			if got := k.r.HGet(t.Context(), "bull:q:j1", "atm").Val(); runs.Load() != wantRuns || (test.made > 0 && number(got) != float64(test.made)) {
				t.Errorf("%d runs, %s attempts", runs.Load(), got)
			}

			if n := k.r.LLen(t.Context(), "bull:q:active").Val(); n != 0 {
				t.Errorf("%d ids left in active", n)
			}
		})
	}
}

// An add with a custom id is repeated when its answer is lost, and knows its own first try.
func TestLostAnswerOfAdd(t *testing.T) {
	t.Parallel()

	k, p := throughProxy(t)
	q := k.queue("q")
	k.add(q, "n", nil, JobOptions{}) // loads the script
	p.loseAnswer(sha(t, func(s *scripts) *script { return s.add }), 1)

	added, err := q.Add(t.Context(), "n", nil, JobOptions{JobID: "mine"})
	k.must(err)

	if added.Duplicate || added.ID != "mine" {
		t.Errorf("%+v", added)
	}

	p.loseAnswer(sha(t, func(s *scripts) *script { return s.add }), 1)

	if _, err := q.Add(t.Context(), "n", nil, JobOptions{}); err == nil {
		t.Error("an add without an id was repeated")
	}

	if n := k.r.LLen(t.Context(), "bull:q:wait").Val(); n != 3 {
		t.Errorf("%d jobs wait, want 3", n)
	}
}

// Every connection is half open: a blocked worker notices, and works within seconds of healing.
func TestHalfOpen(t *testing.T) {
	t.Parallel()

	k, p := throughProxy(t)
	o := k.workerOptions("q")
	o.DrainDelay = time.Second
	w, _ := k.run(o, func(context.Context, *Job) (any, error) { return nil, nil })
	wait.For(t, testTimeout, func() bool { return w.Status().Blocked })
	p.setMute(true)

	direct := *k
	direct.url = k.srv.URL
	q := direct.queue("q")
	id := k.add(q, "n", nil, JobOptions{})
	last := w.Status().LastFetch
	began := time.Now()

	// The worker is stuck in a connection that will never answer; new ones work.
	p.setMute(false)

	k.awaitState(q, id, StateCompleted)

	if took := time.Since(began); took > soon {
		t.Errorf("work went on %v after healing", took)
	}

	// The job may have been found again before the next round.
	wait.For(t, testTimeout, func() bool { return w.Status().LastFetch.After(last) }, "status does not show the new fetch round")
}

func TestRedisRestart(t *testing.T) {
	t.Parallel()

	k := newKit(t, "--appendonly", "yes", "--appendfsync", "always")
	q := k.queue("q")
	rec := newRecorder()
	o := k.workerOptions("q")
	o.Concurrency, o.Observer = 2, rec
	release := make(chan struct{})
	started := make(chan struct{}, 100)

	var runs atomic.Int32

	k.run(o, func(context.Context, *Job) (any, error) {
		runs.Add(1)
		started <- struct{}{}
		<-release

		return nil, nil
	})

	for range 10 {
		k.add(q, "n", nil, JobOptions{})
	}

	<-started
	<-started
	k.srv.Kill()
	close(release) // both jobs end while Redis is gone

	rounds := rec.rounds()

	sleep(t.Context(), time.Second) // the outage itself
	k.srv.Restart()

	began := time.Now()

	wait.For(t, testTimeout, func() bool { c, err := q.Counts(t.Context()); return err == nil && c.Completed == 10 })

	if took := time.Since(began); took > soon {
		t.Errorf("work went on %v after the restart", took)
	}

	if runs.Load() != 10 {
		t.Errorf("%d runs of 10 jobs; fetch rounds before the restart: %d", runs.Load(), rounds)
	}
}

// A Redis that has forgotten everything, in the middle of a job: the slot is freed and the next job runs.
func TestFlushAll(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	o := k.workerOptions("q")
	o.LockDuration, o.LockRenewTime, o.DrainDelay = time.Second, 200*time.Millisecond, time.Second
	started := make(chan struct{}, 10)

	k.run(o, func(ctx context.Context, j *Job) (any, error) {
		started <- struct{}{}
		if j.Name == "stuck" {
			<-ctx.Done()
		}

		return nil, nil
	})

	k.add(q, "stuck", nil, JobOptions{})
	<-started
	k.must(k.r.FlushAll(t.Context()).Err())
	k.must(k.r.ScriptFlush(t.Context()).Err())

	id := k.add(q, "next", nil, JobOptions{JobID: "next"})
	k.awaitState(q, id, StateCompleted)
}

// A Redis that is not there costs no CPU and few attempts.
func TestNoRedis(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	k.srv.Kill()

	var failed atomic.Int32

	o := k.workerOptions("q")
	o.Observer = &failures{n: &failed}
	w, err := NewWorker(o, func(context.Context, *Job) (any, error) { return nil, nil })
	k.must(err)

	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background()) }()

	began := time.Now()

	sleep(t.Context(), 3*time.Second) // the length of the outage
	wait.For(t, testTimeout, func() bool { return failed.Load() >= 2 }, "it does not try again")
	w.Drain()

	select {
	case err := <-ended:
		k.must(err)
	case <-time.After(soon):
		t.Fatal("a worker without Redis does not stop")
	}

	if n, took := failed.Load(), time.Since(began); float64(n) > 7*took.Seconds() {
		t.Errorf("%d attempts in %v", n, took)
	}
}

type failures struct {
	NopObserver
	n *atomic.Int32
}

// FetchFailed implements Observer.
func (f *failures) FetchFailed(error) { f.n.Add(1) }

// A server that has become a replica refuses writes; the same worker goes on when it is a master again.
func TestReadOnlyReplica(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	o := k.workerOptions("q")
	o.DrainDelay = 500 * time.Millisecond
	w, _ := k.run(o, func(context.Context, *Job) (any, error) { return nil, nil })
	wait.For(t, testTimeout, func() bool { return w.Status().Blocked })

	k.must(k.r.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
	wait.For(t, testTimeout, func() bool { return !w.Status().Blocked })
	k.must(k.r.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())

	id := k.add(q, "n", nil, JobOptions{JobID: "after"})
	k.awaitState(q, id, StateCompleted)
}
