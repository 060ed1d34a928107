package claimcheck

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

const (
	// maxRequestWait caps what a control plane may ask for between two tries while somebody waits.
	maxRequestWait = 10 * time.Second
	// maxHeldWait caps the delay of a job whose claim another has; defaultHeldWait is used if none is named.
	maxHeldWait     = 10 * time.Minute
	defaultHeldWait = 30 * time.Second
	// refusedTries is what "briefly" means for 401 and 403: a secret or a clock is off, and seldom for seconds only.
	refusedTries = 3
)

// tryFailure is one try that failed: what to return if no other follows, and whether one may.
type tryFailure struct {
	err      *ClaimError
	maxTries int
	asked    time.Duration
}

func (k call) failure(kind Kind, status int, fault *protocol.Fault, maxTries int) *tryFailure {
	return &tryFailure{err: &ClaimError{Operation: k.operation, Kind: kind, Status: status, Fault: fault}, maxTries: maxTries}
}

func (k call) unavailable(err error) *tryFailure {
	fault := protocol.NewRetryableFault(protocol.CodeControlUnreachable,
		fmt.Sprintf("the control plane can't be reached: %s", networkReason(err))).WithCause(err)
	return k.failure(KindUnavailable, 0, fault, math.MaxInt)
}

func (k call) badAnswer(status int, why string, cause error) *tryFailure {
	fault := protocol.NewRetryableFault(protocol.CodeControlUnreachable, why).WithCause(cause)
	return k.failure(KindBadAnswer, status, fault, math.MaxInt)
}

// refused classifies an answer that is no 2xx.
func (k call) refused(response *http.Response) *tryFailure {
	status := response.StatusCode
	retryable := func(code protocol.Code, kind Kind, tries int) *tryFailure {
		fault := protocol.NewRetryableFault(code, fmt.Sprintf("the control plane answered %d to %s", status, k.operation))
		return k.failure(kind, status, fault, tries)
	}
	switch {
	case status == http.StatusNotFound:
		return k.failure(KindUnknown, status, protocol.NewFault(protocol.CodeUnknownAnalysis, "the control plane does not know the analysis"), 1)
	case status == http.StatusGone:
		return k.gone(response)
	case status == http.StatusConflict:
		return k.conflicting(response)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return retryable(protocol.CodeClaimRefused, KindRefused, refusedTries)
	case status == http.StatusRequestEntityTooLarge && k.operation == opArtifact:
		fault := protocol.NewFault(protocol.CodeUploadFailed, "the document is larger than the control plane takes")
		return k.failure(KindRejected, status, fault, 1)
	case isTransient(status):
		f := retryable(protocol.CodeControlUnreachable, KindUnavailable, math.MaxInt)
		f.asked = retryAfter(response.Header, time.Now(), maxRequestWait)
		return f
	case status/100 == 3:
		return k.badAnswer(status, "the control plane answered with a redirect, which is not followed", nil)
	default:
		return retryable(protocol.CodeClaimRefused, KindRefused, 1)
	}
}

func (k call) gone(response *http.Response) *tryFailure {
	reason := protocol.GoneDelivered
	if reasonOf(response) == protocol.GoneCancelled {
		reason = protocol.GoneCancelled
	}
	return k.goneFor(response.StatusCode, reason)
}

func (k call) goneFor(status int, reason protocol.GoneReason) *tryFailure {
	f := k.failure(KindGone, status, nil, 1)
	f.err.Reason = reason
	f.err.Fault = protocol.NewFault(protocol.CodeClaimGone, fmt.Sprintf("the analysis is %s", f.err.Reason))
	return f
}

// reasonOf is the reason in a problem document, or "".
func reasonOf(response *http.Response) protocol.GoneReason {
	body, err := readAll(response.Body, maxErrorBytes)
	var problem protocol.Problem
	if err != nil || json.Unmarshal(body, &problem) != nil {
		return ""
	}
	return problem.Reason
}

func (k call) conflicting(response *http.Response) *tryFailure {
	if k.conflict == KindLost {
		// Lost to nobody: it was decided meanwhile.
		if r := reasonOf(response); r == protocol.GoneCancelled || r == protocol.GoneDelivered {
			return k.goneFor(response.StatusCode, r)
		}
		return k.failure(KindLost, response.StatusCode, protocol.NewRetryableFault(protocol.CodeClaimLost, "the claim went to another holder"), 1)
	}
	f := k.failure(KindHeld, response.StatusCode, protocol.NewRetryableFault(protocol.CodeClaimHeld, "another holder has the claim"), 1)
	f.err.RetryAfter = max(retryAfter(response.Header, time.Now(), maxHeldWait), 0)
	if f.err.RetryAfter == 0 {
		f.err.RetryAfter = defaultHeldWait
	}
	return f
}

// isTransient tells the statuses that time heals.
func isTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= 500
	}
}

func newRequestID() string { return webhook.NewID("req") }

// observeClock reports how far the control plane's clock is from ours: signatures live by it.
func (c *Client) observeClock(response *http.Response) {
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return
	}
	skew := time.Until(at).Seconds()
	c.observer.ClockSkew(skew)
	if math.Abs(skew) > webhook.Tolerance.Seconds()/2 {
		c.log.Warn("the control plane's clock is far from this one: signatures will be refused", slog.Int64("skew_ms", int64(math.Round(1000*skew))))
	}
}
