package control_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// hand is a worker of the real queue whose handler belongs to the test.
type hand struct {
	*bundle
	redis *redistest.Server
	queue *queue.Queue
	// starts are what the redeem of each start was answered with.
	starts chan int
}

func newHand(t *testing.T) *hand {
	t.Helper()
	redis := redistest.Start(t)
	b := setup(t, func(c *control.Config) { c.RedisURL, c.Now, c.JobBackoff = redis.URL, nil, 10*time.Millisecond })
	b.clock.now = time.Now()

	return &hand{bundle: b, redis: redis, queue: b.openQueue(t), starts: make(chan int, 10)}
}

// work lets a worker take jobs until the test ends.
func (h *hand) work(t *testing.T, handler queue.Handler) {
	t.Helper()
	o := queue.DefaultWorkerOptions()
	o.Options = queue.Options{RedisURL: h.cfg.RedisURL, Prefix: h.cfg.Prefix, Name: h.cfg.Queue}
	o.StalledInterval = 200 * time.Millisecond
	w, err := queue.NewWorker(o, handler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }() // ends with stop
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// begin redeems for a start and tells what it was answered with.
func (h *hand) begin(t *testing.T, j *queue.Job, worker string) reply {
	t.Helper()
	got := h.post(t, "/v1/claims/"+j.ID, webhook.NewID("req"), redeemRequest(j.ID, worker, j.AttemptsStarted))
	h.starts <- got.status

	return got
}

// failForGood reports a failure and fails the job with it, as a worker does.
func (h *hand) failForGood(t *testing.T, j *queue.Job, worker string) (any, error) {
	t.Helper()
	got := h.begin(t, j, worker)
	if got.status == http.StatusGone {
		return nil, nil
	}
	c, _, err := protocol.ParseClaim(got.want(t, http.StatusOK, "").body, j.ID)
	if err != nil {
		return nil, err
	}
	h.report(t, c, failed(c)).want(t, http.StatusOK, "")

	return nil, queue.Unrecoverable(errors.New("invalid_media: The file is no clip."))
}

// wantStart waits for the next start and checks what it was told.
func (h *hand) wantStart(t *testing.T, status int) {
	t.Helper()
	select {
	case got := <-h.starts:
		if got != status {
			t.Fatalf("the start was answered with %d, want %d", got, status)
		}
	case <-time.After(3 * patience):
		t.Fatal("the job does not start")
	}
}

// wantEnd waits until the job has ended.
func (h *hand) wantEnd(t *testing.T, state queue.State) {
	t.Helper()
	wait.For(t, 3*patience, func() bool {
		s, err := h.queue.State(t.Context(), "an_1")

		return err == nil && s == state
	}, "the job is not %s", state)
}

// rounds is what became of the credit of each round.
func (h *hand) rounds(t *testing.T) string {
	t.Helper()
	v := decode[struct{ Credits []struct{ State string } }](t, h.api(t, http.MethodGet, "/v1/analyses/an_1", nil).want(t, http.StatusOK, ""))
	var all []string
	for _, c := range v.Credits {
		all = append(all, c.State)
	}

	return strings.Join(all, " ")
}

// A worker dies between the control plane's answer to its failure and the end of its job. The next start is told that the analysis is over:
// no round, no credit. A person who retries the job afterwards gets a round.
func TestFailureThatTheQueueNeverHeardOf(t *testing.T) {
	t.Parallel()
	h := newHand(t)
	h.submitted(t, "an_1")
	reported, mayEnd := make(chan struct{}), make(chan struct{})
	h.work(t, func(_ context.Context, j *queue.Job) (any, error) {
		_, err := h.failForGood(t, j, "w1")
		close(reported)
		<-mayEnd

		return nil, err
	})
	defer close(mayEnd)
	h.wantStart(t, http.StatusOK)
	<-reported
	// The worker is as good as dead: it does not renew before its lock, which goes now, is half over.
	if n, err := h.redis.Client().Del(t.Context(), "bull:pose:an_1:lock").Result(); err != nil || n != 1 {
		t.Fatalf("%d locks, %v", n, err)
	}
	h.work(t, func(_ context.Context, j *queue.Job) (any, error) { return h.failForGood(t, j, "w2") })
	h.wantStart(t, http.StatusGone)
	h.wantEnd(t, queue.StateCompleted)
	if got := h.rounds(t); got != "refunded" || h.status(t, "an_1") != "failed" {
		t.Errorf("rounds: %s, the analysis is %s", got, h.status(t, "an_1"))
	}

	if err := h.queue.Retry(t.Context(), "an_1"); err != nil {
		t.Fatal(err)
	}
	h.wantStart(t, http.StatusOK)
	h.wantEnd(t, queue.StateFailed)
	if got := h.rounds(t); got != "refunded refunded" {
		t.Errorf("rounds after a retry: %s", got)
	}
}

// A person retries a failed job in the queue, in each way that there is: each is a round.
func TestRetryInTheQueue(t *testing.T) {
	t.Parallel()
	h := newHand(t)
	h.submitted(t, "an_1")
	h.work(t, func(_ context.Context, j *queue.Job) (any, error) { return h.failForGood(t, j, "w1") })
	want := "refunded"
	for _, again := range []func() error{
		func() error { return h.queue.Retry(t.Context(), "an_1") },
		func() error {
			return h.queue.RetryWith(t.Context(), "an_1", queue.RetryOptions{ResetAttemptsMade: true})
		},
		func() error {
			return h.queue.RetryWith(t.Context(), "an_1", queue.RetryOptions{ResetAttemptsStarted: true})
		},
		func() error {
			return h.queue.RetryWith(t.Context(), "an_1", queue.RetryOptions{ResetAttemptsMade: true, ResetAttemptsStarted: true})
		},
		func() error {
			_, err := h.queue.RetryAll(t.Context(), queue.StateFailed, time.Now().Add(time.Minute))

			return err
		},
	} {
		h.wantStart(t, http.StatusOK)
		h.wantEnd(t, queue.StateFailed)
		if got := h.rounds(t); got != want {
			t.Fatalf("rounds: %s, want %s", got, want)
		}
		if err := again(); err != nil {
			t.Fatal(err)
		}
		want += " refunded"
	}
	h.wantStart(t, http.StatusOK)
	h.wantEnd(t, queue.StateFailed)
	if got := h.rounds(t); got != want {
		t.Errorf("rounds: %s, want %s", got, want)
	}
}

// The answers to a report are lost, the worker gives up for now, and the queue starts the job again: nobody wanted a round.
func TestFailureWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	h := newHand(t)
	h.submitted(t, "an_1")
	h.work(t, func(_ context.Context, j *queue.Job) (any, error) {
		if _, err := h.failForGood(t, j, "w1"); err != nil {
			return nil, errors.New("callback_unreachable: No answer.")
		}

		return nil, nil
	})
	h.wantStart(t, http.StatusOK)
	h.wantStart(t, http.StatusGone)
	h.wantEnd(t, queue.StateCompleted)
	if got := h.rounds(t); got != "refunded" {
		t.Errorf("rounds: %s", got)
	}
}

// Whether a later start is a person's retry can't be told without the queue: it is asked to come again.
func TestFailedWhileTheQueueCantBeAsked(t *testing.T) {
	t.Parallel()
	b := setup(t, nil) // its Redis is not there
	b.queued(t, "an_1")
	c := b.redeem(t, redeemRequest("an_1", "w1", 1))
	b.report(t, c, failed(c)).want(t, http.StatusOK, "")
	b.post(t, "/v1/claims/an_1", webhook.NewID("req"), redeemRequest("an_1", "w2", 2)).want(t, http.StatusServiceUnavailable, protocol.CodeInternal)
	b.post(t, "/v1/claims/an_1", webhook.NewID("req"), redeemRequest("an_1", "w2", 1)).want(t, http.StatusGone, protocol.CodeClaimGone)
}
