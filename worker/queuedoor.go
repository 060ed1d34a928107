package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker/internal/slots"
	"github.com/posefleet/posefleet/worker/internal/trace"
)

const (
	// stalledMessage is what is reported of a job whose workers all died over it.
	stalledMessage = "the analysis was started several times and every worker that had it was lost"
	// deferredTimeout bounds the report of such a job.
	deferredTimeout = 90 * time.Second
)

// queueDoor is the handler of the queue's jobs.
//
//	the claim says            the job
//	404                       fails for good
//	410                       completes: alreadyDelivered or cancelled
//	409                       is delayed by Retry-After, no attempt spent
//	401 403 429 5xx, silence  fails this attempt
//	200                       is worked on; see engine
type queueDoor struct {
	engine *engine
	slots  *slots.Slots
	hold   func(context.Context) error // scale-in protection
}

// handle works on one job. ctx ends when the lock is lost or the queue's worker is stopped hard.
func (d *queueDoor) handle(ctx context.Context, job *queue.Job) (any, error) {
	e := d.engine
	data, err := protocol.ParseJobData(job.Data)
	if err != nil {
		e.log.Warn("job refused", slog.String("job_id", job.ID), slog.String("error", err.Error()))
		e.metrics.ended(protocol.SourceQueue, outFailed, 0, "")
		d.slots.Ending()
		return nil, queue.Unrecoverable(err)
	}
	if job.AttemptsStarted <= 1 && !job.Timestamp.IsZero() {
		e.metrics.queueWait.Observe(max(time.Since(job.Timestamp), 0).Seconds())
	}
	r, owned := e.newRun(ctx, data.AnalysisID, protocol.SourceQueue, job.ID, job.AttemptsStarted, job.LastAttempt(), d.slots.Ending)
	defer r.ending()
	e.runs.begin(r, false)
	e.runLog(r).Info("job started")
	if err := d.hold(owned); err != nil { // the job came between the look at the queue and the claim
		e.runLog(r).Warn("works unprotected", slog.String("error", err.Error()))
	}
	j := startJournal(ctx, job, e.runLog(r))
	end := e.fromQueue(owned, r, j)
	if end.outcome != outLostLock {
		j.close(journalClose)
	} else {
		j.close(0)
	}
	if end.outcome == outDelayed && end.delay <= 0 {
		end.delay = lostPause(job.AttemptsStarted - job.AttemptsMade)
	}
	e.finish(r, end)
	return result(end)
}

// lostPause is how long a job waits after its starts-th start in one attempt, if nobody has said how long.
func lostPause(starts int) time.Duration {
	pause := lostClaimFirst
	for i := 1; i < starts && pause < lostClaimMost; i++ {
		pause *= 2
	}
	return min(pause, lostClaimMost)
}

// fromQueue runs a queue job from its redeem on.
func (e *engine) fromQueue(owned context.Context, r *run, j *journal) ending {
	j.setProgress(protocol.Progress{Stage: protocol.StageRedeem})
	if err := e.redeem(owned, r, 0); err != nil {
		j.line(string(protocol.StageRedeem) + ": " + e.stopText(owned, err))
		return e.refused(owned, err)
	}
	return e.perform(owned, r, j)
}

// finish takes the run out of the registry and counts and logs its end.
func (e *engine) finish(r *run, end ending) {
	took := time.Since(r.started)
	e.metrics.ended(r.source, end.outcome, took, r.traceID())
	r.span.Set(trace.Attr{Key: "posefleet.outcome", Value: string(end.outcome)})
	if end.fault != nil {
		r.span.Set(trace.Attr{Key: "error.type", Value: string(end.fault.Code)})
		r.span.Fail(end.fault.Error())
	}
	r.span.End()
	log := e.runLog(r).With(slog.String("outcome", string(end.outcome)), slog.Int64("duration_ms", took.Milliseconds()))
	if end.fault != nil {
		log = log.With(slog.String("error", end.fault.Error()), slog.Bool("retryable", end.fault.Retryable))
	}
	log.Info("job ended")
	e.runs.end(r, end.status(r.source), end.final())
	r.cancel(nil)
}

// result is what the queue makes of an ending.
func result(end ending) (any, error) {
	switch end.outcome {
	case outCompleted, outDelivered, outCancelled:
		return end.returnValue(), nil
	case outFailed:
		return nil, queue.Unrecoverable(end.fault)
	case outDelayed:
		return nil, queue.DelayFor(end.delay, end.fault)
	case outGivenBack:
		return nil, queue.PutBack(end.fault)
	case outLostLock:
		return nil, end.cause
	default:
		return nil, end.fault
	}
}

// deferredFailure runs before the queue fails a job that lost its worker too often: nobody who holds a claim is left
// to say so, and the control plane would wait for ever.
func (d *queueDoor) deferredFailure(ctx context.Context, job *queue.Job, reason string) {
	e := d.engine
	data, err := protocol.ParseJobData(job.Data)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deferredTimeout)
	defer cancel()
	r, owned := e.newRun(ctx, data.AnalysisID, protocol.SourceQueue, job.ID, job.AttemptsStarted, true, d.slots.Ending)
	defer r.ending()
	e.runs.begin(r, false)
	e.runLog(r).Warn("job failed by the queue", slog.String("reason", reason))
	j := startJournal(ctx, job, e.runLog(r))
	defer j.close(journalClose)
	end := e.reportStalled(owned, r, j)
	e.finish(r, end)
}

func (e *engine) reportStalled(owned context.Context, r *run, j *journal) ending {
	if err := e.redeem(owned, r, 0); err != nil {
		return e.refused(owned, err)
	}
	fault := protocol.NewRetryableFault(protocol.CodeLockLost, stalledMessage)
	end, err := e.postFailure(owned, r, fault, j)
	if err != nil {
		e.release(r)
	}
	return end
}
