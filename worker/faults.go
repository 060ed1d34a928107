package worker

import (
	"context"
	"errors"
	"syscall"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
)

// faultOf classifies an error of a stage. Over time comes first: it explains every other error of that moment.
func faultOf(err error) *protocol.Fault {
	f, classified := errors.AsType[*protocol.Fault](err)
	switch {
	case classified && f.Code == protocol.CodeExtractorTimeout:
		return f
	case errors.Is(err, ErrJobTimeout), errors.Is(err, context.DeadlineExceeded) && !classified:
		return timeoutFault(err)
	case !classified && errors.Is(err, syscall.ENOSPC):
		return diskFault(err)
	default:
		return protocol.AsFault(err)
	}
}

// timeoutFault is the fault of an attempt that ran out of time outside the extractor.
func timeoutFault(err error) *protocol.Fault {
	if errors.Is(err, ErrJobTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return protocol.NewRetryableFault(protocol.CodeJobTimeout, "the attempt did not end in its time").WithCause(err)
	}
	return protocol.AsFault(err)
}

// diskFault is the fault of a disk that is full or can't be written.
func diskFault(err error) *protocol.Fault {
	if errors.Is(err, syscall.ENOSPC) {
		return protocol.NewRetryableFault(protocol.CodeDiskFull, "the worker's disk is full").WithCause(err)
	}
	return protocol.NewRetryableFault(protocol.CodeInternal, "the worker's disk can't be used").WithCause(err)
}

func lostFault(cause error) *protocol.Fault {
	return protocol.NewRetryableFault(protocol.CodeClaimLost, "the claim went to another holder").WithCause(cause)
}

// expiredFault is the fault of a claim that nobody is known to have taken.
func expiredFault(cause error) *protocol.Fault {
	return protocol.NewRetryableFault(protocol.CodeClaimLost,
		"the claim's lease ran out, the control plane could not be reached to renew it").WithCause(cause)
}

func interruptedFault(cause error) *protocol.Fault {
	return protocol.NewRetryableFault(protocol.CodeInterrupted, "the worker stopped before the work was done").WithCause(cause)
}

// retryable returns f as a fault that another attempt may heal.
func retryable(f *protocol.Fault) *protocol.Fault {
	g := *f
	g.Retryable = true
	return &g
}

// reported is the ending that the callback's answer to a result means.
func reported(o claimcheck.ReportOutcome) ending {
	switch o {
	case claimcheck.ReportAlreadyDelivered, claimcheck.ReportConceded:
		return ending{outcome: outDelivered}
	case claimcheck.ReportGone:
		return ending{outcome: outCancelled}
	default:
		return ending{outcome: outCompleted}
	}
}
