package queue

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Errors that callers can tell apart with errors.Is.
var (
	// ErrJobNotFound: there is no job with that id.
	ErrJobNotFound = errors.New("job not found")
	// ErrLockLost: the job is no longer ours; its lock is missing, is another worker's, or must have run out by our own clock. It is the
	// cause of a handler's cancelled context, and the answer of Job methods afterwards.
	ErrLockLost = errors.New("lock lost")
	// ErrNotInState: the job is not in the state that the call needs.
	ErrNotInState = errors.New("job is not in that state")
	// ErrParentMissing: the parent named in the options does not exist.
	ErrParentMissing = errors.New("parent job not found")
	// ErrParentTaken: the job that has this id belongs to another living parent.
	ErrParentTaken = errors.New("job belongs to another parent")
	// ErrPendingChildren: the job can't be completed before its children are done.
	ErrPendingChildren = errors.New("job has pending children")
	// ErrFailedChildren: the job can't be completed because a child failed.
	ErrFailedChildren = errors.New("job has failed children")
	// ErrJobLocked: the job, or one of its children, is being worked on and can't be removed.
	ErrJobLocked = errors.New("job is being worked on")
	// ErrScheduled: the job is the pending iteration of a scheduler and can't be removed by itself.
	ErrScheduled = errors.New("job belongs to a scheduler")
	// ErrIterationExists: a job that is no finished one has the id of the scheduler's next job.
	ErrIterationExists = errors.New("the scheduler's next job exists already")
	// ErrSlotsBusy: jobs have the ids of many of the scheduler's next slots.
	ErrSlotsBusy = errors.New("the scheduler's next slots have jobs already")
	// ErrDraining is the cause with which a worker's fetching ends after Drain.
	ErrDraining = errors.New("worker is draining")
	// ErrAlreadyRan: a Worker or Events runs once.
	ErrAlreadyRan = errors.New("ran already")
	// ErrForeignKey: a key of the queue, or of the job, holds something that is no part of a queue (Redis says WRONGTYPE). Nothing was
	// written, and what failed works once the key is gone.
	ErrForeignKey = errors.New("a key holds something else")
	// ErrClosed: the queue was closed.
	ErrClosed = errors.New("closed")

	errBadReply    = errors.New("unexpected answer of Redis")
	errInvalidJSON = errors.New("not valid JSON")
)

// Code is the negative answer of a transition. The numbers are BullMQ's.
type Code int

// Codes of the transitions.
const (
	CodeJobMissing      Code = -1
	CodeLockMissing     Code = -2
	CodeNotInState      Code = -3
	CodePendingChildren Code = -4
	CodeParentMissing   Code = -5
	CodeLockMismatch    Code = -6
	CodeParentTaken     Code = -7
	CodeScheduled       Code = -8
	CodeFailedChildren  Code = -9
	CodeIterationExists Code = -10
	CodeSlotsBusy       Code = -11
)

// sentinel is the error that errors.Is finds behind the code.
func (c Code) sentinel() error {
	switch c {
	case CodeJobMissing:
		return ErrJobNotFound
	case CodeLockMissing, CodeLockMismatch:
		return ErrLockLost
	case CodeNotInState:
		return ErrNotInState
	case CodePendingChildren:
		return ErrPendingChildren
	case CodeParentMissing:
		return ErrParentMissing
	case CodeParentTaken:
		return ErrParentTaken
	case CodeScheduled:
		return ErrScheduled
	case CodeFailedChildren:
		return ErrFailedChildren
	case CodeIterationExists:
		return ErrIterationExists
	case CodeSlotsBusy:
		return ErrSlotsBusy
	}

	return errBadReply
}

// ScriptError says that a transition refused to happen; nothing was changed unless the code is CodeNotInState, after which the lock
// has been given up. It unwraps to one of the sentinels.
type ScriptError struct {
	Code  Code
	Op    string // the transition: finish, retry, …
	JobID string
}

// Error implements error.
func (e *ScriptError) Error() string {
	return fmt.Sprintf("%s job %s: %v (%d)", e.Op, e.JobID, e.Code.sentinel(), int(e.Code))
}

// Unwrap makes errors.Is find the sentinel of the code.
func (e *ScriptError) Unwrap() error { return e.Code.sentinel() }

// isReply reports whether Redis itself answered with the error, so that it is known that the command had no effect.
func isReply(err error) bool {
	_, ok := errors.AsType[redis.Error](err)

	return ok
}

// words are an error of Redis that a script has answered as a text.
func words(text any) error {
	said := fmt.Sprint(text)
	if strings.Contains(said, wrongType) {
		return fmt.Errorf("%w: %s", ErrForeignKey, said)
	}

	return errors.New(said) //nolint:err113 // words of Redis
}

// wrongType is what Redis says of a key that holds something else.
const wrongType = "WRONGTYPE"

// notNow reports whether Redis refused a command, untouched, for a reason that passes: it loads its data, it is not the master any more,
// or the cluster is moving the queue or has nobody who serves it.
func notNow(err error) bool {
	return slices.ContainsFunc([]string{"LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN"}, func(prefix string) bool {
		return redis.HasErrorPrefix(err, prefix)
	})
}

// neverSent reports whether the command can't have reached Redis.
func neverSent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)

	return ok && op.Op == "dial"
}

// uncertain reports whether the command may have had its effect although it failed here.
func uncertain(err error) bool {
	if err == nil || isReply(err) || neverSent(err) {
		return false
	}

	_, refused := errors.AsType[*ScriptError](err)

	return !refused
}
