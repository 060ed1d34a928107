package control_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// patience is for what takes milliseconds on an idle machine.
const patience = time.Minute

// wantJob waits for the job of an analysis and checks that it is the contract's.
func wantJob(t *testing.T, q *queue.Queue, id string) {
	t.Helper()
	var j *queue.Job
	wait.For(t, patience, func() bool {
		var err error
		j, err = q.Job(t.Context(), id)
		if err != nil && !errors.Is(err, queue.ErrJobNotFound) {
			t.Log(err)
		}

		return err == nil
	}, "no job %s in the queue", id)
	if j.Name != protocol.JobName || string(j.Data) != `{"v":1,"analysisId":"`+id+`"}` || j.Opts.Attempts != 3 ||
		j.Opts.Backoff == nil || j.Opts.RemoveOnComplete != nil || j.Opts.RemoveOnFail != nil {
		t.Fatalf("%s %s %+v", j.Name, j.Data, j.Opts)
	}
}

// submitted creates, uploads and submits with dispatch by the queue.
func (b *bundle) submitted(t *testing.T, id string) {
	t.Helper()
	b.uploaded(t, id)
	b.api(t, http.MethodPost, "/v1/analyses/"+id+"/submit", map[string]string{"dispatch": "queue"}).want(t, http.StatusAccepted, "")
}

// Design row "0": the intent survives a Redis that is away and an end of the process, and is one job in the end.
func TestRelay(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	b := setup(t, func(c *control.Config) { c.RedisURL = redis.URL })
	q := b.openQueue(t)

	b.submitted(t, "an_1")
	wantJob(t, q, "an_1")

	redis.Kill()
	b.submitted(t, "an_2") // answered although Redis is away
	b.submitted(t, "an_3")
	b.stop()
	redis.Restart()
	b.clock.advance(time.Minute) // past the pause after a failure, if there was time for one
	b.start(t)
	wantJob(t, q, "an_2")
	wantJob(t, q, "an_3")

	// Submitting again and again adds nothing.
	for range 3 {
		b.api(t, http.MethodPost, "/v1/analyses/an_3/submit", nil).want(t, http.StatusAccepted, "")
	}
	b.submitted(t, "an_4")
	wantJob(t, q, "an_4")
	// The first went with the Redis that forgot it; its run may have found that out already.
	if n, err := q.Counts(t.Context()); err != nil || n.Waiting < 3 || n.Waiting > 4 {
		t.Fatalf("%+v, %v: an_2, an_3 and an_4 wait", n, err)
	}
	wait.For(t, patience, func() bool { return b.has(t, "an_4", "dispatched") }, "the timeline does not tell of the dispatch")
}

// has tells whether the timeline has an event of the kind.
func (b *bundle) has(t *testing.T, id, kind string) bool {
	t.Helper()
	a := decode[struct{ Timeline []struct{ Kind string } }](t, b.api(t, http.MethodGet, "/v1/analyses/"+id, nil).want(t, http.StatusOK, ""))
	for _, e := range a.Timeline {
		if e.Kind == kind {
			return true
		}
	}

	return false
}

// Redis comes back while the process goes on: the relay does not need a restart.
func TestRelayRedisComesBack(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	b := setup(t, func(c *control.Config) { c.RedisURL, c.Now = redis.URL, nil })
	b.clock.now = time.Now()
	q := b.openQueue(t)
	redis.Kill()
	b.submitted(t, "an_1")
	redis.Restart()
	wantJob(t, q, "an_1")
}

// httpRequest is a start through the HTTP door.
func httpRequest(id, worker string) protocol.RedeemRequest {
	return protocol.RedeemRequest{AnalysisID: id, WorkerID: worker, Source: protocol.SourceHTTP, JobID: id, Attempt: 1}
}

// An analysis that the HTTP door gives back goes to the queue, also if a job of it is there that has ended.
func TestInterruptedGoesToQueue(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	b := setup(t, func(c *control.Config) { c.RedisURL = redis.URL })
	q := b.openQueue(t)
	b.queued(t, "an_1")
	b.interrupt(t, "an_1", "w1")
	wantJob(t, q, "an_1")

	b.failJob(t, q, "an_1")
	b.interrupt(t, "an_1", "w2")
	wait.For(t, patience, func() bool {
		s, err := q.State(t.Context(), "an_1")

		return err == nil && s == queue.StateWaiting
	}, "the failed job does not wait again")
}

// interrupt redeems through the HTTP door and gives back.
func (b *bundle) interrupt(t *testing.T, id, worker string) {
	t.Helper()
	c := decode[protocol.Claim](t, b.post(t, "/v1/claims/"+id, webhook.NewID("req"), httpRequest(id, worker)).want(t, http.StatusOK, ""))
	r := failed(c)
	r.Type, r.Data.Error = protocol.ResultInterrupted, nil
	for range 2 {
		if got := b.report(t, c, r).want(t, http.StatusOK, ""); string(got.body) != "{}" {
			t.Errorf("interrupted: %s", got.body)
		}
	}
}

