package protocol

import (
	"encoding/json"
	"time"
)

// Source is the door through which a start came.
type Source string

// Sources of a start.
const (
	SourceQueue Source = "queue"
	SourceHTTP  Source = "http"
)

// RedeemRequest asks for the claim of an analysis. WorkerID, Source, JobID and Attempt together are the holder:
// the same holder may redeem again and gets the same claim and epoch with fresh URLs.
type RedeemRequest struct {
	AnalysisID string `json:"analysisId"`
	WorkerID   string `json:"workerId"`
	Source     Source `json:"source"`
	JobID      string `json:"jobId"`
	// Attempt counts the job's starts (BullMQ's ats), 1 for the HTTP door.
	Attempt int `json:"attempt"`
}

// Claim is a redeemed claim check. Epoch is the fencing token, +1 at each new holder.
type Claim struct {
	AnalysisID string `json:"analysisId"`
	Claim      string `json:"claim"`
	Epoch      int64  `json:"epoch"`
	// LeaseSeconds is how long the claim is held without a renewal; 0 means that it is not leased.
	LeaseSeconds int             `json:"leaseSeconds,omitempty"`
	Clips        []ClaimClip     `json:"clips"`
	Callback     Callback        `json:"callback"`
	Params       *Params         `json:"params,omitempty"`
	Artifact     *StoredArtifact `json:"artifact,omitempty"`
}

// ClaimClip is one clip to download. Headers are sent verbatim with the GET.
type ClaimClip struct {
	ID        string     `json:"id"`
	URL       string     `json:"url"`
	Headers   Headers    `json:"headers"`
	Size      *int64     `json:"size,omitempty"`
	SHA256    string     `json:"sha256,omitempty"`
	ETag      string     `json:"etag,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// Headers are sent verbatim with a request to storage. They are an object on the wire also if there are none.
type Headers map[string]string

// MarshalJSON writes {} for nil.
func (h Headers) MarshalJSON() ([]byte, error) {
	if h == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]string(h))
}

// Callback is where the result goes.
type Callback struct {
	URL string `json:"url"`
}

// Params are the wishes for one analysis; all are optional, unknown keys are ignored.
type Params struct {
	// Model is lite, full or heavy, or OwnModelPrefix and the name of one of the workers' own models.
	Model      string   `json:"model,omitempty"`
	Athlete    *Athlete `json:"athlete,omitempty"`
	CaptureFPS float64  `json:"captureFps,omitempty"`
	MaxPeople  int      `json:"maxPeople,omitempty"`
	Smooth     *bool    `json:"smooth,omitempty"`
}

// Athlete points at the person to follow: T in ms from the first shown frame, X and Y in upright display pixels.
type Athlete struct {
	Clip string  `json:"clip,omitempty"`
	T    float64 `json:"t"`
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
}

// Model names what made the points.
type Model struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// Artifact names a stored pose document. Size is in bytes, SHA256 is of the stored (gzip) bytes.
type Artifact struct {
	Key    string `json:"key"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// StoredArtifact is an artifact of an earlier start with the same parameters: it is posted and nothing is extracted.
type StoredArtifact struct {
	Artifact
	Model Model        `json:"model"`
	Clips []ResultClip `json:"clips"`
}

// LeaseRequest is the body of renew and release.
type LeaseRequest struct {
	AnalysisID string `json:"analysisId"`
	Claim      string `json:"claim"`
	Epoch      int64  `json:"epoch"`
}

// LeaseAnswer answers a renewal.
type LeaseAnswer struct {
	LeaseSeconds int `json:"leaseSeconds"`
}

// ArtifactRequest asks for a presigned PUT of exactly these bytes. Model and Clips let the control plane describe
// the artifact when a later start of the same analysis redeems it; a control plane may ignore them.
type ArtifactRequest struct {
	AnalysisID  string       `json:"analysisId"`
	Claim       string       `json:"claim"`
	Epoch       int64        `json:"epoch"`
	Name        string       `json:"name"`
	ContentType string       `json:"contentType"`
	Size        int64        `json:"size"`
	SHA256      string       `json:"sha256"`
	Model       *Model       `json:"model,omitempty"`
	Clips       []ResultClip `json:"clips,omitempty"`
}

// ArtifactAnswer is a presigned PUT. Headers are sent verbatim.
type ArtifactAnswer struct {
	URL     string  `json:"url"`
	Headers Headers `json:"headers"`
	Key     string  `json:"key"`
}

// GoneReason says why a claim can't be had any more.
type GoneReason string

// Reasons in a 410 of redeem.
const (
	GoneDelivered GoneReason = "delivered"
	GoneCancelled GoneReason = "cancelled"
)
