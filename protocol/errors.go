package protocol

import (
	"errors"
	"fmt"
)

// Code is a machine-readable error code. Codes are part of the contract: they appear in problem documents, in
// pose.failed results and, as "code: sentence", in a job's failedReason.
type Code string

// Codes of media faults that can't heal: the same clip gives the same answer.
const (
	CodeEmptyFile        Code = "empty_file"
	CodeInvalidMedia     Code = "invalid_media"
	CodeNoVideoStream    Code = "no_video_stream"
	CodeImageNotVideo    Code = "image_not_video"
	CodeUnsupportedCodec Code = "unsupported_codec"
	CodeTooLarge         Code = "too_large"
	CodeTooLong          Code = "too_long"
	CodeInputTooLarge    Code = "input_too_large"
	CodeInputMismatch    Code = "input_mismatch"
	CodeInputMissing     Code = "input_missing"
)

// Codes of faults of the transfer that may heal with fresh URLs or with time.
const (
	CodeInputForbidden   Code = "input_forbidden"
	CodeInputUnreachable Code = "input_unreachable"
	CodeUploadFailed     Code = "upload_failed"
)

// Codes of the extractor process.
const (
	CodeExtractorCrashed Code = "extractor_crashed"
	CodeExtractorTimeout Code = "extractor_timeout"
	CodeExtractorFailed  Code = "extractor_failed"
)

// Codes of claims, results and jobs.
const (
	CodeUnsupportedVersion  Code = "unsupported_version"
	CodeInvalidJob          Code = "invalid_job"
	CodeInvalidID           Code = "invalid_id"
	CodeUnknownAnalysis     Code = "unknown_analysis"
	CodeClaimHeld           Code = "claim_held"
	CodeClaimGone           Code = "claim_gone"
	CodeClaimLost           Code = "claim_lost"
	CodeClaimRefused        Code = "claim_refused"
	CodeControlUnreachable  Code = "control_unreachable"
	CodeCallbackUnreachable Code = "callback_unreachable"
	CodeResultRefused       Code = "result_refused"
	CodeHostNotAllowed      Code = "host_not_allowed"
	CodeJobTimeout          Code = "job_timeout"
	CodeLockLost            Code = "lock_lost"
	CodeInterrupted         Code = "interrupted"
	CodeDiskFull            Code = "disk_full"
	CodeInternal            Code = "internal"
)

// Codes of the HTTP surfaces.
const (
	CodeWorkerBusy       Code = "worker_busy"
	CodeWorkerDraining   Code = "worker_draining"
	CodeWorkerStarting   Code = "worker_starting"
	CodeUnauthorized     Code = "unauthorized"
	CodeUnsupportedMedia Code = "unsupported_media_type"
	CodeInvalidRequest   Code = "invalid_request"
	CodeRequestTooLarge  Code = "request_too_large"
	CodeNotFound         Code = "not_found"
	CodeMethodNotAllowed Code = "method_not_allowed"
	CodeConflict         Code = "conflict"
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
