package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
)

// fleet is a queue on a replicated Redis, with a worker whose jobs the test holds up.
type fleet struct {
	kit

	sets    *redistest.Replicated
	q       *Queue
	rec     *recorder
	started chan string
	gates   sync.Map // job id -> chan struct{}; a job without one ends at once
}

func newFleet(t *testing.T) *fleet {
	t.Helper()

	sets := redistest.StartReplicated(t, 2)

	// At the sentinels, too, the user has no more than the documented rights.
	for _, s := range sets.Sentinels {
		if err := s.Client().Do(t.Context(), documentedUsers(t)["watcher"]...).Err(); err != nil {
			t.Fatal(err)
		}
	}

	f := &fleet{kit: kit{t: t, url: sets.URL + "?sentinel_username=watcher&sentinel_password=SECRET"}, sets: sets, rec: newRecorder(), started: make(chan string, 1000)}
	f.q = f.queue("q")

	o := f.workerOptions("q")
	o.Concurrency, o.Observer, o.LockDuration, o.LockRenewTime, o.StalledInterval = 3, f.rec, 5*time.Minute, time.Second, time.Second
	f.run(o, func(ctx context.Context, j *Job) (any, error) {
		f.started <- j.ID

		if gate, ok := f.gates.Load(j.ID); ok {
			select {
			case <-gate.(chan struct{}):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}

		_ = j.UpdateProgress(ctx, 1) // fails while there is no master, which is no reason to fail the job

		return "done", nil
	})

	return f
}

// hold adds a job that runs until the returned function is called, and waits until it runs.
func (f *fleet) hold(id string) (release func()) {
	f.t.Helper()

	gate := make(chan struct{})
	f.gates.Store(id, gate)
	f.add(f.q, "n", nil, JobOptions{JobID: id})

	if got := <-f.started; got != id {
		f.t.Fatalf("%s has started, not %s", got, id)
	}

	return func() { close(gate) }
}

// replicated waits until the replicas have all that was written: what a master acknowledges and takes with it into its grave is lost.
func (f *fleet) replicated() {
	f.t.Helper()

	c := f.sets.Master().Client()
	defer c.Close()

	// WAIT counts for the writes of its own connection.
	f.must(c.Set(f.t.Context(), "beat", 1, 0).Err())

	if n, err := c.Wait(f.t.Context(), len(f.sets.Servers)-1, testTimeout).Result(); err != nil || n < 1 {
		f.t.Fatalf("%d replicas follow, %v", n, err)
	}
}

// goesOn: a job added now is done soon.
func (f *fleet) goesOn(id string) {
	f.t.Helper()

	began := time.Now()
	f.add(f.q, "n", nil, JobOptions{JobID: id})
	f.awaitState(f.q, id, StateCompleted)

	if took := time.Since(began); took > soon {
		f.t.Errorf("job %s was done %v after the new master was known", id, took)
	} else {
		f.t.Logf("job %s was done %v after the new master was known", id, took)
	}
}

// endedOnce: each job has one completed event on the master of now.
func (f *fleet) endedOnce(ids ...string) {
	f.t.Helper()

	c := f.sets.Master().Client()
	defer c.Close()

	times := map[string]int{}

	entries, err := c.XRange(f.t.Context(), "bull:q:events", "-", "+").Result()
	f.must(err)

	for _, e := range entries {
		if e.Values["event"] == "completed" {
			times[fmt.Sprint(e.Values["jobId"])]++
		}
	}

	for _, id := range ids {
		if times[id] != 1 {
			f.t.Errorf("job %s: %d completed events, outcomes %s", id, times[id], f.rec.outcomes(id))
		}
	}
}

// A failover by hand, the master being well: worker, readers of results and producers go over to the new master. From the moment in which
// the replica is promoted to that in which the sentinels announce it the old master takes writes that nobody will ever see. Whoever adds
// by id, and adds again, loses nothing.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()

	f := newFleet(t)
	results, stop := f.results()

	defer stop()

	release := f.hold("running")
	f.replicated()

	wanted := make(chan string, 1)

	go func() { // ends with the result
		value, err := results.Wait(t.Context(), "running")
		wanted <- fmt.Sprint(string(value), err)
	}()

	producing, stopProducing := context.WithCancel(t.Context())
	produced := make(chan []string, 1)

	go func() { produced <- f.produce(producing) }()

	f.sets.Failover()
	f.goesOn("after")
	stopProducing()
	release()

	ids := append(<-produced, "running", "after")
	for _, id := range ids[:len(ids)-2] {
		f.add(f.q, "n", nil, JobOptions{JobID: id})
	}

	f.allCompleted(ids)
	f.endedOnce(ids...)

	if f.rec.outcomes("running") != "[completed]" {
		t.Errorf("the running job ended %s", f.rec.outcomes("running"))
	}

	if got := <-wanted; got != `"done"<nil>` {
		t.Errorf("who waited for the result got %s", got)
	}
}

