package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker/internal/extractor"
	"github.com/posefleet/posefleet/worker/internal/scratch"
	"github.com/posefleet/posefleet/worker/internal/trace"
)

const (
	// releaseTimeout bounds the release of a claim at a run's end.
	releaseTimeout = 5 * time.Second
	// failureTimeout bounds the post of a pose.failed, interruptTimeout that of a pose.interrupted.
	failureTimeout   = time.Minute
	interruptTimeout = 8 * time.Second
	// lostClaimFirst is how long a job waits whose claim went to somebody else, before it asks again; it doubles with each start that
	// cost no attempt, up to lostClaimMost: a control plane that takes every claim back must not have the whole work done again each time.
	lostClaimFirst = 5 * time.Second
	lostClaimMost  = 5 * time.Minute
	// journalClose bounds the wait for the last lines of a job's log.
	journalClose = time.Second
)

// engine does the runs of both doors. It is safe for concurrent use.
type engine struct {
	workerID   string
	jobTimeout time.Duration
	maxInput   int64
	client     *claimcheck.Client
	pool       *extractor.Pool
	space      *scratch.Space
	runs       *runs
	reach      *reach
	metrics    *metrics
	tracer     *trace.Tracer
	// secret is the fingerprint of the secret that signs, for the log.
	secret string
	log    *slog.Logger
}

// newRun describes a run; begin makes it live.
func (e *engine) newRun(parent context.Context, id string, source protocol.Source, jobID string, attempt int, last bool, ending func()) (*run, context.Context) {
	owned, cancel := context.WithCancelCause(parent)
	owned, span := e.tracer.Start(owned, "process "+string(source), trace.KindConsumer, trace.Attr{Key: "messaging.system", Value: "bullmq"},
		trace.Attr{Key: "messaging.operation.type", Value: "process"}, trace.Attr{Key: "messaging.message.id", Value: jobID},
		trace.Attr{Key: "posefleet.analysis_id", Value: id}, trace.Attr{Key: "posefleet.attempt", Value: attempt})
	r := &run{
		id: id, source: source, jobID: jobID, attempt: max(attempt, 1), last: last, started: time.Now(), cancel: cancel,
		stopLease: func() {}, ending: sync.OnceFunc(ending), span: span, hint: make(chan struct{}, 1),
	}
	return r, owned
}

// redeem asks for the claim and publishes the outcome on the run. A budget above 0 bounds all tries together, for a
// caller who waits.
func (e *engine) redeem(ctx context.Context, r *run, budget time.Duration) error {
	start := time.Now()
	ask := e.client.Redeem
	if budget > 0 {
		ask = func(ctx context.Context, req protocol.RedeemRequest) (*claimcheck.Redemption, error) {
			return e.client.RedeemWithin(ctx, req, budget)
		}
	}
	ctx, span := e.tracer.Start(ctx, string(protocol.StageRedeem), trace.KindClient)
	defer span.End()
	claim, err := ask(ctx, e.redeemRequest(r))
	took := time.Since(start)
	r.note(protocol.StageRedeem, took)
	e.metrics.stage(protocol.StageRedeem, took, r.traceID())
	e.reach.note(err)
	r.decide(claim, err)
	if err != nil {
		span.Fail(e.stopText(ctx, err))
		e.warnRefused(r, err)
		return err
	}
	e.runLog(r).Info("claim redeemed", slog.String("stage", string(protocol.StageRedeem)),
		slog.Int64("duration_ms", took.Milliseconds()), slog.Int("clips", len(claim.Clips)),
		slog.Bool("artifact_stored", claim.Artifact != nil))
	return nil
}

// warnRefused says loudly what no later try of any job will mend.
func (e *engine) warnRefused(r *run, err error) {
	claim, ok := errors.AsType[*claimcheck.ClaimError](err)
	if !ok || claim.Status != http.StatusUnauthorized && claim.Status != http.StatusForbidden {
		return
	}
	e.runLog(r).Warn("the control plane refuses this worker: their "+EnvPrefix+"WORKER_SECRET differ, or their clocks are apart",
		slog.Int("status", claim.Status), slog.String("worker_secret", e.secret))
}

