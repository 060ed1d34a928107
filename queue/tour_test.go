package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

// tour does as one of a deployment's roles everything that the role ever does. seed prepares the queue "q" before, as another user.
type tour struct {
	role string
	seed func(k *kit)
	run  func(k *kit, o Options)
}

func tours() []tour {
	return []tour{
		{"producer", seedProducer, tourProducer},
		{"worker", seedWorker, tourWorker},
		{"reader", seedReader, tourReader},
		{"operator", seedOperator, tourOperator},
	}
}

// all joins the errors of calls whose answers do not matter here: other tests look at those.
func all(k *kit, errs ...error) {
	k.t.Helper()
	k.must(errors.Join(errs...))
}

func second[T any](_ T, err error) error { return err }

func (k *kit) open(o Options) *Queue {
	k.t.Helper()

	q, err := NewQueue(o)
	k.must(err)
	k.t.Cleanup(func() { _ = q.Close() })

	return q
}

func flowsOf(k *kit, o Options) *Flows {
	k.t.Helper()

	f, err := NewFlows(FlowOptions{RedisURL: o.RedisURL, Prefix: o.Prefix})
	k.must(err)
	k.t.Cleanup(func() { _ = f.Close() })

	return f
}

// seedProducer leaves jobs that make adds go each of their ways: owners of deduplication ids that wait, run and are gone.
func seedProducer(k *kit) {
	q, ctx := k.queue("q"), k.t.Context()

	k.add(q, "n", nil, JobOptions{JobID: "runs", Deduplication: &Deduplication{ID: "runs", KeepLastIfActive: true}})

	if h := k.take(k.worker("q"), "t"); h == nil {
		k.t.Fatal("nothing taken")
	}

	k.must(q.SetGlobalConcurrency(ctx, 1000))
	k.must(k.r.Set(ctx, "bull:q:de:gone", "nobody", 0).Err())
	k.add(q, "n", nil, JobOptions{JobID: "parent"})

	done := k.worker("done")
	k.add(k.queue("done"), "n", nil, JobOptions{JobID: "child"})
	k.expect(done.complete(k.take(done, "t"), 1), OutcomeCompleted)
}

func tourProducer(k *kit, o Options) {
	q, ctx := k.open(o), k.t.Context()
	k.must(q.Ping(ctx))

	dedup := func(d Deduplication, delay time.Duration) NewJob {
		return NewJob{Name: "n", Opts: JobOptions{Delay: delay, Deduplication: &d}}
	}

	_, err := q.AddBulk(ctx, []NewJob{
		{Name: "n"},
		{Name: "n", Opts: JobOptions{LIFO: true}},
		{Name: "n", Opts: JobOptions{Priority: 3}},
		{Name: "n", Opts: JobOptions{Delay: time.Hour}},
		{Name: "n", Opts: JobOptions{Delay: time.Hour}},
		{Name: "n", Opts: JobOptions{JobID: "own"}},
		{Name: "n", Opts: JobOptions{JobID: "own"}},
		{Name: "n", Opts: JobOptions{Parent: &ParentRef{ID: "parent", Queue: "bull:q"}}},
		dedup(Deduplication{ID: "a", TTL: time.Hour, Extend: true}, time.Hour), dedup(Deduplication{ID: "a", TTL: time.Hour, Extend: true}, 0),
		dedup(Deduplication{ID: "b", TTL: time.Hour}, 0), dedup(Deduplication{ID: "b", TTL: time.Hour}, 0),
		dedup(Deduplication{ID: "c", TTL: time.Hour, Replace: true}, time.Hour), dedup(Deduplication{ID: "c", TTL: time.Hour, Replace: true}, time.Hour),
		dedup(Deduplication{ID: "d", Reschedule: true}, time.Hour), dedup(Deduplication{ID: "d", Reschedule: true}, time.Minute),
		dedup(Deduplication{ID: "runs", KeepLastIfActive: true}, 0), dedup(Deduplication{ID: "gone"}, 0),
		dedup(Deduplication{ID: "runs", TTL: time.Hour}, 0),
	})
	all(k, err, second(q.Add(ctx, "n", nil, JobOptions{})))

	f := flowsOf(k, o)
	all(k,
		second(f.Add(ctx, node("q", "P", JobOptions{}, node("other", "C", JobOptions{}), node("done", "child", JobOptions{})))),
		second(f.Add(ctx, node("q", "P2", JobOptions{Priority: 1}, node("q", "C8", JobOptions{})))),
		second(f.Add(ctx, node("q", "P", JobOptions{}, node("other", "C2", JobOptions{})))),
	)

	// Twice: the second time moves the pending iteration.
	for _, r := range []Repeat{{Every: time.Hour}, {Every: time.Minute}, {Pattern: "0 3 * * *", Limit: 5}} {
		all(k, second(q.UpsertScheduler(ctx, "s", r, NewJob{Name: "n", Data: 1})))
	}

	all(k, q.PublishEvent(ctx, "custom", 0, "field", "value"))
}

