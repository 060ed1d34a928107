package store

import (
	"encoding/json"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// Status is the state of an analysis; see the package comment for the moves between them.
type Status string

// States of an analysis.
const (
	StatusUploading  Status = "uploading"
	StatusQueued     Status = "queued"
	StatusProcessing Status = "processing"
	StatusDelivered  Status = "delivered"
	StatusFailed     Status = "failed"
	StatusCancelled  Status = "cancelled"
)

// Terminal tells whether the outcome of the analysis has been decided.
func (s Status) Terminal() bool {
	return s == StatusDelivered || s == StatusFailed || s == StatusCancelled
}

// Clip is one clip of an analysis. Key is its place in storage; ETag is known from the submission on.
type Clip struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Key         string `json:"key"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256"`
	ContentType string `json:"contentType"`
	ETag        string `json:"etag,omitempty"`
}

// Holder is who holds a claim: all four fields together.
type Holder struct {
	WorkerID string
	Source   protocol.Source
	JobID    string
	// Attempt counts the starts of the job, from 1.
	Attempt int
}

// JobSeen is what the queue said of a job when a start of it redeemed. The zero value: the queue does not know the job, which may be another
// queue's.
type JobSeen struct {
	// Err: the queue could not be asked. The rest is then empty.
	Err error
	// Starts counts the job's starts, this one included; 0 for a job that the queue does not know.
	Starts int
	// Ends counts the attempts that have ended, Stalls how often the job was found without its worker.
	Ends, Stalls int
	// Again: its last attempt failed with attempts left, so that the queue itself starts it again. A retry by a person takes that away.
	Again bool
	// Added is when the job was added, Taken when its newest start took it, both by the queue's clocks; zero if the queue does not say.
	Added, Taken time.Time
}

// sameJob tells whether both are starts of one job of one door.
func (h Holder) sameJob(o Holder) bool { return h.Source == o.Source && h.JobID == o.JobID }

// Analysis is one row of the ledger of analyses.
type Analysis struct {
	ID     string
	Status Status
	// Params are the wishes as they were sent, a JSON object; ParamsDigest is the SHA-256 of their canonical form.
	Params       json.RawMessage
	ParamsDigest string
	Clips        []Clip
	// Account pays, Round is what it pays for: 0 from the creation on, one more with each reopening.
	Account string
	Round   int64
	// Epoch is the fencing token, 0 before the first redeem. Claim and Holder are those of the last redeem.
	Epoch  int64
	Claim  string
	Holder Holder
	// JobEnds and JobStalls are what the queue said of the holder's job when it redeemed, or -1; JobAdded and JobTaken as well, or zero: see
	// JobSeen.
	JobEnds, JobStalls int
	JobAdded, JobTaken time.Time
	// LeaseUntil is the end of the lease; zero when the claim is not held.
	LeaseUntil time.Time
	// ResultID is the webhook id of the result that counts, Result its exact bytes, Artifact what it names.
	ResultID string
	Result   []byte
	Artifact *protocol.Artifact
	// ErrorCode and ErrorMessage say why a failed analysis failed.
	ErrorCode    protocol.Code
	ErrorMessage string
	CreatedAt    time.Time
	UpdatedAt    time.Time
	// SettledAt is when the status became terminal, or zero.
	SettledAt time.Time
}

// leased tells whether somebody holds the claim at the given time.
func (a *Analysis) leased(now time.Time) bool { return a.LeaseUntil.After(now) }

// NewAnalysis is what an analysis begins with.
type NewAnalysis struct {
	ID string
	// Account pays; "" means DefaultAccount.
	Account string
	Params  json.RawMessage
	Clips   []Clip
}

// Submission ends the upload: Clips carry the ETags that storage reported. Run begins a run, which sees to the dispatch unless it only
// follows; without one, Dispatch asks for an outbox row.
type Submission struct {
	ID       string
	Clips    []Clip
	Dispatch bool
	Run      RunReason
}

// Grant is the answer to a successful redeem.
type Grant struct {
	Analysis Analysis
	// Repeat is true when the same holder redeemed again.
	Repeat bool
}

// Lease names a claim that somebody believes to hold.
type Lease struct {
	AnalysisID string
	Claim      string
	Epoch      int64
}

