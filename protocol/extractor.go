package protocol

import "encoding/json"

// ExtractorProtocol is the version of the messages between worker and extractor.
const ExtractorProtocol = 1

// Types of extractor messages, one JSON object a line.
const (
	MessageHello    = "hello"
	MessageJob      = "job"
	MessageProgress = "progress"
	MessageResult   = "result"
	MessageError    = "error"
)

// ExtractorHello is the extractor's first line.
type ExtractorHello struct {
	Type     string `json:"type"`
	Protocol int    `json:"protocol"`
	Name     string `json:"name"`
	Model    Model  `json:"model"`
}

// ExtractorJob is the worker's order. OutDir exists, is empty and belongs to the job. Params is the claim's,
// verbatim, so that an extractor may understand more than the worker does.
type ExtractorJob struct {
	Type   string          `json:"type"`
	Job    string          `json:"job"`
	Clips  []ExtractorClip `json:"clips"`
	OutDir string          `json:"outDir"`
	Params json.RawMessage `json:"params"`
}

// ExtractorClip is one downloaded clip.
type ExtractorClip struct {
	ID   string `json:"id"`
	Path string `json:"path"`
}

// ExtractorProgress tells the share of the job that is done, 0 to 1.
type ExtractorProgress struct {
	Type string  `json:"type"`
	Job  string  `json:"job"`
	Done float64 `json:"done"`
}

// ExtractorResult names the artifact, a file in OutDir. Model, if present, names what this job used when it
// differs from the hello's.
type ExtractorResult struct {
	Type        string       `json:"type"`
	Job         string       `json:"job"`
	Artifact    string       `json:"artifact"`
	ContentType string       `json:"contentType"`
	Model       *Model       `json:"model,omitempty"`
	Clips       []ResultClip `json:"clips"`
}

// ExtractorError ends a job with a fault.
type ExtractorError struct {
	Type      string `json:"type"`
	Job       string `json:"job"`
	Code      Code   `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}