// seedWorker leaves jobs of every kind and every sort of debris that a worker meets.
func seedWorker(k *kit) {
	q, ctx := k.queue("q"), k.t.Context()
	k.must(q.Pause(ctx)) // the delayed ones stay together
	k.plainJobs(k.queue("burst"), 3*burstSlots)

	_, err := q.AddBulk(ctx, []NewJob{
		{Name: "plain"},
		{Name: "plain", Opts: JobOptions{Priority: 2, KeepLogs: 1}},
		{Name: "plain", Opts: JobOptions{Delay: time.Millisecond, Priority: 1}},
		{Name: "plain", Opts: JobOptions{Delay: time.Millisecond}},
		{Name: "plain", Opts: JobOptions{Deduplication: &Deduplication{ID: "d", TTL: time.Hour}}},
		{Name: "plain", Opts: JobOptions{JobID: "keeps", Deduplication: &Deduplication{ID: "dn", KeepLastIfActive: true}}},
		{Name: "once", Opts: JobOptions{Attempts: 2}},
		{Name: "once", Opts: JobOptions{Attempts: 2, Priority: 1}},
		{Name: "once", Opts: JobOptions{Attempts: 2, Backoff: &Backoff{Type: "fixed", Delay: time.Millisecond}}},
		{Name: "broken", Opts: JobOptions{RemoveOnFail: &Keep{Count: 1}}},
		{Name: "broken", Opts: JobOptions{RemoveOnFail: &Keep{Now: true}}},
		{Name: "put back"},
		{Name: "put back", Opts: JobOptions{Priority: 1}},
		{Name: "later"},
		{Name: "limited"},
		{Name: "slow"},
		{Name: "removed"},
		{Name: "sentenced", Opts: JobOptions{JobID: "sentenced"}},
		{Name: "plain", Opts: JobOptions{RemoveOnComplete: &Keep{Now: true}}},
		{Name: "plain", Opts: JobOptions{RemoveOnComplete: &Keep{Age: time.Hour, Count: 1}}},
		{Name: "waits", Opts: JobOptions{JobID: "waits"}},
		{Name: "plain", Opts: JobOptions{Parent: &ParentRef{ID: "waits", Queue: "bull:q"}, Priority: 5}},
	})
	k.must(err)

	for i, o := range []JobOptions{
		{},
		{FailParentOnFailure: true},
		{ContinueParentOnFailure: true},
		{IgnoreDependencyOnFailure: true},
		{RemoveDependencyOnFailure: true},
		{RemoveOnComplete: &Keep{Now: true}},
		{RemoveOnFail: &Keep{Now: true}},
	} {
		child := node("q", fmt.Sprint("child", i, "x"), o)
		child.Name = "broken"

		parent := node("q", fmt.Sprint("parent", i, "x"), JobOptions{Priority: i % 2}, child, node("q", fmt.Sprint("good", i, "x"), o))
		if i == 3 {
			parent.Opts.Delay = time.Millisecond
		}

		parent.Name = "parent"
		k.flow(parent)
	}

	leaver := node("q", "leaver", JobOptions{})
	leaver.Name = "leaver"
	k.flow(node("q", "left", JobOptions{}, leaver))

	_, err = q.UpsertScheduler(ctx, "s", Repeat{Every: 20 * time.Millisecond, Limit: 3}, NewJob{Name: "plain", Data: 1})
	k.must(err)

	c := q.client.get()
	all(k,
		c.HSet(ctx, "bull:q:dn:dn", "name", "plain", "data", "{}", "opts", "{}", "jid", "kept last").Err(),
		c.HSet(ctx, "bull:q:sentenced", "defa", "because").Err(),
		c.HSet(ctx, "bull:q:lost", "name", "plain", "data", "{}").Err(),
		c.LPush(ctx, "bull:q:active", "lost", "ghost").Err(),
		c.RPush(ctx, "bull:q:wait", "0:0", "ghost").Err(),
		q.Resume(ctx),
	)
}

