package claimcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// Kind is the class of a refused or failed request to the control plane.
type Kind string

// Kinds. The comment says what a worker does after a redemption that ended so.
const (
	// KindUnknown is a 404: the job fails for good.
	KindUnknown Kind = "unknown"
	// KindGone is a 410, or a 409 of renew or artifact that gives a reason: the analysis is delivered or cancelled, the job completes with no
	// work.
	KindGone Kind = "gone"
	// KindHeld is a 409 of redeem: the job is delayed by RetryAfter, no attempt spent.
	KindHeld Kind = "held"
	// KindLost is a 409 of renew, release or artifact: the work stops at once.
	KindLost Kind = "lost"
	// KindRefused is a 401 or 403, or another refusal that time may heal: the attempt fails, retryable.
	KindRefused Kind = "refused"
	// KindRejected is an answer to artifact that no later try changes: the document is too large. The job fails for good.
	KindRejected Kind = "rejected"
	// KindUnavailable is a network fault, a 429 or a 5xx: the attempt fails, retryable.
	KindUnavailable Kind = "unavailable"
	// KindBadAnswer is a 2xx that is no answer, or a redirect: the attempt fails, retryable.
	KindBadAnswer Kind = "bad_answer"
)

// ClaimError is how a request to the control plane ended that did not succeed.
type ClaimError struct {
	// Operation is redeem, renew, release or artifact.
	Operation string
	Kind      Kind
	// Status is the last answer's, 0 if there was none.
	Status int
	// Reason is set with KindGone. An answer that gives no reason counts as delivered.
	Reason protocol.GoneReason
	// RetryAfter is set with KindHeld: from 1 s to 10 min, 30 s if the answer names no time.
	RetryAfter time.Duration
	// Fault has the code for the job; never nil.
	Fault *protocol.Fault
}

// Error returns the operation and the fault's text.
func (e *ClaimError) Error() string { return e.Operation + ": " + e.Fault.Error() }

// Unwrap returns the fault.
func (e *ClaimError) Unwrap() error { return e.Fault }

// networkReason puts a network error into words without its text, which may quote what a peer sent.
func networkReason(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, errIdle):
		return "the connection stood still"
	case errors.As(err, &dns):
		return "the host name was not found"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended early"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	default:
		return "the connection failed"
	}
}

// stopped returns the reason why ctx ended, wrapped, or nil if it goes on. It comes before any other verdict: what
// fails because somebody stopped it is nobody's fault.
func stopped(ctx context.Context, operation string) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", operation, context.Cause(ctx))
}
