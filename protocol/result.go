package protocol

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// MaxResultBytes is the largest result body: the points are in storage, the result only names them.
const MaxResultBytes = 20 * 1024

// maxMessageBytes is what is left of an error's message in a result that is too long.
const maxMessageBytes = 1024

// ResultType is the kind of a result message.
type ResultType string

// Result types.
const (
	ResultCompleted   ResultType = "pose.completed"
	ResultFailed      ResultType = "pose.failed"
	ResultInterrupted ResultType = "pose.interrupted"
)

// Result is the message to the callback. Its bytes are the same on every try.
type Result struct {
	Type      ResultType `json:"type"`
	Timestamp time.Time  `json:"timestamp"`
	Data      ResultData `json:"data"`
}

// ResultData carries the ids in the signed body, since the URL is not signed.
type ResultData struct {
	AnalysisID string       `json:"analysisId"`
	Claim      string       `json:"claim"`
	Epoch      int64        `json:"epoch"`
	Attempt    int          `json:"attempt"`
	WorkerID   string       `json:"workerId"`
	Artifact   *Artifact    `json:"artifact,omitempty"`
	Model      *Model       `json:"model,omitempty"`
	Clips      []ResultClip `json:"clips,omitempty"`
	Timings    *Timings     `json:"timings,omitempty"`
	Error      *ResultError `json:"error,omitempty"`
}

// ResultClip sums up one clip. Width and Height are of the upright picture in pixels; Quality is the extractor's.
type ResultClip struct {
	ID         string          `json:"id"`
	Frames     int             `json:"frames"`
	Width      int             `json:"width"`
	Height     int             `json:"height"`
	DurationMs float64         `json:"durationMs"`
	Quality    json.RawMessage `json:"quality,omitempty"`
}

// ResultError is the reason of a pose.failed.
type ResultError struct {
	Code      Code   `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

// Timings are the wall times of the stages in ms; a stage that did not run is 0.
type Timings struct {
	RedeemMs   int64 `json:"redeemMs"`
	DownloadMs int64 `json:"downloadMs"`
	ExtractMs  int64 `json:"extractMs"`
	UploadMs   int64 `json:"uploadMs"`
}

// MarshalResult returns the bytes to sign and send, at most MaxResultBytes. Too long a result first loses the
// clips' quality, which the artifact holds as well, then the end of the error's message. r is not changed. What is
// too long even then, or lacks what its type needs, is an error.
func MarshalResult(r Result) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(r)
	if err != nil || len(body) <= MaxResultBytes {
		return body, err
	}
	r.Data.Clips = withoutQuality(r.Data.Clips)
	if body, err = json.Marshal(r); err != nil || len(body) <= MaxResultBytes {
		return body, err
	}
	if r.Data.Error != nil {
		short := *r.Data.Error
		short.Message = cutText(short.Message, maxMessageBytes)
		r.Data.Error = &short
		if body, err = json.Marshal(r); err != nil || len(body) <= MaxResultBytes {
			return body, err
		}
	}
	return nil, fmt.Errorf("the result has %d bytes, more than %d", len(body), MaxResultBytes)
}

// maxSummaryBytes is what the clips of a result may take: a result has to hold the ids, the artifact and the model too.
const maxSummaryBytes = MaxResultBytes / 2

// FitClips returns the clips as they may be sent with an artifact and in a result: without their quality, which the
// artifact holds as well, if they are too long with it. clips is not changed.
func FitClips(clips []ResultClip) []ResultClip {
	if b, err := json.Marshal(clips); err == nil && len(b) <= maxSummaryBytes {
		return clips
	}
	return withoutQuality(clips)
}

func withoutQuality(clips []ResultClip) []ResultClip {
	plain := slices.Clone(clips)
	for i := range plain {
		plain[i].Quality = nil
	}
	return plain
}

// cutText shortens text to at most limit bytes without splitting a character.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Validate returns a permanent CodeInvalidRequest fault if r lacks what its type needs.
func (r Result) Validate() error {
	d := r.Data
	if err := ValidateID(d.AnalysisID); err != nil {
		return err
	}
	switch {
	case d.Claim == "" || d.WorkerID == "" || d.Epoch < 0 || d.Attempt < 1:
		return badResult("claim, workerId, epoch or attempt is missing")
	case r.Timestamp.IsZero():
		return badResult("the timestamp is missing")
	}
	switch r.Type {
	case ResultCompleted:
		return d.validateCompleted()
	case ResultFailed:
		if d.Error == nil || !codePattern.MatchString(string(d.Error.Code)) || d.Error.Message == "" {
			return badResult("a failed result needs an error")
		}
		return nil
	case ResultInterrupted:
		return nil
	default:
		return badResult("the type is not known")
	}
}

func (d ResultData) validateCompleted() error {
	if d.Artifact == nil || d.Model == nil || d.Timings == nil || len(d.Clips) == 0 {
		return badResult("a completed result needs artifact, model, clips and timings")
	}
	if err := d.Artifact.validate(); err != nil {
		return badResult(err.Error())
	}
	for _, clip := range d.Clips {
		if !ValidClipID(clip.ID) || clip.Frames < 0 || clip.Width < 0 || clip.Height < 0 || clip.DurationMs < 0 {
			return badResult("a clip has no valid id or a negative number")
		}
	}
	return nil
}

func badResult(what string) error { return NewFault(CodeInvalidRequest, "result: "+what) }

// ParseResult reads a result; unknown fields are ignored. Any fault is CodeInvalidRequest or CodeInvalidID.
func ParseResult(data []byte) (Result, error) {
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		return Result{}, NewFault(CodeInvalidRequest, "the body is not a result").WithCause(err)
	}
	return r, r.Validate()
}

// ResultID is the webhook-id of a result: stable over all tries of one outcome.
func ResultID(t ResultType, analysisID string, epoch int64) string {
	prefix := "res"
	if t == ResultInterrupted {
		prefix = "int"
	}
	return fmt.Sprintf("%s_%s_%d", prefix, analysisID, epoch)
}

// ResultAnswer is the optional body of a 2xx from the callback.
type ResultAnswer struct {
	AlreadyDelivered bool `json:"alreadyDelivered,omitempty"`
}
