package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

const (
	// doorTimeout bounds one request to the door, which answers once the claim is redeemed. Others go meanwhile; an answer that comes later is
	// repeated at the next try.
	doorTimeout = 10 * time.Second
	// doorLeast and doorMost bound what Retry-After may ask for.
	doorLeast = time.Second
	doorMost  = 2 * time.Minute
	// doorBusy is the pause where a door that is full or closing does not name one.
	doorBusy = 5 * time.Second
)

// errDoorRefuses: the worker and we do not speak of the same analyses, or not in the same way. No pause mends that by itself.
var errDoorRefuses = errors.New("the worker's door refuses the analysis")

// door posts analyses to the HTTP door of a worker, or of several behind one address.
//
//	answer                              what it means                         then
//	202                                 the worker is at it                   done
//	200                                 it ended there a moment ago           done: the result was reported. A round that a person has begun
//	                                                                          since can't be told to that worker: it goes to the queue
//	409                                 somebody else has it                  done: the holder reports, or its lease runs out
//	410                                 delivered or cancelled                done
//	404 unknown_analysis                the worker asks another control plane  the round fails: nobody there can ever work on it
//	429, 503                            no slot; starting, stopping, cut off  again after Retry-After
//	anything else, no answer            a fault on the way or in the setup    again, each pause twice as long
//
// A lost answer is no fault: the same analysis is answered with 202 where it runs, and refused with 409 elsewhere.
type door struct {
	store  store.Store
	url    string
	signer *webhook.Signer
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
	// queue is where an analysis goes whose former round the worker has just ended.
	queue func(ctx context.Context, id string) error
}

func newDoor(s store.Store, cfg *Config, queue func(context.Context, string) error, log *slog.Logger) *door {
	return &door{
		queue: queue, store: s, url: cfg.DoorURL, signer: webhook.NewSigner(cfg.DoorSecrets), now: cfg.Now, log: log,
		client: &http.Client{
			Timeout: doorTimeout,
			// A redirect would carry a signed request to an address that nobody configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// dispatch posts the analysis of an outbox entry.
func (d *door) dispatch(ctx context.Context, e store.OutboxEntry) error {
	a, err := d.store.Analysis(ctx, e.AnalysisID)
	if err != nil {
		return err
	}
	if a.Status != store.StatusQueued || a.Round != e.Round {
		return nil
	}
	if d.url == "" {
		return errors.New("POSEFLEET_DOOR_URL is not set any more, and the analysis was to go by HTTP")
	}
	response, err := d.post(ctx, a.ID)
	if err != nil {
		return fmt.Errorf("post to the door: %w", withoutURL(err))
	}
	defer response.Body.Close()

	return d.answered(ctx, a, response)
}

func (d *door) post(ctx context.Context, id string) (*http.Response, error) {
	body, err := json.Marshal(protocol.NewJobData(id))
	if err != nil {
		return nil, err
	}

	// An id of its own for each try: the door repeats its answer to one it knows, and a full one may have a slot by now.
	return d.send(ctx, d.url, webhook.NewID("dsp"), body)
}

// send posts a signed message to an address of the door.
func (d *door) send(ctx context.Context, address, id string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, errDoorURL
	}
	r.Header = d.signer.Header(id, d.now(), body)
	r.Header.Set("Content-Type", "application/json")

	return d.client.Do(r)
}

// errDoorURL stands for errors that would quote the address.
var errDoorURL = errors.New("the address of the door can't be used")

func (d *door) answered(ctx context.Context, a store.Analysis, r *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	var problem protocol.Problem
	_ = json.Unmarshal(text, &problem)
	d.log.InfoContext(ctx, "dispatched to the door", slog.String("analysis_id", a.ID), slog.Int("status", r.StatusCode),
		slog.String("worker_id", r.Header.Get("X-Worker-Id")), slog.String("code", string(problem.Code)))
	switch r.StatusCode {
	case http.StatusAccepted, http.StatusConflict, http.StatusGone:
		return nil
	case http.StatusOK:
		return d.ended(ctx, a)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return &laterError{after: retryAfter(r.Header), why: fmt.Sprintf("the door answered %d", r.StatusCode)}
	case http.StatusNotFound:
		if problem.Code == protocol.CodeUnknownAnalysis {
			return d.refused(ctx, a)
		}
	}

	return fmt.Errorf("%w with %d %s", errDoorRefuses, r.StatusCode, problem.Code)
}

// ended follows an answer that tells how the analysis ended. If that was not this round, which is as open as it was, the worker answers so for as
// long as it remembers; the queue tells one start from another.
func (d *door) ended(ctx context.Context, a store.Analysis) error {
	now, err := d.store.Analysis(ctx, a.ID)
	if err != nil || now.Status != store.StatusQueued || now.Round != a.Round {
		return err
	}

	return d.queue(ctx, a.ID)
}

// refused ends the round: the worker redeems its claims elsewhere.
func (d *door) refused(ctx context.Context, a store.Analysis) error {
	_, err := d.store.FailRun(ctx, store.RunKey{AnalysisID: a.ID, Round: a.Round}, protocol.CodeUnknownAnalysis,
		"the worker's control plane does not know the analysis")

	return err
}

// retryAfter reads the pause that the door asks for, in seconds.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil {
		return doorBusy
	}

	return min(max(time.Duration(seconds)*time.Second, doorLeast), doorMost)
}
