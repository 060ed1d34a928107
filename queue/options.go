package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// DefaultPrefix is BullMQ's own.
const DefaultPrefix = "bull"

// MaxPriority is the lowest priority there is; a larger number would not fit the score.
const MaxPriority = 1<<21 - 1

// ErrBadOptions says that a job's options can't be used.
var ErrBadOptions = errors.New("bad job options")

// JobOptions say how a job is run and kept. The zero value is a job that is tried once and kept for ever. They are stored with the job
// as BullMQ stores them, so that a worker of any BullMQ library honours them.
type JobOptions struct {
	// JobID is a custom id: a second job with the same id is not added (Added.Duplicate). Empty: a number is given. Integers, ids with
	// a colon and the queue's own key names are refused.
	JobID string
	// Attempts is how often the job is tried; 0 and 1 both mean once.
	Attempts int
	// Backoff is the pause before each further attempt; nil: at once, at the end of the queue.
	Backoff *Backoff
	// Delay before the first attempt.
	Delay time.Duration
	// Priority 1 is served first, MaxPriority last, and jobs without one (0) before all of them.
	Priority int
	// LIFO puts the job in front of all that wait.
	LIFO bool
	// RemoveOnComplete and RemoveOnFail say how many finished jobs stay; nil: the worker's rule.
	RemoveOnComplete, RemoveOnFail *Keep
	// StackTraceLimit is how many stack traces of failed attempts are kept; nil: all.
	StackTraceLimit *int
	// KeepLogs is how many log rows are kept; 0: all.
	KeepLogs int
	// SizeLimit refuses data whose JSON is longer than that many bytes; 0: no limit.
	SizeLimit int
	// Timestamp is when the job came into being; zero: now.
	Timestamp time.Time
	// Parent makes the job a child of an existing job.
	Parent *ParentRef
	// At most one of these four says what the job's final failure does to its parent: it fails too, it runs at once, it runs as if the
	// child had not been there (keeping its reason), or the same without keeping the reason.
	FailParentOnFailure, ContinueParentOnFailure, IgnoreDependencyOnFailure, RemoveDependencyOnFailure bool
	// Deduplication refuses the job while another one with the same deduplication id is there.
	Deduplication *Deduplication
	// Telemetry is the trace of the producer, a JSON text such as {"traceparent":"…"}; "": what Options.Telemetry finds in the context of
	// the add. OmitContext stores none of the context's, and tells consumers not to continue any.
	Telemetry   string
	OmitContext bool
	// Extra are options that this package does not know, by their stored names; they pass through unchanged.
	Extra map[string]json.RawMessage
}

// Backoff is the pause between attempts: Type "fixed" waits Delay each time, "exponential" doubles it from Delay on. Jitter 0…1 shortens
// each pause by a random part of itself up to that share. Other types are left to the worker's BackoffStrategy.
type Backoff struct {
	Type   string
	Delay  time.Duration
	Jitter float64
}

// Keep says which finished jobs stay. The zero value keeps all of them.
type Keep struct {
	// Now removes the job the moment it finishes; the other fields do not count then.
	Now bool
	// Count keeps the newest Count jobs; 0: no such bound.
	Count int
	// Age removes finished jobs older than that (in whole seconds); 0: no such bound.
	Age time.Duration
	// Limit is how many jobs one finish removes by Age at most; 0: 1000.
	Limit int

	// ageZero: a stored {"age":0}, by which BullMQ removes every finished job including this one.
	ageZero bool
}

// ParentRef names a job of any queue of the same Redis.
type ParentRef struct {
	ID    string
	Queue string // qualified: prefix, colon, name
}

// Deduplication refuses jobs with the same ID while the first is unfinished, or for TTL if that is given.
type Deduplication struct {
	ID  string
	TTL time.Duration
	// Extend starts TTL again with each refused job.
	Extend bool
	// Replace puts the new job in the place of one that is still delayed.
	Replace bool
	// KeepLastIfActive runs the newest refused job once the running one is done.
	KeepLastIfActive bool
	// Reschedule moves a delayed owner to the refused job's delay.
	Reschedule bool
}

func (o *JobOptions) validate() error {
	var errs []error

	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrBadOptions}, args...)...))
	}

	if o.JobID != "" {
		errs = append(errs, checkJobID(o.JobID))
	}

	if o.Priority < 0 || o.Priority > MaxPriority {
		bad("priority %d is not between 0 and %d", o.Priority, MaxPriority)
	}

	if o.Attempts < 0 || o.Delay < 0 || o.KeepLogs < 0 || o.SizeLimit < 0 {
		bad("attempts, delay, kept logs and size limit can't be negative")
	}

	if b := o.Backoff; b != nil && (b.Jitter < 0 || b.Jitter > 1 || b.Delay < 0) {
		bad("backoff needs a jitter between 0 and 1 and a delay that is not negative")
	}

	if countTrue(o.FailParentOnFailure, o.ContinueParentOnFailure, o.IgnoreDependencyOnFailure, o.RemoveDependencyOnFailure) > 1 {
		bad("only one of the four child failure options can be set")
	}

	if p := o.Parent; p != nil && (p.ID == "" || p.Queue == "") {
		bad("a parent needs an id and a qualified queue name")
	}

	if d := o.Deduplication; d != nil {
		if d.ID == "" {
			bad("deduplication needs an id")
		}

		if o.Parent != nil {
			bad("a child can't be deduplicated")
		}
	}

	return errors.Join(errs...)
}

func countTrue(flags ...bool) int {
	n := 0

	for _, f := range flags {
		if f {
			n++
		}
	}

	return n
}
