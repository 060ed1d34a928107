package protocol

import (
	"errors"
	"fmt"
)

// Fault is an error with a code. Message is one sentence for people and holds no secret and no URL query.
type Fault struct {
	Code      Code
	Message   string
	Retryable bool
	// Cause is kept for errors.Is and for local debugging; it is never sent or stored.
	Cause error
}

// NewFault returns a permanent fault.
func NewFault(code Code, message string) *Fault { return &Fault{Code: code, Message: message} }

// NewRetryableFault returns a fault that another attempt may heal.
func NewRetryableFault(code Code, message string) *Fault {
	return &Fault{Code: code, Message: message, Retryable: true}
}

// Error returns "code: sentence", the form of a job's failedReason.
func (f *Fault) Error() string { return fmt.Sprintf("%s: %s", f.Code, f.Message) }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

// WithCause returns a copy of f that wraps err.
func (f *Fault) WithCause(err error) *Fault {
	g := *f
	g.Cause = err
	return &g
}

// AsFault returns the first Fault in err's chain; any other error becomes a retryable CodeInternal fault, since
// an error that nobody classified is no proof that the clip is at fault.
func AsFault(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return &Fault{Code: CodeInternal, Message: "an unexpected error", Retryable: true, Cause: err}
}