func (e *engine) redeemRequest(r *run) protocol.RedeemRequest {
	return protocol.RedeemRequest{
		AnalysisID: r.id, WorkerID: e.workerID, Source: r.source, JobID: r.jobID, Attempt: r.attempt,
	}
}

// refused is the ending of a run whose claim was not to be had.
func (e *engine) refused(owned context.Context, err error) ending {
	if owned.Err() != nil {
		return e.stopped(context.Cause(owned), nil)
	}
	claim, ok := errors.AsType[*claimcheck.ClaimError](err)
	if !ok {
		return ending{outcome: outRetried, fault: timeoutFault(err)}
	}
	switch claim.Kind {
	case claimcheck.KindUnknown:
		return ending{outcome: outFailed, fault: claim.Fault}
	case claimcheck.KindGone:
		return gone(claim)
	case claimcheck.KindHeld:
		return ending{outcome: outDelayed, fault: claim.Fault, delay: claim.RetryAfter}
	default:
		return ending{outcome: outRetried, fault: retryable(claim.Fault)}
	}
}

// gone is the ending of a run whose result nobody needs any more.
func gone(claim *claimcheck.ClaimError) ending {
	if claim != nil && claim.Reason == protocol.GoneCancelled {
		return ending{outcome: outCancelled}
	}
	return ending{outcome: outDelivered}
}

// perform does the work of a run whose claim is redeemed, up to the report, and settles what is left. A panic costs
// the attempt, not the worker and the runs beside it.
func (e *engine) perform(owned context.Context, r *run, j *journal) (end ending) {
	claim := r.redemption()
	defer func() {
		if p := recover(); p != nil {
			e.runLog(r).Error("panic", slog.Any("value", p), slog.String("stack", string(debug.Stack())))
			e.release(r)
			end = ending{outcome: outRetried, fault: protocol.NewRetryableFault(protocol.CodeInternal, "the worker ran into a fault of its own")}
		}
	}()
	r.stopLease = startLease(owned, e.client, claim, r.hint, r.leaseOver, e.runLog(r))
	defer r.stopLease()
	work, cancel := context.WithTimeoutCause(owned, e.jobTimeout-time.Since(r.started), ErrJobTimeout)
	defer cancel()
	end, err := e.work(work, r, j)
	if err != nil {
		end = e.settle(owned, r, err, j)
	}
	end.epoch = &claim.Epoch
	return end
}

// work takes a run through its stages. A nil error means that the control plane has the result or does not want it.
func (e *engine) work(ctx context.Context, r *run, j *journal) (ending, error) {
	claim := r.redemption()
	j.line(fmt.Sprintf("%s: claim of epoch %d, %s", protocol.StageRedeem, claim.Epoch, clipCount(len(claim.Clips))))
	if claim.ParamsFault != nil {
		return ending{}, claim.ParamsFault
	}
	// A result that can't be posted is not worth the minutes that it takes to make one.
	if err := e.client.CheckCallbackURL(claim.Callback.URL); err != nil {
		return ending{}, err
	}
	done := claim.Artifact
	if done == nil {
		var err error
		if done, err = e.produce(ctx, r, j); err != nil {
			return ending{}, err
		}
	}
	body, err := completedBody(r, e.workerID, done)
	if err != nil {
		return ending{}, err
	}
	var end ending
	err = e.stage(ctx, r, j, protocol.StageReport, func(ctx context.Context) (string, error) {
		r.markPosted()
		outcome, err := e.client.Report(ctx, claim.Callback.URL, protocol.ResultID(protocol.ResultCompleted, r.id, claim.Epoch), body)
		end = reported(outcome)
		return string(end.outcome), err
	})
	return end, err
}

