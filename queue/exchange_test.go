package queue

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

func nothing(context.Context, *Job) (any, error) { return nil, nil }

// plainJobs adds n jobs in one call.
func (k *kit) plainJobs(q *Queue, n int) {
	k.t.Helper()

	jobs := make([]NewJob, n)
	for i := range jobs {
		jobs[i].Name = "n"
	}

	_, err := q.AddBulk(k.t.Context(), jobs)
	k.must(err)
}

// Outcomes that come while Redis is busy go together, and each brings another job into its slot.
func TestFinishesGoTogether(t *testing.T) {
	t.Parallel()

	const n = 40

	k := newKit(t)
	q, w := k.queue("q"), k.worker("q", func(o *WorkerOptions) { o.Concurrency = n })
	k.plainJobs(q, n+n/2)

	reply, err := newFetcher(w).take(t.Context(), "t", n)
	k.must(err)

	holds := make([]*hold, n)

	for i := range holds {
		holds[i], err = w.holdTaken(t.Context(), &reply.jobs[i], "t", time.Now())
		k.must(err)

		holds[i].chained = true
		t.Cleanup(func() { w.held.drop(holds[i]) })
	}

	k.must(w.exchange.write(holds[0].final(keyCompleted, []byte("1"), nil, nil))) // loads the script
	k.must(k.r.ConfigResetStat(t.Context()).Err())

	w.exchange.calls = exchangeCalls // as if Redis were busy with as many

	var all sync.WaitGroup

	for _, h := range holds[1:] {
		all.Go(func() {
			if err := w.exchange.write(h.final(keyCompleted, []byte("1"), nil, nil)); err != nil {
				t.Error(err)
			}
		})
	}

	wait.For(t, testTimeout, func() bool {
		w.exchange.mu.Lock()
		defer w.exchange.mu.Unlock()

		return len(w.exchange.queued) == n-1
	})
	w.exchange.pass(nil)
	all.Wait()

	next := map[string]bool{}

	for _, h := range holds {
		if h.next != nil {
			next[h.next.job.id] = true
		}
	}

	c, err := q.Counts(t.Context())
	k.must(err)

	if len(next) != n/2 || c.Completed != n || c.Active != n/2 || c.Waiting != 0 {
		t.Errorf("%d jobs taken, %+v", len(next), c)
	}

	if stat := k.r.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_evalsha"); !strings.HasPrefix(stat, "calls=2,") {
		t.Errorf("evalsha: %s, want 2 calls", stat)
	}
}

// A refused outcome does not disturb those beside it, and takes no job.
func TestRefusedFinishAmongOthers(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q, w := k.queue("q"), k.worker("q")
	k.plainJobs(q, 6)

	batch := make([]*final, 3)
	for i := range batch {
		h := k.take(w, "t")
		h.chained = true
		batch[i] = h.final(keyCompleted, []byte("1"), nil, nil)
	}

	batch[1].h.token = "other"
	k.must(w.exchange.call(batch))

	for i, e := range batch {
		if refused := i == 1; isRefusal(e.err) != refused || (e.h.next == nil) != refused {
			t.Errorf("outcome %d: %v, next %v", i, e.err, e.h.next)
		}
	}
}

// A job whose end breaks the script, here by a parent that is none, does not make its neighbours end twice.
func TestBrokenFinishAmongOthers(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q, w := k.queue("q"), k.worker("q")
	k.plainJobs(q, 3)
	k.must(k.r.Set(t.Context(), "bull:q:p1:dependencies", "no set", 0).Err())
	k.must(k.r.HSet(t.Context(), "bull:q:p1", "name", "p").Err())
	k.must(k.r.HSet(t.Context(), "bull:q:2", "parentKey", "bull:q:p1", "parent", `{"id":"p1","queueKey":"bull:q"}`).Err())

	batch := make([]*final, 3)
	for i := range batch {
		batch[i] = k.take(w, "t").final(keyCompleted, []byte("1"), nil, nil)
	}

	k.must(w.exchange.call(batch))

	for i, e := range batch {
		if broken := e.h.job.ID == "2"; (e.err != nil) != broken || isRefusal(e.err) {
			t.Errorf("outcome %d: %v", i, e.err)
		}
	}

	// It is ours still.
	if c, err := q.Counts(t.Context()); err != nil || c.Completed != 2 || c.Active != 1 || k.r.Get(t.Context(), "bull:q:2:lock").Val() != "t" {
		t.Errorf("%+v, %v", c, err)
	}

	// Alone it is the call's fault, which is not known from one of Redis itself.
	broken := batch[2:] // behind those that end in the common way
	if err := w.exchange.call(broken); err == nil && broken[0].err == nil || broken[0].h.job.ID != "2" {
		t.Error("the broken job has ended")
	}

	k.must(k.r.Del(t.Context(), "bull:q:p1:dependencies").Err())
	broken[0].err = nil
	k.must(w.exchange.call(broken))
	k.must(broken[0].err)

	if c, err := q.Counts(t.Context()); err != nil || c.Completed != 3 || c.Active != 0 {
		t.Errorf("mended: %+v, %v", c, err)
	}
}

