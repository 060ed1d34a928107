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
	// Fields are looked at one by one: a job of another version may have any shape, and has to be named as such.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return JobData{}, NewFault(CodeInvalidJob, "the job's data is not a claim check").WithCause(err)
	}
	if v, ok := fields["v"]; ok && !isVersion(v, JobVersion) {
		return JobData{}, NewFault(CodeUnsupportedVersion,
			fmt.Sprintf("only version %d of the job is known to this worker", JobVersion))
	}
	var id string
	if err := json.Unmarshal(fields["analysisId"], &id); err != nil || id == "" {
		return JobData{}, NewFault(CodeInvalidJob, "the job's data has no analysisId").WithCause(err)
	}
	if err := ValidateID(id); err != nil {
		return JobData{}, err
	}
	return JobData{V: JobVersion, AnalysisID: id}, nil
}

// isVersion tells whether raw is the JSON number want, in any notation (1, 1.0, 1e0).
func isVersion(raw json.RawMessage, want float64) bool {
	var v *float64
	return json.Unmarshal(raw, &v) == nil && v != nil && *v == want
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
