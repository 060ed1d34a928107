package protocol

import (
	"encoding/json"
	"fmt"
)

// JobName is the name of the claim-check job.
const JobName = "analysis"

// JobVersion is the version of JobData that this build reads and writes.
const JobVersion = 1

// JobData is a job's whole payload: a claim check. Everything else is learned at redeem.
type JobData struct {
	V          int    `json:"v"`
	AnalysisID string `json:"analysisId"`
}

// NewJobData returns the payload for an analysis id.
func NewJobData(analysisID string) JobData { return JobData{V: JobVersion, AnalysisID: analysisID} }

// ParseJobData reads a job's data. Unknown fields are ignored and a missing v means 1. It returns a permanent
// CodeUnsupportedVersion, CodeInvalidJob or CodeInvalidID fault.
func ParseJobData(data []byte) (JobData, error) {
	var raw struct {
		V          *int    `json:"v"`
		AnalysisID *string `json:"analysisId"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return JobData{}, NewFault(CodeInvalidJob, "the job's data is not a claim check").WithCause(err)
	}
	v := JobVersion
	if raw.V != nil {
		v = *raw.V
	}
	if v != JobVersion {
		return JobData{}, NewFault(CodeUnsupportedVersion, fmt.Sprintf("version %d of the job is not known, only %d", v, JobVersion))
	}
	if raw.AnalysisID == nil {
		return JobData{}, NewFault(CodeInvalidJob, "the job's data has no analysisId")
	}
	if err := ValidateID(*raw.AnalysisID); err != nil {
		return JobData{}, err
	}
	return JobData{V: v, AnalysisID: *raw.AnalysisID}, nil
}

// Outcome is how a job ended without a fault.
type Outcome string

// Outcomes of a job.
const (
	OutcomeCompleted        Outcome = "completed"
	OutcomeAlreadyDelivered Outcome = "alreadyDelivered"
	OutcomeCancelled        Outcome = "cancelled"
)

// ReturnValue is the job's return value.
type ReturnValue struct {
	Outcome Outcome `json:"outcome"`
	// Epoch is missing where none was learned.
	Epoch *int64 `json:"epoch,omitempty"`
}

// Stage is one step of the worker's work on a job.
type Stage string

// Stages in their order.
const (
	StageRedeem   Stage = "redeem"
	StageDownload Stage = "download"
	StageExtract  Stage = "extract"
	StageUpload   Stage = "upload"
	StageReport   Stage = "report"
)

// Progress is the job's progress; Done is the share of the stage, 0 to 1.
type Progress struct {
	Stage Stage   `json:"stage"`
	Done  float64 `json:"done"`
}
