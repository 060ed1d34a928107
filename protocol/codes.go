package protocol

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
	CodeNoCredit         Code = "no_credit"
)

// CodeInfo says what a code means. Retryable is the usual verdict of whoever raises it; what counts for a job is
// the Retryable of the Fault at hand.
type CodeInfo struct {
	Code      Code   `json:"code"`
	Retryable bool   `json:"retryable"`
	Meaning   string `json:"meaning"`
}

// Codes returns the table of all codes, in the order of the groups above.
func Codes() []CodeInfo {
	return []CodeInfo{
		{CodeEmptyFile, false, "the clip has no bytes"},
		{CodeInvalidMedia, false, "the clip is not media that can be read"},
		{CodeNoVideoStream, false, "the clip has no video in it"},
		{CodeImageNotVideo, false, "the clip is a picture"},
		{CodeUnsupportedCodec, false, "the clip's codec is not supported"},
		{CodeTooLarge, false, "the picture has too many pixels"},
		{CodeTooLong, false, "the clip lasts too long"},
		{CodeInputTooLarge, false, "the clips have more bytes than are allowed"},
		{CodeInputMismatch, false, "the stored object is not the one that the claim describes"},
		{CodeInputMissing, false, "the stored object does not exist"},
		{CodeInputForbidden, true, "storage refused the URL, also a fresh one"},
		{CodeInputUnreachable, true, "storage could not be read to the end"},
		{CodeUploadFailed, true, "the artifact could not be stored"},
		{CodeExtractorCrashed, true, "the extractor ended or spoke nonsense"},
		{CodeExtractorTimeout, true, "the extractor took too long"},
		{CodeExtractorFailed, true, "the extractor reported a fault without a code"},
		{CodeUnsupportedVersion, false, "the job's version is not known"},
		{CodeInvalidJob, false, "the job's data is no claim check"},
		{CodeInvalidID, false, "the analysis id can't be one"},
		{CodeUnknownAnalysis, false, "the control plane does not know the analysis"},
		{CodeClaimHeld, true, "another holder has the claim"},
		{CodeClaimGone, false, "the analysis is delivered or cancelled"},
		{CodeClaimLost, true, "the claim went to another holder"},
		{CodeClaimRefused, true, "the control plane refused the worker's signature"},
		{CodeControlUnreachable, true, "the control plane gave no usable answer"},
		{CodeCallbackUnreachable, true, "the result could not be posted"},
		{CodeResultRefused, false, "the callback refused the result for good"},
		{CodeHostNotAllowed, false, "a URL's host is not on the allow-list or leads to an internal address"},
		{CodeJobTimeout, true, "the attempt took too long"},
		{CodeLockLost, true, "the queue's lock was lost"},
		{CodeInterrupted, true, "the worker is stopping"},
		{CodeDiskFull, true, "the worker has no room for the clips"},
		{CodeInternal, true, "an unexpected error"},
		{CodeWorkerBusy, true, "all slots are taken"},
		{CodeWorkerDraining, true, "the worker is stopping"},
		{CodeWorkerStarting, true, "the worker is not ready yet"},
		{CodeUnauthorized, false, "the signature is missing or not valid"},
		{CodeUnsupportedMedia, false, "the content type is not supported"},
		{CodeInvalidRequest, false, "the request's content is not valid"},
		{CodeRequestTooLarge, false, "the request's body is too large"},
		{CodeNotFound, false, "there is nothing under this address"},
		{CodeMethodNotAllowed, false, "the method is not allowed here"},
		{CodeConflict, false, "the request does not fit the present state"},
		{CodeNoCredit, false, "the account has no credit left"},
	}
}

// Retryable is the usual verdict on a code; a code that is not in the table, such as one of a foreign extractor,
// is retryable.
func (c Code) Retryable() bool {
	for _, info := range Codes() {
		if info.Code == c {
			return info.Retryable
		}
	}
	return true
}

// IsMediaFault tells whether c blames the clip: another attempt with the same clip can't succeed.
func (c Code) IsMediaFault() bool {
	switch c {
	case CodeEmptyFile, CodeInvalidMedia, CodeNoVideoStream, CodeImageNotVideo, CodeUnsupportedCodec, CodeTooLarge,
		CodeTooLong, CodeInputTooLarge, CodeInputMismatch, CodeInputMissing:
		return true
	default:
		return false
	}
}
