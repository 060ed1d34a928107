package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// diffGo is this package's side.
type diffGo struct {
	ctx  context.Context
	q    *Queue
	w    *Worker
	held map[string]*hold
	last diffAnswer
}

func newDiffGo(t *testing.T, url string) *diffGo {
	t.Helper()

	o := DefaultWorkerOptions()
	o.RedisURL, o.Name = url, "q"
	o.WorkerName, o.MetricsPoints = "w", 60
	o.LockDuration, o.LockRenewTime = 10*time.Hour, time.Hour

	q, err := NewQueue(o.Options)
	if err != nil {
		t.Fatal(err)
	}

	w, err := NewWorker(o, func(context.Context, *Job) (any, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}

	return &diffGo{ctx: t.Context(), q: q, w: w, held: map[string]*hold{}}
}

func (g *diffGo) close() {
	g.reset()
	g.w.disconnect()
	_ = g.q.Close()
}

func (g *diffGo) reset() {
	for token, h := range g.held {
		g.w.held.drop(h)
		delete(g.held, token)
	}
}

func (g *diffGo) do(s diffStep) diffAnswer {
	value, err := g.run(s)

	g.last = diffAnswer{OK: value}
	if err != nil {
		g.last = diffAnswer{Fault: err.Error()}
	}

	return g.last
}

func (g *diffGo) run(s diffStep) (any, error) {
	if s.Token != "" {
		return g.work(s)
	}

	if value, err, known := g.steer(s); known {
		return value, err
	}

	return g.read(s)
}

// work are the steps of a worker.
func (g *diffGo) work(s diffStep) (any, error) {
	if s.Op == "take" {
		return g.take(s.Token)
	}

	h := g.held[s.Token]
	delete(g.held, s.Token)

	defer g.w.held.drop(h)

	switch s.Op {
	case "complete":
		return true, g.w.finish(h, keyCompleted, s.Data, keepRule(h.job.Opts.RemoveOnComplete, nil), nil)
	case "fail":
		err := errors.New(s.Text)
		if s.Flag {
			err = Unrecoverable(err)
		}

		return ended(g.w.fail(h, err))
	case "later":
		return ended(g.w.delay(h, time.Duration(s.N)*time.Millisecond))
	case "back":
		// Without the wake-up that PutBack adds for prioritised jobs, of which BullMQ wakes nobody.
		_, err := g.w.scripts.putback.code(g.ctx, g.w.client, g.w.keys, h.job.ID, h.job.ID, h.token, "")

		return true, err
	}

	return nil, fmt.Errorf("unknown step %s", s.Op)
}

func (g *diffGo) take(token string) (any, error) {
	reply, err := newFetcher(g.w).take(g.ctx, token, 1)
	if err != nil || len(reply.jobs) == 0 {
		return "", err
	}

	h, err := g.w.holdTaken(g.ctx, &reply.jobs[0], token, time.Now())
	g.held[token] = h

	return h.job.ID, err
}

func ended(o Outcome) (any, error) {
	switch o {
	case OutcomeLost, OutcomeRemoved, OutcomeUnwritten:
		return nil, fmt.Errorf("outcome %s", o)
	default:
		return true, nil
	}
}

// steer are the steps that change jobs or the queue from outside.
func (g *diffGo) steer(s diffStep) (value any, err error, known bool) {
	ctx, q := g.ctx, g.q
	value = true

	switch s.Op {
	case "add":
		var added Added
		added, err = q.Add(ctx, "n", s.Data, s.options)
		value = added.ID
	case "bulk":
		value, err = g.bulk(s.Jobs)
	case "progress", "data":
		err = g.edit(s)
	case "log":
		_, err = q.AddLog(ctx, s.ID, s.Text, 2)
	case "priority":
		err = q.ChangePriority(ctx, s.ID, int(s.N), s.Flag)
	case "redelay":
		err = q.ChangeDelay(ctx, s.ID, time.Duration(s.N)*time.Millisecond)
	case "promote":
		err = q.Promote(ctx, s.ID)
	case "promoteAll":
		_, err = q.PromoteAll(ctx)
	case "retry":
		err = q.RetryWith(ctx, s.ID, RetryOptions{ResetAttemptsMade: s.Flag, ResetAttemptsStarted: s.Flag})
	case "retryAll":
		_, err = q.RetryAll(ctx, State(s.State), time.Time{})
	case "remove":
		value = 1
		if err = q.Remove(ctx, s.ID); errors.Is(err, ErrJobLocked) {
			value, err = 0, nil
		}
	case "drain":
		_, err = q.Drain(ctx, s.Flag)
	case "clean":
		value, err = q.Clean(ctx, time.Duration(s.N)*time.Millisecond, s.Limit, State(s.State))
	default:
		return g.rule(s)
	}

	return value, err, true
}

// rule are the steps that set the queue as a whole.
func (g *diffGo) rule(s diffStep) (value any, err error, known bool) {
	ctx, q := g.ctx, g.q

	switch s.Op {
	case "pause":
		err = q.Pause(ctx)
	case "resume":
		err = q.Resume(ctx)
	case "obliterate":
		err = q.Obliterate(ctx, s.Flag)
	case "concurrency":
		if s.N == 0 {
			err = q.RemoveGlobalConcurrency(ctx)
		} else {
			err = q.SetGlobalConcurrency(ctx, int(s.N))
		}
	case "rate":
		if s.N == 0 {
			err = q.RemoveGlobalRateLimit(ctx)
		} else {
			err = q.SetGlobalRateLimit(ctx, Limiter{Max: int(s.N), Duration: 10 * time.Hour})
		}
	case "unlimit":
		err = q.RemoveRateLimit(ctx)
	case "stalled":
		_, err = g.w.runStalled(ctx, false)
	default:
		return nil, nil, false
	}

	return true, err, true
}

func (g *diffGo) bulk(steps []diffStep) (any, error) {
	jobs := make([]NewJob, len(steps))
	for i, s := range steps {
		jobs[i] = NewJob{Name: "n", Data: s.Data, Opts: s.options}
	}

	added, err := g.q.AddBulk(g.ctx, jobs)
	ids := make([]string, len(added))

	for i, a := range added {
		ids[i] = a.ID
	}

	return ids, err
}

func (g *diffGo) edit(s diffStep) error {
	if s.Op == "data" {
		return g.q.UpdateData(g.ctx, s.ID, s.Data)
	}

	j, err := g.q.Job(g.ctx, s.ID)
	if err != nil {
		return err
	}

	return j.UpdateProgress(g.ctx, s.Data)
}

// read are the steps that only look.
func (g *diffGo) read(s diffStep) (any, error) {
	switch s.Op {
	case "state":
		return g.q.State(g.ctx, s.ID)
	case "list":
		jobs, err := g.q.Jobs(g.ctx, State(s.State), 0, 100)
		ids := make([]string, len(jobs))

		for i, j := range jobs {
			ids[i] = j.ID
		}

		return ids, err
	case "perPriority":
		n, err := g.q.CountsPerPriority(g.ctx, 0, 1, 2, 3)

		return n, err
	case "metrics":
		m, err := g.q.Metrics(g.ctx, State(s.State), 0, 0)
		flat := []int64{m.Count, 0, m.Before}

		if !m.Since.IsZero() {
			flat[1] = m.Since.UnixMilli()
		}

		return append(flat, m.Points...), err
	}

	return nil, fmt.Errorf("unknown step %s", s.Op)
}
