package protocol

import (
	"encoding/json"
	"fmt"
	"time"
)

// MaxResultBytes is the largest result body: the points are in storage, the result only names them.
const MaxResultBytes = 20 * 1024

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