// tourHandler does what the job's name says.
func tourHandler(rec *recorder, remove func(id string)) Handler {
	var seen sync.Map

	return func(ctx context.Context, j *Job) (any, error) {
		_, again := seen.LoadOrStore(j.ID, true)

		if err := errors.Join(j.UpdateProgress(ctx, 1), j.Log(ctx, "row"), j.Log(ctx, "row")); err != nil {
			return nil, err
		}

		switch {
		case j.Name == "broken":
			return nil, errBoom
		case j.Name == "slow":
			// The job's work lasts until its lock has been renewed.
			for before := rec.extended(); rec.extended() == before && sleep(ctx, time.Millisecond); {
			}
		case j.Name == "removed":
			remove(j.ID)
		case j.Name == "parent", j.Name == "leaver":
			_, err1 := j.ChildrenValues(ctx)
			_, err2 := j.Family(ctx)
			_, err3 := j.FamilyCounts(ctx)
			_, err4 := j.LeaveParent(ctx)

			return nil, errors.Join(err1, err2, err3, err4)
		case again:
		case j.Name == "once":
			return nil, errBoom
		case j.Name == "put back":
			return nil, PutBack(nil)
		case j.Name == "later":
			return nil, DelayFor(time.Millisecond, nil)
		case j.Name == "limited":
			return nil, RateLimitFor(time.Millisecond, nil)
		case j.Name == "waits":
			return nil, WaitForChildren()
		}

		return 1, nil
	}
}

// tourWorker works until nothing is left to do.
func tourWorker(k *kit, o Options) {
	wo := DefaultWorkerOptions()
	wo.Options, wo.WorkerName, wo.MetricsPoints, wo.Concurrency = o, "w", 5, 2
	wo.StalledInterval, wo.LockDuration, wo.LockRenewTime = 100*time.Millisecond, 20*time.Second, 200*time.Millisecond
	wo.DrainDelay = 100 * time.Millisecond
	wo.Limiter = &Limiter{Max: 1000, Duration: time.Minute}

	refused := errBoom // the first time only: the wake-up goes back
	wo.BeforeClaim = func(context.Context) error { err := refused; refused = nil; return err }

	rec := newRecorder()
	wo.Observer = rec

	_, stop := k.run(wo, tourHandler(rec, func(id string) { k.must(k.r.Del(k.t.Context(), "bull:q:"+id).Err()) }))

	for _, id := range []string{"lost", "kept last", "waits", "leaver", "left", "sentenced", "parent1x", "parent2x", "parent3x", "parent4x"} {
		wait.For(k.t, testTimeout, func() bool { return rec.outcomes(id) != "[]" }, "job %s has not ended", id)
	}

	p := k.puller(wo)
	claim, err := p.Next(k.t.Context(), false)
	all(k, err, p.CheckStalled(k.t.Context()))

	if claim != nil {
		all(k, claim.Extend(k.t.Context()))
		claim.Finish(1)
	}

	// What a worker does when answers have been lost.
	w := k.worker("q", func(own *WorkerOptions) { own.Options = o })
	_, err = newFetcher(w).findClaimed(k.t.Context(), "nobody's")
	k.must(err)
	stop()
	tourIdleWorker(k, o)
}

// burstSlots are the slots of tourIdleWorker; three times as many jobs are there.
const burstSlots = 4

// tourIdleWorker takes several jobs at once, and then waits for one with the claim behind the wait.
func tourIdleWorker(k *kit, o Options) {
	const slots = burstSlots

	q := k.queue("burst")

	wo := DefaultWorkerOptions()
	wo.Options, wo.Name, wo.Concurrency = o, "burst", slots

	var running sync.WaitGroup

	running.Add(slots)

	var started atomic.Int32

	w, stop := k.run(wo, func(context.Context, *Job) (any, error) {
		// The first ones wait for each other, so that claims fill the slots and not finishes.
		if started.Add(1) <= slots {
			running.Done()
			running.Wait()
		}

		return 1, nil
	})

	wait.For(k.t, testTimeout, func() bool { return started.Load() == 3*slots && w.Status().Blocked }, "the worker does not wait")
	k.add(q, "n", nil, JobOptions{})
	// Looking at its state would count as something that a worker does.
	wait.For(k.t, testTimeout, func() bool { return started.Load() == 3*slots+1 }, "the job has not begun")
	stop()
}