// produce downloads, extracts and uploads, and returns the stored artifact. The scratch folder is gone afterwards.
func (e *engine) produce(ctx context.Context, r *run, j *journal) (_ *protocol.StoredArtifact, err error) {
	dir, err := e.space.Job()
	if err != nil {
		return nil, diskFault(err)
	}
	defer func() {
		if rmErr := dir.Remove(); rmErr != nil {
			e.runLog(r).Error("scratch folder not removed", slog.String("error", rmErr.Error()))
		}
	}()
	if err := e.stage(ctx, r, j, protocol.StageDownload, func(ctx context.Context) (string, error) {
		return e.download(ctx, r, dir, j)
	}); err != nil {
		return nil, err
	}
	var result extractor.Result
	if err := e.stage(ctx, r, j, protocol.StageExtract, func(ctx context.Context) (text string, err error) {
		result, text, err = e.extract(ctx, r, dir, j)
		return text, err
	}); err != nil {
		return nil, err
	}
	var stored *protocol.StoredArtifact
	err = e.stage(ctx, r, j, protocol.StageUpload, func(ctx context.Context) (text string, err error) {
		stored, text, err = e.upload(ctx, r, result)
		return text, err
	})
	return stored, err
}

// settle ends a run that did not deliver: it tells the control plane what it has to know, once.
func (e *engine) settle(owned context.Context, r *run, err error, j *journal) ending {
	if owned.Err() != nil {
		return e.stopped(context.Cause(owned), r)
	}
	fault := faultOf(err)
	if fault.Code == protocol.CodeResultRefused { // the control plane will take no result: nothing more is posted
		e.release(r)
		return ending{outcome: outFailed, fault: fault}
	}
	if fault.Retryable && !r.last {
		e.release(r)
		return ending{outcome: outRetried, fault: fault}
	}
	// The failed result has the webhook-id that the completed one has: once that went out it may have been stored,
	// and another body must not follow under the same id.
	if !r.wasPosted() {
		if end, err := e.postFailure(owned, r, fault, j); err == nil {
			return end
		}
		if owned.Err() != nil {
			return e.stopped(context.Cause(owned), r)
		}
	}
	e.release(r)
	if fault.Retryable {
		return ending{outcome: outRetried, fault: fault}
	}
	return ending{outcome: outFailed, fault: fault}
}

// postFailure posts pose.failed. An error says that nobody was told.
func (e *engine) postFailure(owned context.Context, r *run, fault *protocol.Fault, j *journal) (ending, error) {
	claim := r.redemption()
	ctx, cancel := context.WithTimeout(owned, failureTimeout)
	defer cancel()
	body, err := failedBody(r, e.workerID, fault)
	if err != nil {
		return ending{}, err
	}
	end := ending{outcome: outFailed, fault: fault}
	err = e.stage(ctx, r, j, protocol.StageReport, func(ctx context.Context) (string, error) {
		outcome, err := e.client.Report(ctx, claim.Callback.URL, protocol.ResultID(protocol.ResultFailed, r.id, claim.Epoch), body)
		if err == nil && outcome != claimcheck.ReportStored {
			end = reported(outcome)
		}
		return string(fault.Code), err
	})
	if err != nil {
		e.runLog(r).Error("failure not reported", slog.String("error", err.Error()))
	}
	return end, err
}

// stopped is the ending of a run whose context was cancelled. r is nil if it never had a claim.
func (e *engine) stopped(cause error, r *run) ending {
	held := r != nil && r.redemption() != nil
	switch {
	case errors.Is(cause, queue.ErrLockLost):
		if held {
			e.release(r) // of our epoch only: whoever has the job by now holds a higher one
		}
		return ending{outcome: outLostLock, cause: cause}
	case errors.Is(cause, ErrUnwanted):
		claim, _ := errors.AsType[*claimcheck.ClaimError](cause)
		return gone(claim)
	case errors.Is(cause, ErrLeaseLost):
		return ending{outcome: outDelayed, fault: lostFault(cause)}
	case errors.Is(cause, ErrLeaseExpired):
		return e.expired(cause, r)
	case errors.Is(cause, ErrCancelled):
		if held {
			e.release(r)
		}
		return ending{outcome: outCancelled}
	default: // ErrDraining, or a hard stop
		if held {
			e.giveBack(r)
		}
		return ending{outcome: outGivenBack, fault: interruptedFault(cause)}
	}
}

