package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// MaxDoorBodyBytes is the largest body that the HTTP door reads.
const MaxDoorBodyBytes = 16 * 1024

// DoorRequest is the body of POST /v1/jobs. A missing v means 1; unknown fields are refused.
type DoorRequest struct {
	V          int    `json:"v"`
	AnalysisID string `json:"analysisId"`
}

// ParseDoorRequest reads the body of POST /v1/jobs. It is strict, unlike the queue's reader: a caller waits for the
// answer and can be told. Faults are CodeUnsupportedVersion, CodeInvalidRequest or CodeInvalidID.
func ParseDoorRequest(body []byte) (DoorRequest, error) {
	var raw struct {
		V          json.RawMessage `json:"v"`
		AnalysisID *string         `json:"analysisId"`
	}
	err := decodeStrict(body, &raw)
	if err == nil {
		err = checkNames(body, "v", "analysisId")
	}
	if err != nil {
		return DoorRequest{}, NewFault(CodeInvalidRequest, "the body is not a JSON object of the fields v and analysisId").WithCause(err)
	}
	if raw.V != nil && !isVersion(raw.V, JobVersion) {
		return DoorRequest{}, NewFault(CodeUnsupportedVersion, "only version 1 is known here")
	}
	if raw.AnalysisID == nil {
		return DoorRequest{}, NewFault(CodeInvalidRequest, "the body has no analysisId")
	}
	if err := ValidateID(*raw.AnalysisID); err != nil {
		return DoorRequest{}, err
	}
	return DoorRequest{V: JobVersion, AnalysisID: *raw.AnalysisID}, nil
}

// checkNames refuses an object with a field of another name, since encoding/json would take "AnalysisID" for "analysisId", and one with
// a field that comes twice, of which other readers might believe the other one. object is valid JSON.
func checkNames(object []byte, known ...string) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil { // the brace
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // keys are strings
		if !slices.Contains(known, name) || seen[name] {
			return fmt.Errorf("field %q is not known, or comes twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

// decodeStrict decodes exactly one JSON value into the struct v and refuses unknown fields.
func decodeStrict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// DoorStatus is the state of a job at the door.
type DoorStatus string

// States of a job at the door.
const (
	DoorAccepted    DoorStatus = "accepted"
	DoorRunning     DoorStatus = "running"
	DoorDelivered   DoorStatus = "delivered"
	DoorFailed      DoorStatus = "failed"
	DoorCancelled   DoorStatus = "cancelled"
	DoorInterrupted DoorStatus = "interrupted"
)

// DoorAccept is the body of a 202.
type DoorAccept struct {
	AnalysisID string     `json:"analysisId"`
	Status     DoorStatus `json:"status"`
}

// DoorState is the body of GET /v1/jobs/{id}. Progress is 0 to 1 over the whole job; Stage is
// the present one, after the end the last one.
type DoorState struct {
	AnalysisID string     `json:"analysisId"`
	Status     DoorStatus `json:"status"`
	Stage      Stage      `json:"stage"`
	Progress   float64    `json:"progress"`
	Attempt    int        `json:"attempt"`
	StartedAt  time.Time  `json:"startedAt"`
}

// Problem is an RFC 9457 problem document with our code and, for 410, the reason.
type Problem struct {
	Type   string     `json:"type"`
	Title  string     `json:"title"`
	Status int        `json:"status"`
	Detail string     `json:"detail,omitempty"`
	Code   Code       `json:"code,omitempty"`
	Reason GoneReason `json:"reason,omitempty"`
}

// ProblemContentType is the media type of Problem.
const ProblemContentType = "application/problem+json"
