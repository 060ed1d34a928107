package claimcheck

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// Redemption is a redeemed claim.
type Redemption struct {
	protocol.Claim
	// RawParams is the claim's params verbatim, for the extractor; {} if absent.
	RawParams json.RawMessage
	// ParamsFault is set if params make no sense; it is permanent. Claim.Params is nil then. It is not an error of
	// the redemption, because the holder is needed to report it.
	ParamsFault *protocol.Fault
	// At is when the request was sent: the lease runs from here at the earliest.
	At time.Time
}

// Redeem redeems the claim of request.AnalysisID, with at most Limits.RequestTries tries. An error is a *ClaimError,
// or wraps ctx's cause.
func (c *Client) Redeem(ctx context.Context, request protocol.RedeemRequest) (*Redemption, error) {
	redemption := &Redemption{}
	err := c.call(ctx, call{
		operation: "redeem", analysisID: request.AnalysisID, body: request, conflict: KindHeld,
		accept: func(answer []byte, sent time.Time) error {
			claim, params, err := protocol.ParseClaim(answer, request.AnalysisID)
			*redemption = Redemption{Claim: claim, RawParams: params, ParamsFault: paramsFault(claim, params), At: sent}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return redemption, nil
}

// RedeemWithin is Redeem with one budget for all tries, for a caller who waits for the answer. When the budget is
// spent the error is a *ClaimError of KindUnavailable.
func (c *Client) RedeemWithin(ctx context.Context, request protocol.RedeemRequest, budget time.Duration) (*Redemption, error) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	return c.Redeem(ctx, request)
}

func paramsFault(claim protocol.Claim, raw json.RawMessage) *protocol.Fault {
	params, err := protocol.ParseParams(raw)
	if err == nil {
		err = params.Validate(claim.Clips)
	}
	if fault, ok := errors.AsType[*protocol.Fault](err); ok {
		return fault
	}
	return nil
}

// Renew prolongs the lease and returns how long it lasts, counted from when Renew was called. KindLost means that
// another holder has the claim, KindGone that nobody needs it any more: either way the work stops.
func (c *Client) Renew(ctx context.Context, request protocol.LeaseRequest) (time.Duration, error) {
	var lease time.Duration
	err := c.call(ctx, call{
		operation: "renew", analysisID: request.AnalysisID, suffix: "renew", body: request, conflict: KindLost,
		accept: func(answer []byte, _ time.Time) error {
			parsed, err := protocol.ParseLeaseAnswer(answer)
			lease = time.Duration(parsed.LeaseSeconds) * time.Second
			return err
		},
	})
	return lease, err
}

// Release gives the claim back. Every end that is not delivered sends it; when it fails, the lease runs out.
func (c *Client) Release(ctx context.Context, request protocol.LeaseRequest) error {
	return c.call(ctx, call{
		operation: "release", analysisID: request.AnalysisID, suffix: "release", body: request, conflict: KindLost,
		accept: func([]byte, time.Time) error { return nil },
	})
}

// opArtifact is the operation of Artifact.
const opArtifact = "artifact"

// Artifact asks for a presigned PUT of exactly the bytes that request describes.
func (c *Client) Artifact(ctx context.Context, request protocol.ArtifactRequest) (*protocol.ArtifactAnswer, error) {
	var target protocol.ArtifactAnswer
	err := c.call(ctx, call{
		operation: opArtifact, analysisID: request.AnalysisID, suffix: "artifact", body: request, conflict: KindLost,
		accept: func(answer []byte, _ time.Time) (err error) {
			target, err = protocol.ParseArtifactAnswer(answer)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return &target, nil
}

// call is one request to the control plane, up to its last try.
type call struct {
	operation, analysisID string
	// suffix is the last part of the path, empty for redeem.
	suffix string
	body   any
	// conflict is what a 409 means.
	conflict Kind
	// accept reads the body of a 2xx answer to a request that was sent at the given time.
	accept func(answer []byte, sent time.Time) error
}

func (c *Client) call(ctx context.Context, k call) error {
	err := c.tries(ctx, k)
	result := "ok"
	if e, ok := errors.AsType[*ClaimError](err); ok {
		result = string(e.Kind)
	} else if err != nil {
		result = "stopped"
	}
	c.observer.ClaimRequest(k.operation, result)
	return err
}

func (c *Client) tries(ctx context.Context, k call) error {
	body, err := json.Marshal(k.body)
	if err != nil {
		return fmt.Errorf("%s: %w", k.operation, err)
	}
	// The id goes into a path: anything else than an id would lead elsewhere.
	if err := protocol.ValidateID(k.analysisID); err != nil {
		return fmt.Errorf("%s: %w", k.operation, err)
	}
	for n := 0; ; n++ {
		failure := c.try(ctx, k, body)
		if failure == nil {
			return nil
		}
		if err := c.stoppedCall(ctx, k); err != nil {
			return err
		}
		if n+1 >= min(c.limits.RequestTries, failure.maxTries) {
			return failure.err
		}
		wait := waitAfter(failure.asked, n, c.limits.BackoffBase, min(c.limits.BackoffCap, maxRequestWait))
		if outlasts(ctx, wait) {
			return failure.err
		}
		c.log.DebugContext(ctx, "control plane request is tried again", slog.String("operation", k.operation),
			slog.String("analysis_id", k.analysisID), slog.Int("status", failure.err.Status),
			slog.String("kind", string(failure.err.Kind)), slog.Int64("wait_ms", wait.Milliseconds()))
		if !sleep(ctx, wait) {
			return c.stoppedCall(ctx, k)
		}
	}
}

// stoppedCall tells a plain deadline, which is how a caller says how long it can wait, from being told to stop.
func (c *Client) stoppedCall(ctx context.Context, k call) error {
	err := stopped(ctx, k.operation)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &ClaimError{
		Operation: k.operation, Kind: KindUnavailable,
		Fault: protocol.NewRetryableFault(protocol.CodeControlUnreachable, "the control plane did not answer in time").WithCause(err),
	}
}

// try does one signed request. Its message id is new each time: nothing remembers a try, the claim's epoch orders
// what arrives.
func (c *Client) try(ctx context.Context, k call, body []byte) *tryFailure {
	ctx, cancel := context.WithTimeout(ctx, c.limits.RequestTimeout)
	defer cancel()
	u := c.control.JoinPath("v1", "claims", k.analysisID, k.suffix)
	request := newRequest(ctx, "POST", u, bytes.NewReader(body))
	c.sign(request, newRequestID(), body)
	sent := time.Now()
	response, err := c.send(request, true)
	if err != nil {
		return k.unavailable(err)
	}
	defer discard(response.Body)
	c.observeClock(response)
	if response.StatusCode/100 != 2 {
		return k.refused(response)
	}
	answer, err := readAll(response.Body, maxAnswerBytes)
	if err != nil && !errors.Is(err, errTooLong) {
		return k.unavailable(err)
	}
	if err == nil {
		err = k.accept(answer, sent)
	}
	if err != nil {
		return k.badAnswer(response.StatusCode, "the control plane's answer has another shape", err)
	}
	return nil
}