// expired is the ending of a run whose lease ran out unrenewed. Nobody else is known to have the claim, and the control plane may answer
// this although it did not answer the renewals: on the last attempt it is told that no other follows.
func (e *engine) expired(cause error, r *run) ending {
	end := ending{outcome: outRetried, fault: expiredFault(cause)}
	if r == nil || r.redemption() == nil {
		return end
	}
	if r.last && !r.wasPosted() {
		r.stopLease()
		if told, err := e.postFailure(r.apart(), r, end.fault, startJournal(context.Background(), nil, e.log)); err == nil {
			return told
		}
	}
	e.release(r)
	return end
}

// giveBack frees the claim before the job becomes takeable again, so that whoever takes it finds the claim free. A
// run of the HTTP door has no queue to go back to: the control plane is told.
func (e *engine) giveBack(r *run) {
	if r.source == protocol.SourceHTTP {
		e.postInterrupted(r)
	}
	e.release(r)
}

func (e *engine) postInterrupted(r *run) {
	claim := r.redemption()
	ctx, cancel := context.WithTimeout(r.apart(), interruptTimeout)
	defer cancel()
	body, err := interruptedBody(r, e.workerID)
	if err == nil {
		_, err = e.client.Report(ctx, claim.Callback.URL, protocol.ResultID(protocol.ResultInterrupted, r.id, claim.Epoch), body)
	}
	if err != nil {
		e.runLog(r).Error("interruption not reported", slog.String("error", err.Error()))
	}
}

// release gives the claim back on a context of its own: the run's has ended. A claim that is not released runs out.
func (e *engine) release(r *run) {
	r.stopLease()
	ctx, cancel := context.WithTimeout(r.apart(), releaseTimeout)
	defer cancel()
	if err := e.client.Release(ctx, leaseRequest(r.redemption())); err != nil {
		e.runLog(r).Warn("claim not released", slog.String("error", err.Error()))
	}
}

// stage runs one stage: state, progress, time, one line in the job's log and in ours.
func (e *engine) stage(ctx context.Context, r *run, j *journal, name protocol.Stage, f func(context.Context) (string, error)) error {
	r.enter(name)
	if name == protocol.StageReport {
		r.ending() // the work is done: a client who sees the result may come with the next job before we are told
	}
	j.setProgress(protocol.Progress{Stage: name})
	ctx, span := e.tracer.Start(ctx, string(name), trace.KindInternal)
	defer span.End()
	start := time.Now()
	text, err := f(ctx)
	took := time.Since(start)
	e.metrics.stage(name, took, r.traceID())
	r.note(name, took)
	log := e.runLog(r).With(slog.String("stage", string(name)), slog.Int64("duration_ms", took.Milliseconds()))
	if err != nil {
		text := e.stopText(ctx, err)
		if wanted(ctx) {
			log.Info("stage stopped", slog.String("reason", text))
			j.line(fmt.Sprintf("%s: stopped after %d ms: %s", name, took.Milliseconds(), text))
			return err
		}
		span.Fail(text)
		log.Warn("stage failed", slog.String("error", text))
		j.line(fmt.Sprintf("%s: failed after %d ms: %s", name, took.Milliseconds(), text))
		return err
	}
	e.progress(r, j, name, 1)
	log.Info("stage done", slog.String("result", text))
	j.line(fmt.Sprintf("%s: %s, %d ms", name, text, took.Milliseconds()))
	return nil
}

// stopText says why a stage ended early: in the words of whoever stopped it, if somebody did.
func (e *engine) stopText(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return context.Cause(ctx).Error()
	}
	return faultOf(err).Error()
}

// progress publishes the share of a stage.
func (e *engine) progress(r *run, j *journal, stage protocol.Stage, done float64) {
	r.setProgress(done)
	j.setProgress(protocol.Progress{Stage: stage, Done: float64(int(done*1000)) / 1000})
}

// runLog carries what names a run.
func (e *engine) runLog(r *run) *slog.Logger {
	log := e.log.With(slog.String("analysis_id", r.id), slog.String("job_id", r.jobID), slog.Int("attempt", r.attempt),
		slog.String("source", string(r.source)), slog.String("trace_id", r.span.Context().TraceID),
		slog.String("span_id", r.span.Context().SpanID))
	if claim := r.redemption(); claim != nil {
		log = log.With(slog.Int64("epoch", claim.Epoch))
	}
	return log
}