func seedReader(k *kit) {
	q, w, ctx := k.queue("q"), k.worker("q"), k.t.Context()
	k.add(q, "n", nil, JobOptions{JobID: "done"})
	k.expect(w.complete(k.take(w, "t"), 1), OutcomeCompleted)
	k.add(q, "n", nil, JobOptions{JobID: "broken"})
	k.expect(w.fail(k.take(w, "t"), errBoom), OutcomeFailed)
	k.add(q, "n", nil, JobOptions{JobID: "gone"})
	k.must(q.Remove(ctx, "gone"))
}

// tourReader reads events from the beginning and from now on, and waits for results.
func tourReader(k *kit, o Options) {
	ctx, cancel := context.WithTimeout(k.t.Context(), testTimeout)
	defer cancel()

	e, err := NewEvents(o)
	k.must(err)

	enough := errors.New("read enough")
	if err := e.RunFrom(ctx, "0", func(ev Event) error {
		if ev.Name == "removed" {
			return enough
		}

		return nil
	}); !errors.Is(err, enough) {
		k.t.Errorf("read events: %v", err)
	}

	r, err := NewResults(o)
	k.must(err)

	var reading sync.WaitGroup

	reading.Go(func() { _ = r.Run(ctx) })

	select {
	case <-r.Ready():
	case <-ctx.Done():
		k.t.Fatal("the events can't be read")
	}

	if value, err := r.Wait(ctx, "done"); err != nil || string(value) != "1" {
		k.t.Errorf("result %s, %v", value, err)
	}

	if _, err := r.Wait(ctx, "broken"); err == nil {
		k.t.Error("no error of a failed job")
	}

	if _, err := r.Wait(ctx, "gone"); !errors.Is(err, ErrJobNotFound) {
		k.t.Errorf("a job that is gone: %v", err)
	}

	cancel()
	reading.Wait()
}

func seedOperator(k *kit) {
	seedWorker(k)

	q, w, ctx := k.queue("q"), k.worker("q"), k.t.Context()
	k.must(q.Pause(ctx))

	_, err := q.AddBulk(ctx, []NewJob{
		{Opts: JobOptions{JobID: "late", Delay: time.Hour}},
		{Opts: JobOptions{JobID: "late2", Delay: time.Hour}},
		{Opts: JobOptions{JobID: "ranked", Priority: 4}},
		{Opts: JobOptions{JobID: "idle"}},
		{Opts: JobOptions{JobID: "dedup", Deduplication: &Deduplication{ID: "x"}}},
	})
	k.must(err)
	k.flow(node("q", "P", JobOptions{}, node("q", "C", JobOptions{})))
	k.flow(node("q", "P9", JobOptions{}, node("other", "C9", JobOptions{})))

	for _, id := range []string{"done", "broken", "done2", "broken2"} {
		k.must(q.Resume(ctx))
		k.add(q, "n", nil, JobOptions{JobID: id, LIFO: true})

		h := k.take(w, "t")
		if h.job.ID != id {
			k.t.Fatalf("took %s, not %s", h.job.ID, id)
		}

		if id[0] == 'd' {
			k.expect(w.complete(h, 1), OutcomeCompleted)
		} else {
			k.expect(w.fail(h, errBoom), OutcomeFailed)
		}
	}

	child := node("family", "broken", JobOptions{IgnoreDependencyOnFailure: true})
	k.flow(node("q", "P8", JobOptions{}, child))
	k.expect(k.worker("family").fail(k.take(k.worker("family"), "t"), errBoom), OutcomeFailed)

	// As a major 5 client leaves them.
	all(k, k.r.LPush(ctx, "bull:q:paused", "ghost").Err(), k.r.LPush(ctx, "bull:family:paused", "ghost").Err())
	k.must(k.r.HSet(ctx, "bull:q:orphan", "name", "n").Err())
}

