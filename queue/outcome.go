package queue

import (
	"fmt"
	"time"
)

// What a handler returns decides what happens to its job: nil completes it; the errors below do what they say, however deeply they are
// wrapped; any other error is a failed attempt, repeated as the job's options allow.

// UnrecoverableError fails the job for good, whatever attempts are left.
type UnrecoverableError struct{ Err error }

// Unrecoverable marks err as final.
func Unrecoverable(err error) error { return &UnrecoverableError{Err: err} }

// Error implements error: the text of the reason alone, since it becomes the job's failedReason.
func (e *UnrecoverableError) Error() string { return text(e.Err, "unrecoverable") }

// Unwrap gives the reason.
func (e *UnrecoverableError) Unwrap() error { return e.Err }

// DelayError puts the job off without spending an attempt.
type DelayError struct {
	Delay time.Duration
	Err   error
}

// DelayFor puts the job off by d because of err, which is only logged.
func DelayFor(d time.Duration, err error) error { return &DelayError{Delay: max(d, 0), Err: err} }

// Error implements error.
func (e *DelayError) Error() string {
	return fmt.Sprintf("put off by %v: %s", e.Delay, text(e.Err, "no reason"))
}

// Unwrap gives the reason.
func (e *DelayError) Unwrap() error { return e.Err }

// PutBackError gives the job back to the front of the queue without spending an attempt.
type PutBackError struct{ Err error }

// PutBack gives the job back because of err, which is only logged. Any worker can take it at once.
func PutBack(err error) error { return &PutBackError{Err: err} }

// Error implements error.
func (e *PutBackError) Error() string { return "put back: " + text(e.Err, "no reason") }

// Unwrap gives the reason.
func (e *PutBackError) Unwrap() error { return e.Err }

// PanicError is the failed attempt of a handler that panicked.
type PanicError struct {
	Value any
	Stack string
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

func text(err error, otherwise string) string {
	if err == nil {
		return otherwise
	}

	return err.Error()
}

// RateLimitError says that what the handler needs allows no more calls for now.
type RateLimitError struct {
	Pause time.Duration
	Err   error
}

// RateLimitFor gives the job back to the front of the queue without spending an attempt and takes none for that long. Workers with a
// Limiter, or all workers of a queue with a global rate limit, pause too; see Queue.RateLimit. With a pause of 0 a limit that was set
// elsewhere counts. err is only logged.
func RateLimitFor(pause time.Duration, err error) error {
	return &RateLimitError{Pause: max(pause, 0), Err: err}
}

// Error implements error.
func (e *RateLimitError) Error() string { return "rate limited: " + text(e.Err, "no reason") }

// Unwrap gives the reason.
func (e *RateLimitError) Unwrap() error { return e.Err }
