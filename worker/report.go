package worker

import (
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// completedBody makes the bytes of a pose.completed; they are made once, so that they are the same on every try.
func completedBody(r *run, workerID string, a *protocol.StoredArtifact) ([]byte, error) {
	data := resultData(r, workerID)
	timings := r.times()
	data.Artifact, data.Model, data.Clips, data.Timings = &a.Artifact, &a.Model, a.Clips, &timings
	return resultBody(protocol.ResultCompleted, data)
}

// failedBody makes the bytes of a pose.failed.
func failedBody(r *run, workerID string, fault *protocol.Fault) ([]byte, error) {
	data := resultData(r, workerID)
	data.Error = &protocol.ResultError{Code: fault.Code, Message: fault.Message, Retryable: fault.Retryable}
	return resultBody(protocol.ResultFailed, data)
}

// interruptedBody makes the bytes of a pose.interrupted.
func interruptedBody(r *run, workerID string) ([]byte, error) {
	return resultBody(protocol.ResultInterrupted, resultData(r, workerID))
}

func resultData(r *run, workerID string) protocol.ResultData {
	claim := r.redemption()
	return protocol.ResultData{
		AnalysisID: r.id, Claim: claim.Claim.Claim, Epoch: claim.Epoch, Attempt: r.attempt, WorkerID: workerID,
	}
}

// resultBody encodes a result. What can't be encoded can't be posted on another attempt either.
func resultBody(t protocol.ResultType, data protocol.ResultData) ([]byte, error) {
	body, err := protocol.MarshalResult(protocol.Result{Type: t, Timestamp: time.Now().UTC(), Data: data})
	if err != nil {
		return nil, protocol.NewFault(protocol.CodeInternal, "the result can't be encoded").WithCause(err)
	}
	return body, nil
}