// tourOperator looks at everything and steers everything.
func tourOperator(k *kit, o Options) {
	q, f, ctx := k.open(o), flowsOf(k, o), k.t.Context()
	o.Name = "family"
	family := k.open(o)

	operatorLooks(k, q, f)
	all(k, family.Resume(ctx), family.Retry(ctx, "broken"))
	all(k,
		q.SetGlobalConcurrency(ctx, 5), second(q.GlobalConcurrency(ctx)), second(q.Maxed(ctx)), q.RemoveGlobalConcurrency(ctx),
		q.SetGlobalRateLimit(ctx, Limiter{Max: 5, Duration: time.Second}), second(q.GlobalRateLimit(ctx)), q.RateLimit(ctx, time.Hour),
		second(q.RateLimitTTL(ctx, 0)), q.RemoveRateLimit(ctx), q.RemoveGlobalRateLimit(ctx),
		q.ChangeDelay(ctx, "late", time.Minute), q.Promote(ctx, "late"), q.ChangePriority(ctx, "ranked", 2, false),
		q.ChangePriority(ctx, "ranked", 1, true), q.ChangePriority(ctx, "idle", 1, false), q.ChangePriority(ctx, "idle", 0, false),
		q.UpdateData(ctx, "idle", 7), second(q.AddLog(ctx, "idle", "row", 2)), q.ClearLogs(ctx, "idle", 1), q.ClearLogs(ctx, "idle", 0),
		q.RetryWith(ctx, "done", RetryOptions{ResetAttemptsMade: true}), q.Retry(ctx, "broken"),
		second(q.RetryAll(ctx, StateFailed, time.Now())), second(q.RetryAll(ctx, StateCompleted, time.Now())), second(q.PromoteAll(ctx)),
		q.Pause(ctx), q.Resume(ctx), q.SetMaxEvents(ctx, 1000), second(q.TrimEvents(ctx, 500)),
		q.Remove(ctx, "P"), q.RemoveAlone(ctx, "dedup"), second(q.RemoveOrphans(ctx)),
		second(q.RemoveScheduler(ctx, "s")),
	)

	for _, state := range []State{StateCompleted, StateFailed, StateDelayed, StatePrioritized, StateWaiting, StateActive} {
		all(k, second(q.Clean(ctx, time.Hour, 1, state)), second(q.Clean(ctx, 0, 2, state)))
	}

	all(k, second(q.Drain(ctx, true)), q.Pause(ctx), q.Obliterate(ctx, true))
}

func operatorLooks(k *kit, q *Queue, f *Flows) {
	ctx := k.t.Context()

	job, err := q.Job(ctx, "P")
	k.must(err)
	all(k, second(job.Family(ctx)), second(job.FamilyCounts(ctx)), second(q.State(ctx, "P")), second(q.Counts(ctx)), second(q.Exists(ctx, "P")),
		second(q.Logs(ctx, "P")), second(q.CountsPerPriority(ctx, 0, 1)), second(q.DelayedBefore(ctx, time.Now())),
		second(q.Metrics(ctx, StateCompleted, 0, 10)), second(q.Scheduler(ctx, "s")), second(q.Schedulers(ctx, 0, 10)), second(q.SchedulerCount(ctx)),
		second(q.Workers(ctx)), second(q.Servers(ctx)), second(q.Sight(ctx)), second(f.Get(ctx, FlowQuery{Queue: "q", ID: "P"})), q.Ping(ctx))

	_, _, err1 := q.LogRange(ctx, "P", 0, 10, true)
	_, _, err2 := q.Oldest(ctx)
	_, _, err3 := q.Others(ctx, SightBounds{})
	all(k, err1, err2, err3)

	for _, state := range []State{StateCompleted, StateFailed, StateDelayed, StatePrioritized, StateWaiting, StateActive, StateWaitingChildren} {
		all(k, second(q.IDs(ctx, state, 0, 10)), second(q.Jobs(ctx, state, 0, 10)))
	}
}

// calls is how often each command has run since the last reset, from clients and from scripts.
func (k *kit) calls() map[string]int {
	k.t.Helper()

	text, err := k.r.Info(k.t.Context(), "commandstats").Result()
	k.must(err)

	n := map[string]int{}

	for name, stats := range infoFields(text) {
		var calls int
		if _, err := fmt.Sscanf(stats, "calls=%d", &calls); err == nil {
			n[name[len("cmdstat_"):]] = calls
		}
	}

	return n
}
