package protocol

import "time"

// MaxDoorBodyBytes is the largest body that the HTTP door reads.
const MaxDoorBodyBytes = 16 * 1024

// DoorRequest is the body of POST /v1/jobs. A missing v means 1; unknown fields are refused.
type DoorRequest struct {
	V          int    `json:"v"`
	AnalysisID string `json:"analysisId"`
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

// DoorState is the body of GET /v1/jobs/{id}. Progress is 0 to 1 over the whole job.
type DoorState struct {
	AnalysisID string     `json:"analysisId"`
	Status     DoorStatus `json:"status"`
	Stage      Stage      `json:"stage,omitempty"`
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
