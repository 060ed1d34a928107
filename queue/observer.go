package queue

// Outcome is how a run of a job ended, for observers and logs.
type Outcome string

// Outcomes.
const (
	OutcomeCompleted Outcome = "completed"
	OutcomeFailed    Outcome = "failed"   // for good
	OutcomeRetried   Outcome = "retried"  // another attempt follows, at once or after its backoff
	OutcomeDelayed   Outcome = "delayed"  // by DelayFor
	OutcomePutBack   Outcome = "put_back" // by PutBack
	// OutcomeRateLimited: put back by RateLimitFor.
	OutcomeRateLimited Outcome = "rate_limited"
	OutcomeLost        Outcome = "lost"    // the lock was lost: nothing was written
	OutcomeRemoved     Outcome = "removed" // the job was removed while it ran
	OutcomeUnwritten   Outcome = "unwritten"
)

// Observer is told what a worker does, for metrics and tests. Its methods are called from several goroutines and must not block.
type Observer interface {
	// FetchDone: a fetch round is over, with or without a job.
	FetchDone(found bool)
	// FetchFailed: a fetch round ended in an error; the worker goes on after a pause.
	FetchFailed(err error)
	// LockExtended: one renewal call, with how many locks it renewed and how many had been lost.
	LockExtended(ok, lost int)
	// LockRenewalFailed: a renewal call did not get through; it is repeated soon.
	LockRenewalFailed(err error)
	// JobStarted: the handler, or the step that replaces it, begins.
	JobStarted(j *Job)
	// JobEnded: what became of the job has been written, or could not be.
	JobEnded(j *Job, outcome Outcome)
	// Stalled: a check of this worker put n jobs without a worker back.
	Stalled(n int)
}

// NopObserver does nothing; embed it to implement a part of Observer.
type NopObserver struct{}

// FetchDone implements Observer.
func (NopObserver) FetchDone(bool) {}

// FetchFailed implements Observer.
func (NopObserver) FetchFailed(error) {}

// LockExtended implements Observer.
func (NopObserver) LockExtended(int, int) {}

// LockRenewalFailed implements Observer.
func (NopObserver) LockRenewalFailed(error) {}

// JobStarted implements Observer.
func (NopObserver) JobStarted(*Job) {}

// JobEnded implements Observer.
func (NopObserver) JobEnded(*Job, Outcome) {}

// Stalled implements Observer.
func (NopObserver) Stalled(int) {}
