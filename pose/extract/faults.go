package extract

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/protocol"
)

// Fault gives any error of this package a code of the contract: the clip's own faults are permanent, all else may heal.
func Fault(err error) *protocol.Fault {
	if f, ok := errors.AsType[*protocol.Fault](err); ok {
		return f
	}
	if f, ok := errors.AsType[*media.Fault](err); ok {
		return protocol.NewFault(protocol.Code(f.Code), f.Message).WithCause(err)
	}
	if errors.Is(err, context.Canceled) {
		return protocol.NewRetryableFault(protocol.CodeInterrupted, "the work was stopped").WithCause(err)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return protocol.NewRetryableFault(protocol.CodeDiskFull, "there is no space left on the disk").WithCause(err)
	}
	return protocol.NewRetryableFault(protocol.CodeExtractorFailed, oneLine(err.Error())).WithCause(err)
}

// oneLine makes a sentence of an error's text: joined errors are on lines of their own.
func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}
