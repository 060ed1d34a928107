package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of a Store. They are matched with errors.Is.
var (
	// ErrUnknown: there is no analysis with this id.
	ErrUnknown = errors.New("unknown analysis")
	// ErrConflict: the same id or key with another content.
	ErrConflict = errors.New("the same id with another content")
	// ErrLost: the claim is not, or not any more, held by who asked.
	ErrLost = errors.New("the claim is lost")
	// ErrNotSubmitted: the clips have not been confirmed yet.
	ErrNotSubmitted = errors.New("the analysis has not been submitted")
	// ErrSettled: the outcome has been decided, so that the analysis can't be changed any more.
	ErrSettled = errors.New("the analysis has been decided")
	// ErrUnseen: the answer depends on what the queue says of the job, and the queue could not be asked.
	ErrUnseen = errors.New("the queue can't be asked about the job")
	// ErrUnissued: a result or artifact names a claim or key that this store never gave out.
	ErrUnissued = errors.New("never issued")
	// ErrBadCursor: a cursor that no page gave out.
	ErrBadCursor = errors.New("not a cursor")
)

// HeldError says that another holder has the claim for a while.
type HeldError struct {
	// Left is what remains of the lease, more than 0.
	Left time.Duration
}

// Error tells how long the claim is held.
func (e *HeldError) Error() string { return fmt.Sprintf("the claim is held for another %s", e.Left) }

// GoneError says that the analysis has been decided, so that there is no claim any more.
type GoneError struct{ Status Status }

// Error tells how the analysis was decided.
func (e *GoneError) Error() string { return fmt.Sprintf("the analysis is %s", e.Status) }

// Store is the control plane's state. Every method is one transaction, is safe for concurrent use by many
// goroutines and processes, and honours the cancellation of its context by doing all or nothing.
type Store interface {
	Runs

	FleetStore
	Operating

	// CreateAnalysis makes an analysis in StatusUploading and reserves a credit for it; ErrNoCredit makes none. The same id with the
	// same clips, parameters and account returns the existing one and false; with others it is ErrConflict.
	CreateAnalysis(ctx context.Context, n NewAnalysis) (Analysis, bool, error)
	// Submit moves an uploading analysis to queued and, if asked, writes its dispatch. Later calls change nothing.
	Submit(ctx context.Context, s Submission) (Analysis, error)
	// Cancel ends an analysis that has not been decided. A cancelled one stays so; a delivered or failed one is ErrSettled.
	Cancel(ctx context.Context, id string) (Analysis, error)
	// Analysis reads one analysis, or ErrUnknown.
	Analysis(ctx context.Context, id string) (Analysis, error)
	// Timeline reads the events of an analysis, oldest first, at most the newest 500.
	Timeline(ctx context.Context, id string) ([]Event, error)

	// Redeem gives the claim to the holder for the length of the lease, or says why not: ErrUnknown, ErrNotSubmitted,
	// *HeldError, *GoneError, ErrUnseen. What the queue said of the holder's job tells a retry by a person from a job that comes again.
	Redeem(ctx context.Context, id string, h Holder, job JobSeen, lease time.Duration) (Grant, error)
	// Renew moves the lease's end, or is ErrLost or ErrUnknown.
	Renew(ctx context.Context, l Lease, lease time.Duration) error
	// Release ends the lease if it is still the one that is named; otherwise it does nothing.
	Release(ctx context.Context, l Lease) error
	// GrantArtifact records that a PUT of the artifact is about to be allowed, or is ErrLost or ErrUnknown.
	GrantArtifact(ctx context.Context, l Lease, a StoredArtifact) error
	// Artifacts lists granted artifacts of the analysis with this parameters' digest, newest epoch first.
	Artifacts(ctx context.Context, id, paramsDigest string) ([]StoredArtifact, error)
	// RecordResult lets a result count or not; see the package comment. ErrUnknown and ErrUnissued record nothing;
	// ErrConflict is a known webhook id with another body.
	RecordResult(ctx context.Context, p ResultPost) (Verdict, error)

	// ClaimOutbox takes on entries for a while: nobody else gets them meanwhile. RenewOutbox moves the end of that for
	// some, ReleaseOutbox gives all back that the owner has; without an owner, what processes that are gone had, where that is known.
	ClaimOutbox(ctx context.Context, c OutboxClaim) ([]OutboxEntry, error)
	RenewOutbox(ctx context.Context, owner string, lease time.Duration, ids []int64) error
	ReleaseOutbox(ctx context.Context, owner string) error
	// Outbox lists entries of these kinds that are due, oldest first; without kinds those of all. It takes none on.
	Outbox(ctx context.Context, limit int, kinds ...OutboxKind) ([]OutboxEntry, error)
	// OutboxDone removes an entry whose intent has been carried out and notes a dispatch in the timeline.
	OutboxDone(ctx context.Context, e OutboxEntry) error
	// OutboxFailed puts the entry off and gives it back.
	OutboxFailed(ctx context.Context, e OutboxEntry, retryIn time.Duration) error
	// RequeueLapsed moves analyses whose lease of the HTTP door ended more than grace ago back to queued, each with a
	// dispatch, and returns how many. Jobs of the queue come back by the queue's own stalled check.
	RequeueLapsed(ctx context.Context, grace time.Duration, limit int) (int, error)
	// ForgetWebhooks removes webhook ids seen before the given time, at most limit, and returns how many.
	ForgetWebhooks(ctx context.Context, before time.Time, limit int) (int, error)
	// Ledger lists the effects that have happened in a scope: the id of an analysis, or "account:" and that of an account.
	Ledger(ctx context.Context, scope string) ([]LedgerEntry, error)
	// ForgetLedger removes expired entries of the ledger, at most limit, and returns how many.
	ForgetLedger(ctx context.Context, limit int) (int, error)
	// Occur lets an event from outside have its effects once, and tells whether they happened now.
	Occur(ctx context.Context, o Occurrence) (outcome string, fresh bool, err error)
	// Sizes measures the tables.
	Sizes(ctx context.Context) ([]TableSize, error)
	// GrantCredits gives credits to an account and tells whether it did now. The same key with another number is ErrConflict.
	GrantCredits(ctx context.Context, g CreditGrant) (Account, bool, error)
	// Account reads an account; one that nobody has heard of is not limited.
	Account(ctx context.Context, id string) (Account, error)
	// Credits lists the credits of an analysis, one for each round.
	Credits(ctx context.Context, id string) ([]Credit, error)
	// ExpireUploads cancels and refunds analyses created before the given time and never submitted, at most limit.
	ExpireUploads(ctx context.Context, before time.Time, limit int) (int, error)
	// Secret returns the named secret, made by generate and kept at the first call.
	Secret(ctx context.Context, name string, generate func() []byte) ([]byte, error)
	// Ping tells whether the database answers.
	Ping(ctx context.Context) error
	// Close gives the connections back.
	Close() error
}