// tallyGate counts the jobs that went through it.
type tallyGate struct {
	*Slots
	confirmed atomic.Int32
}

// TryClaim implements Gate.
func (g *tallyGate) TryClaim() (Slot, bool) {
	s, ok := g.Slots.TryClaim()

	return &tallySlot{Slot: s, gate: g}, ok
}

type tallySlot struct {
	Slot
	gate *tallyGate
}

// Confirm implements Slot.
func (s *tallySlot) Confirm() { s.gate.confirmed.Add(1) }

// Where others share the capacity each job asks the gate anew.
func TestSharedGateIsAskedForEachJob(t *testing.T) {
	t.Parallel()

	const n = 50

	k := newKit(t)
	q := k.queue("q")
	k.plainJobs(q, n)

	gate := &tallyGate{Slots: NewGate(3)}
	o := k.workerOptions("q")
	o.Gate = gate
	k.run(o, nothing)

	wait.For(t, testTimeout, func() bool { c, err := q.Counts(t.Context()); return err == nil && c.Completed == n })

	if got := gate.confirmed.Load(); got != n {
		t.Errorf("%d slots for %d jobs", got, n)
	}
}

// The answer of a finish that has taken jobs gets lost: the outcomes count once, and the jobs are found and run.
func TestLostAnswerOfFinishThatTakes(t *testing.T) {
	t.Parallel()

	const n = 40

	k, p := throughProxy(t)
	direct := *k
	direct.url = k.srv.URL
	q := direct.queue("q")
	k.plainJobs(q, n)

	var runs atomic.Int32

	o := k.workerOptions("q")
	o.Concurrency, o.StalledInterval = 4, time.Hour

	_, stop := k.run(o, func(context.Context, *Job) (any, error) {
		if runs.Add(1) == n/2 {
			p.loseAnswer(sha(t, func(s *scripts) *script { return s.finish }), 1)
		}

		return nil, nil
	})

	wait.For(t, testTimeout, func() bool { c, err := q.Counts(t.Context()); return err == nil && c.Completed == n })
	stop()

	if runs.Load() != n || p.lostAnswers() != 1 {
		t.Errorf("%d runs of %d jobs, %d answers lost", runs.Load(), n, p.lostAnswers())
	}
}

// Slots that go on with the next job obey Pause, a smaller concurrency and Drain as well.
func TestChainsObey(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.plainJobs(q, 200)

	var running atomic.Int32

	step := make(chan struct{})
	o := k.workerOptions("q")
	o.Concurrency = 8
	w, stop := k.run(o, func(context.Context, *Job) (any, error) {
		running.Add(1)
		defer running.Add(-1)

		<-step

		return nil, nil
	})

	ends := func(n int) {
		for range n {
			step <- struct{}{}
		}
	}
	settled := func(want int32) {
		t.Helper()
		wait.For(t, testTimeout, func() bool { return running.Load() == want && w.Status().Active == int(want) }, "%d run", running.Load())
	}

	settled(8)
	k.must(w.SetConcurrency(3))
	ends(5)
	settled(3)
	ends(10)
	settled(3)

	w.Pause()
	ends(3)
	settled(0)
	w.Resume()
	settled(3)

	w.Drain()
	ends(3) // of the jobs that run; no other follows
	stop()

	c, err := q.Counts(t.Context())
	k.must(err)

	if c.Active != 0 || c.Waiting != 200-5-10-3-3 {
		t.Errorf("after the drain: %+v", c)
	}
}