// produce adds a job every 20 ms until ctx ends; each is answered, maybe after another try.
func (f *fleet) produce(ctx context.Context) (ids []string) {
	for sleep(ctx, 20*time.Millisecond) {
		id := "p" + strconv.Itoa(len(ids))

		for began := time.Now(); ; {
			_, err := f.q.Add(f.t.Context(), "n", nil, JobOptions{JobID: id})
			if err == nil {
				break
			}

			if time.Since(began) > testTimeout || !sleep(f.t.Context(), 100*time.Millisecond) {
				f.t.Errorf("add %s: %v", id, err)
				return ids
			}
		}

		ids = append(ids, id)
	}

	return ids
}

// The master dies: idle, and with jobs running.
func TestSentinelMasterDies(t *testing.T) {
	t.Parallel()

	f := newFleet(t)
	release := f.hold("running")
	second := f.hold("ends in between")
	f.replicated()

	old := f.sets.Master()
	old.Kill()
	second() // its end can't be written now

	f.sets.AwaitMasterAfter(old)
	f.goesOn("after")
	release()
	ids := []string{"running", "ends in between", "after"}
	f.allCompleted(ids)
	f.endedOnce(ids...)

	for _, id := range ids {
		if f.rec.outcomes(id) != "[completed]" {
			t.Errorf("job %s ended %s", id, f.rec.outcomes(id))
		}
	}

	// The old master comes back as what it was, learns better, and nobody has written to it.
	old.Restart()
	f.goesOn("later")
	f.endedOnce("later")

	if n := len(f.started); n != 2 { // "after" and "later"; the others' starts have been read
		t.Errorf("%d more starts", n)
	}
}

func (f *fleet) allCompleted(ids []string) {
	f.t.Helper()

	var done []string

	all := func() bool {
		done, _ = f.q.IDs(f.t.Context(), StateCompleted, 0, 10000)
		return len(done) == len(ids)
	}

	if !wait.Until(f.t, soon, all) {
		f.runOut(ids, done)
	}

	if !wait.Until(f.t, testTimeout, all) {
		f.t.Errorf("%d of %d jobs are done", len(done), len(ids))
	}

	for _, id := range ids {
		if !slices.Contains(done, id) {
			f.t.Errorf("job %s is not completed", id)
		}
	}
}

// runOut takes the locks of jobs whose end the old master has taken with it. Their time would do the same, some minutes later.
func (f *fleet) runOut(ids, done []string) {
	f.t.Helper()

	for _, id := range ids {
		if !slices.Contains(done, id) && f.rec.outcomes(id) == "[completed]" {
			f.t.Logf("the end of job %s is lost", id)
			f.must(f.q.client.get().Del(f.t.Context(), f.q.keys.job(id)+":lock").Err())
		}
	}
}

func (f *fleet) results() (r *Results, stop func()) {
	f.t.Helper()

	r, err := NewResults(f.options("q"))
	f.must(err)

	ctx, cancel := context.WithCancel(f.t.Context())

	var wg sync.WaitGroup

	wg.Go(func() { _ = r.Run(ctx) })
	<-r.Ready()

	return r, func() { cancel(); wg.Wait() }
}
