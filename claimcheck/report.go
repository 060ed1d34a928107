package claimcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// ReportOutcome is how the callback took a result. All of them end the job as done.
type ReportOutcome string

// Outcomes of a report; the values are also those of the metric.
const (
	// ReportStored is a 2xx.
	ReportStored ReportOutcome = "stored"
	// ReportAlreadyDelivered is a 2xx that says so: an earlier try, or another start, was stored.
	ReportAlreadyDelivered ReportOutcome = "already_delivered"
	// ReportConceded is a 409: another start has won.
	ReportConceded ReportOutcome = "conceded"
	// ReportGone is a 410: nobody wants the result.
	ReportGone ReportOutcome = "gone"
)

const (
	// maxResultWait caps what a callback may ask for between two tries.
	maxResultWait = 60 * time.Second
	// redirectTries is how often a callback may redirect: that is a fault of its configuration.
	redirectTries = 2
)

var errBudget = errors.New("the time for reporting is spent")

// Report posts body to the callback, signed anew for each try under the same id, until it is answered for good or
// the bounds are reached (Limits.ResultTries, Limits.ResultBudget). The error is a permanent fault
// (protocol.CodeResultRefused, protocol.CodeHostNotAllowed) after which nothing more is to be posted, or a retryable
// one (protocol.CodeCallbackUnreachable); if ctx ended it wraps ctx's cause.
func (c *Client) Report(ctx context.Context, callback, id string, body []byte) (ReportOutcome, error) {
	u, err := c.callback.check(callback)
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	if len(body) > protocol.MaxResultBytes {
		return "", fmt.Errorf("report: %w", protocol.NewFault(protocol.CodeResultRefused,
			fmt.Sprintf("the result has more than %d bytes", protocol.MaxResultBytes)))
	}
	r := report{c: c, url: u, id: id, body: body}
	return r.run(ctx)
}

// report is one result on its way.
type report struct {
	c    *Client
	url  *url.URL
	id   string
	body []byte
}

// reply is one try's end: an outcome, a permanent fault, or another try.
type reply struct {
	outcome ReportOutcome
	fault   *protocol.Fault
	// what and asked are for the next try, of which there are at most maxTries in all.
	what     string
	asked    time.Duration
	maxTries int
	cause    error
}

func (r report) run(parent context.Context) (ReportOutcome, error) {
	limits := r.c.limits
	ctx, cancel := context.WithTimeoutCause(parent, limits.ResultBudget, errBudget)
	defer cancel()
	for n := 0; ; n++ {
		answer := r.try(ctx)
		if answer.outcome != "" {
			r.c.observer.CallbackTry(string(answer.outcome))
			return answer.outcome, nil
		}
		if err := stopped(parent, "report"); err != nil {
			return "", err
		}
		if answer.fault != nil {
			r.c.observer.CallbackTry("refused")
			return "", fmt.Errorf("report: %w", answer.fault)
		}
		r.c.observer.CallbackTry("retried")
		wait := waitAfter(answer.asked, n, limits.BackoffBase, limits.BackoffCap)
		if n+1 >= min(limits.ResultTries, answer.maxTries) || outlasts(ctx, wait) {
			return "", fmt.Errorf("report: %w", r.unreachable(n+1, answer))
		}
		r.c.log.InfoContext(ctx, "the result is posted again", slog.String("webhook_id", r.id), slog.Int("try", n+1),
			slog.String("what", answer.what), slog.Int64("wait_ms", wait.Milliseconds()))
		if !sleep(ctx, wait) {
			return "", stopped(parent, "report")
		}
	}
}

func (r report) unreachable(tries int, last reply) error {
	return protocol.NewRetryableFault(protocol.CodeCallbackUnreachable,
		fmt.Sprintf("the result could not be posted in %d tries: %s", tries, last.what)).WithCause(last.cause)
}

func (r report) try(ctx context.Context) reply {
	ctx, cancel := context.WithTimeout(ctx, r.c.limits.ResultTimeout)
	defer cancel()
	request := newRequest(ctx, http.MethodPost, r.url, bytes.NewReader(r.body))
	r.c.sign(request, r.id, r.body)
	response, err := r.c.send(request, r.c.callback.trusted(r.url))
	if errors.Is(err, errAddress) {
		return reply{fault: protocol.NewFault(protocol.CodeHostNotAllowed,
			"the callback URL is not allowed: its host resolves to an internal address").WithCause(err)}
	}
	if err != nil {
		return reply{what: networkReason(err), maxTries: math.MaxInt, cause: err}
	}
	defer discard(response.Body)
	return readReply(response)
}

// readReply classifies the callback's answer. A 2xx counts whatever its body says: the receiver has acted.
func readReply(response *http.Response) reply {
	status := response.StatusCode
	what := fmt.Sprintf("status %d", status)
	switch {
	case status/100 == 2:
		return reply{outcome: storedOutcome(response)}
	case status == http.StatusConflict:
		return reply{outcome: ReportConceded}
	case status == http.StatusGone:
		return reply{outcome: ReportGone}
	case status == http.StatusBadRequest, status == http.StatusNotFound,
		status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		return reply{fault: protocol.NewFault(protocol.CodeResultRefused, "the callback refused the result: "+what)}
	case status/100 == 3:
		return reply{what: what + ", a redirect, which is not followed", maxTries: redirectTries}
	default:
		asked := retryAfter(response.Header, time.Now(), maxResultWait)
		return reply{what: what, asked: asked, maxTries: math.MaxInt}
	}
}

func storedOutcome(response *http.Response) ReportOutcome {
	var answer protocol.ResultAnswer
	body, err := readAll(response.Body, maxErrorBytes)
	if err == nil && json.Unmarshal(body, &answer) == nil && answer.AlreadyDelivered {
		return ReportAlreadyDelivered
	}
	return ReportStored
}