// StoredArtifact is an artifact for which a PUT was granted. That it was granted does not say that it was stored.
type StoredArtifact struct {
	AnalysisID   string
	Epoch        int64
	Key          string
	Name         string
	ContentType  string
	Size         int64
	SHA256       string
	ParamsDigest string
	// Model and Clips are what the worker said about it, or absent.
	Model *protocol.Model
	Clips []protocol.ResultClip
}

// ResultPost is one arrival of a result whose signature has been verified.
type ResultPost struct {
	WebhookID string
	Body      []byte
	Result    protocol.Result
}

// Decision is what RecordResult did with a result.
type Decision string

// Decisions. Only DecisionAccepted has changed the analysis.
const (
	// DecisionAccepted: the result counts.
	DecisionAccepted Decision = "accepted"
	// DecisionConceded: the analysis had been decided before; Verdict.Status says how.
	DecisionConceded Decision = "conceded"
	// DecisionSuperseded: a failure or interruption of a former epoch; a newer execution decides.
	DecisionSuperseded Decision = "superseded"
)

// Verdict is the answer to a result.
type Verdict struct {
	Decision Decision
	// Repeat is true if this webhook id with this body had been answered before.
	Repeat bool
	// Status is the state of the analysis as read back after the decision.
	Status Status
}

// DispatchReason says why an analysis is to be added to the queue.
type DispatchReason string

// Reasons of a dispatch.
const (
	DispatchSubmitted   DispatchReason = "submitted"
	DispatchInterrupted DispatchReason = "interrupted"
	DispatchLeaseLapsed DispatchReason = "lease_lapsed"
	// DispatchLost: the run found that nobody has the analysis any more.
	DispatchLost DispatchReason = "lost"
	// DispatchRetried: a person wants a failed analysis to run again.
	DispatchRetried DispatchReason = "retried"
)

// OutboxKind is what the relay does with an outbox row.
type OutboxKind string

// Kinds of outbox rows.
const (
	// OutboxDispatch: add the analysis to the queue.
	OutboxDispatch OutboxKind = "dispatch"
	// OutboxDoor: post the analysis to the HTTP door of a worker.
	OutboxDoor OutboxKind = "door"
	// OutboxRun: start the durable run of the round.
	OutboxRun OutboxKind = "run"
	// OutboxSettled: tell whoever waits that the analysis has been decided.
	OutboxSettled OutboxKind = "settled"
	// OutboxNotice: tell the customer. The notice of a round has one id, whenever and however often it is sent.
	OutboxNotice OutboxKind = "notice"
	// OutboxRenotice: tell the customer again, because a person asked for it.
	OutboxRenotice OutboxKind = "renotice"
)

// OutboxEntry is an intent that was written together with the state that asks for it.
type OutboxEntry struct {
	ID         int64
	AnalysisID string
	Kind       OutboxKind
	Reason     string
	Round      int64
	Tries      int
	CreatedAt  time.Time
	// Owner is who has taken it on, or "".
	Owner string
}

// Event is one line of an analysis's timeline. Epoch and Holder are those of the execution concerned, if any.
type Event struct {
	ID         int64
	AnalysisID string
	At         time.Time
	Kind       string
	Epoch      int64
	Holder     Holder
	Detail     string
	// Actor is the person who did it, or "" where nobody was asked.
	Actor string
}

// Kinds of events.
const (
	EventCreated          = "created"
	EventSubmitted        = "submitted"
	EventDispatched       = "dispatched"
	EventRedeemed         = "redeemed"
	EventTakenOver        = "taken_over"
	EventReopened         = "reopened"
	EventReleased         = "released"
	EventLeaseLapsed      = "lease_lapsed"
	EventArtifactGranted  = "artifact_granted"
	EventInterrupted      = "interrupted"
	EventDelivered        = "delivered"
	EventFailed           = "failed"
	EventCancelled        = "cancelled"
	EventResultConceded   = "result_conceded"
	EventResultSuperseded = "result_superseded"
	EventRetried          = "retried"
	EventRedelivered      = "redelivered"
)

// PageRequest asks for a page of analyses, newest first; with IDPrefix in the order of their ids. Cursor is empty or the Next of the
// page before. Empty filters let everything through. One filter reads what it shows by an index; of two, one is applied to what the
// other finds.
type PageRequest struct {
	Limit  int
	Cursor string
	Status Status
	// Account is who pays.
	Account string
	// IDPrefix is how the analysis's id begins.
	IDPrefix string
}

// Page is a page of analyses. Next is empty on the last one.
type Page struct {
	Analyses []Analysis
	Next     string
}
