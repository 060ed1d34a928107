package worker

import (
	"context"
	"errors"
)

// Causes with which a run's context ends. The queue's own ErrLockLost is another.
var (
	// ErrJobTimeout says that the attempt took longer than the job timeout.
	ErrJobTimeout = errors.New("the attempt ran over its time")
	// ErrLeaseLost says that the control plane gave the claim to somebody else.
	ErrLeaseLost = errors.New("the claim was lost")
	// ErrLeaseExpired says that the claim could not be renewed while, by our own clock, it was still ours.
	ErrLeaseExpired = errors.New("the claim could not be renewed in time")
	// ErrUnwanted says that the control plane does not want the result any more.
	ErrUnwanted = errors.New("the analysis is not wanted any more")
	// ErrCancelled says that the job was cancelled at the HTTP door.
	ErrCancelled = errors.New("the job was cancelled")
	// ErrDraining says that the worker stops and gives the job back.
	ErrDraining = errors.New("the worker is stopping")
)

// wanted tells whether ctx ended because somebody asked for it: the analysis was cancelled or decided elsewhere, or the worker stops. Such an
// end is no fault.
func wanted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, ErrCancelled) || errors.Is(cause, ErrUnwanted) || errors.Is(cause, ErrDraining)
}