// failJob lets a worker take the job and fail it for good.
func (b *bundle) failJob(t *testing.T, q *queue.Queue, id string) {
	t.Helper()
	o := queue.DefaultWorkerOptions()
	o.Options = queue.Options{RedisURL: b.cfg.RedisURL, Prefix: b.cfg.Prefix, Name: b.cfg.Queue}
	w, err := queue.NewWorker(o, func(ctx context.Context, _ *queue.Job) (any, error) {
		return nil, queue.Unrecoverable(errors.New("no luck"))
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }() // ends with cancel
	wait.For(t, patience, func() bool {
		s, err := q.State(ctx, id)

		return err == nil && s == queue.StateFailed
	}, "the job does not fail")
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A worker of the HTTP door dies: the keeper gives its analysis to the queue when the lease has been over for a while.
func TestLapsedLeaseGoesToQueue(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	b := setup(t, func(c *control.Config) { c.RedisURL = redis.URL })
	q := b.openQueue(t)
	b.queued(t, "an_1")
	b.post(t, "/v1/claims/an_1", webhook.NewID("req"), httpRequest("an_1", "w1")).want(t, http.StatusOK, "")
	b.stop()
	b.clock.advance(10 * time.Minute)
	b.start(t) // the keeper looks at its start
	wantJob(t, q, "an_1")
	if !b.has(t, "an_1", "lease_lapsed") {
		t.Error("the timeline does not tell why")
	}
}

// A cancelled analysis whose dispatch is still in the outbox is not added any more.
func TestRelayCancelled(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	redis.Kill()
	b := setup(t, func(c *control.Config) { c.RedisURL = redis.URL })
	q := b.openQueue(t)
	b.submitted(t, "an_1")
	b.api(t, http.MethodPost, "/v1/analyses/an_1/cancel", nil).want(t, http.StatusAccepted, "")
	b.stop()
	redis.Restart()
	b.clock.advance(time.Minute)
	b.start(t)
	b.submitted(t, "an_2")
	wantJob(t, q, "an_2")
	if _, err := q.Job(t.Context(), "an_1"); !errors.Is(err, queue.ErrJobNotFound) {
		t.Fatalf("the job of a cancelled analysis: %v", err)
	}
}

// A person who sees the failure retries at once, when the failed job has not ended in the queue yet: it runs again all the same, and soon.
func TestRetryBeforeTheJobHasEnded(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	b := setup(t, func(c *control.Config) { c.RedisURL, c.Now = redis.URL, nil })
	b.clock.now = time.Now()
	q := b.openQueue(t)
	b.submitted(t, "an_1")

	reported, mayEnd, again := make(chan struct{}), make(chan struct{}), make(chan struct{})
	o := queue.DefaultWorkerOptions()
	o.Options = queue.Options{RedisURL: b.cfg.RedisURL, Prefix: b.cfg.Prefix, Name: b.cfg.Queue}
	w, err := queue.NewWorker(o, func(ctx context.Context, j *queue.Job) (any, error) {
		if j.AttemptsStarted > 1 {
			close(again)

			return nil, nil
		}
		c := b.redeem(t, protocol.RedeemRequest{AnalysisID: j.ID, WorkerID: "w1", Source: protocol.SourceQueue, JobID: j.ID, Attempt: 1})
		b.report(t, c, failed(c)).want(t, http.StatusOK, "")
		close(reported)
		<-mayEnd

		return nil, queue.Unrecoverable(errors.New("no luck"))
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }() // ends with cancel
	end := sync.OnceFunc(func() { close(mayEnd) })
	defer func() {
		end()
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()

	select {
	case <-reported:
	case <-time.After(patience):
		t.Fatal("the first start has not reported")
	}
	b.api(t, http.MethodPost, "/v1/analyses/an_1/retry", nil).want(t, http.StatusAccepted, "")
	wait.For(t, patience, func() bool { return strings.Contains(b.logs.String(), "the job of an earlier round runs") }, "the relay has not met the job")
	end()
	select {
	case <-again:
	case <-time.After(patience):
		s, err := q.State(t.Context(), "an_1")
		t.Fatalf("the job is %s, %v, and nobody works on the new round", s, err)
	}
}

// Bytes that are no text are at no path, whatever the database would say to them.
func TestPathThatIsNoText(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	for _, path := range []string{"/v1/analyses/a%00", "/v1/analyses/a%ff/events", "/analyses/a%00"} {
		b.api(t, http.MethodGet, path, nil).want(t, http.StatusNotFound, protocol.CodeNotFound)
	}
}
