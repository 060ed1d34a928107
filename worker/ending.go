package worker

import (
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// outcome is how a run ended; the label value of metrics, so the list is closed.
type outcome string

const (
	outCompleted outcome = "completed"         // our result is stored
	outDelivered outcome = "already_delivered" // somebody's result was stored before
	outCancelled outcome = "cancelled"         // cancelled here or at the control plane
	outFailed    outcome = "failed"            // for good
	outRetried   outcome = "retried"           // another attempt follows
	outDelayed   outcome = "delayed"           // somebody else holds the claim; no attempt spent
	outGivenBack outcome = "given_back"        // the worker stops; no attempt spent
	outLostLock  outcome = "lost_lock"         // the queue gave the job to somebody else
)

func outcomes() []outcome {
	return []outcome{outCompleted, outDelivered, outCancelled, outFailed, outRetried, outDelayed, outGivenBack, outLostLock}
}

// ending is what a run leaves to its door: the queue door makes a job's end of it, the HTTP door a state.
type ending struct {
	outcome outcome
	epoch   *int64          // where one was learned
	fault   *protocol.Fault // unless the run ended well
	delay   time.Duration   // of outDelayed, where the control plane named one
	cause   error           // of outLostLock
}

// status is what the HTTP door shows of it; "" for ends that decide nothing about the analysis.
func (e ending) status(source protocol.Source) protocol.DoorStatus {
	switch e.outcome {
	case outCompleted, outDelivered:
		return protocol.DoorDelivered
	case outCancelled:
		return protocol.DoorCancelled
	case outFailed:
		return protocol.DoorFailed
	case outGivenBack:
		return protocol.DoorInterrupted
	}
	if source == protocol.SourceHTTP { // nobody else will report this run's end
		return protocol.DoorFailed
	}
	return ""
}

// final tells whether the analysis is over with this end.
func (e ending) final() bool {
	switch e.outcome {
	case outCompleted, outDelivered, outCancelled, outFailed:
		return true
	default:
		return false
	}
}

// returnValue is the queue job's return value of a good end.
func (e ending) returnValue() protocol.ReturnValue {
	v := protocol.ReturnValue{Outcome: protocol.OutcomeCompleted, Epoch: e.epoch}
	switch e.outcome {
	case outDelivered:
		v.Outcome = protocol.OutcomeAlreadyDelivered
	case outCancelled:
		v.Outcome = protocol.OutcomeCancelled
	}
	return v
}
