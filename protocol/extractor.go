package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
)

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

// NewExtractorJob returns the order for one job; absent params become {}.
func NewExtractorJob(job string, clips []ExtractorClip, outDir string, params json.RawMessage) ExtractorJob {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	return ExtractorJob{Type: MessageJob, Job: job, Clips: clips, OutDir: outDir, Params: params}
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

// ParseExtractorMessage reads one line of an extractor and returns an ExtractorHello, ExtractorProgress,
// ExtractorResult or ExtractorError. Unknown fields are ignored; any other line is an error, after which nothing
// that the process says can be trusted.
func ParseExtractorMessage(line []byte) (any, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("extractor message: %w", errShape)
	}
	switch head.Type {
	case MessageHello:
		return parseMessage(line, ExtractorHello.validate)
	case MessageProgress:
		return parseMessage(line, ExtractorProgress.validate)
	case MessageResult:
		return parseMessage(line, ExtractorResult.validate)
	case MessageError:
		return parseMessage(line, ExtractorError.validate)
	default:
		return nil, errors.New("extractor message: the type is not known")
	}
}

// ParseExtractorJob reads the worker's order, for extractors in Go.
func ParseExtractorJob(line []byte) (ExtractorJob, error) {
	var job ExtractorJob
	if err := json.Unmarshal(line, &job); err != nil {
		return ExtractorJob{}, fmt.Errorf("extractor job: %w", errShape)
	}
	return job, job.validate()
}

func parseMessage[T any](line []byte, validate func(T) error) (any, error) {
	var m T
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("extractor message: %w", errShape)
	}
	if err := validate(m); err != nil {
		return nil, fmt.Errorf("extractor message: %w", err)
	}
	return m, nil
}

func (m ExtractorHello) validate() error {
	if m.Protocol < 1 || m.Name == "" || m.Model.Name == "" || m.Model.Version == "" || !sha256Pattern.MatchString(m.Model.SHA256) {
		return errors.New("hello lacks protocol, name or model")
	}
	return nil
}

func (m ExtractorProgress) validate() error {
	if m.Job == "" || m.Done < 0 || m.Done > 1 {
		return errors.New("progress lacks job, or done is not from 0 to 1")
	}
	return nil
}

// validate also keeps the artifact inside the job's folder: a name, no path.
func (m ExtractorResult) validate() error {
	if m.Job == "" || m.ContentType == "" || len(m.Clips) == 0 {
		return errors.New("result lacks job, contentType or clips")
	}
	if m.Artifact == "" || m.Artifact == "." || m.Artifact == ".." || m.Artifact != filepath.Base(m.Artifact) {
		return errors.New("result's artifact is no plain file name")
	}
	return nil
}

func (m ExtractorError) validate() error {
	if m.Job == "" || !codePattern.MatchString(string(m.Code)) || m.Message == "" {
		return errors.New("error lacks job, a code of a-z, 0-9 and _, or message")
	}
	return nil
}

func (m ExtractorJob) validate() error {
	if m.Type != MessageJob || m.Job == "" || m.OutDir == "" || len(m.Clips) == 0 {
		return errors.New("extractor job: it lacks job, outDir or clips")
	}
	for _, clip := range m.Clips {
		if !ValidClipID(clip.ID) || clip.Path == "" {
			return errors.New("extractor job: a clip lacks id or path")
		}
	}
	return nil
}
