package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// Ids of the steps, for good: what is kept of a run names them.
const (
	stepAnalysing = "analysing"
	stepWake      = "wake"
	stepPrecheck  = "precheck"
	stepDispatch  = "dispatch"
	stepAwait     = "await"
	stepRetry     = "retry"
	stepFail      = "fail"
	stepPersist   = "persist"
	stepReport    = "report"
	stepNotify    = "notify"
)

func stepIDs() []string {
	return []string{
		stepAnalysing, stepWake, stepPrecheck, stepDispatch, stepAwait, stepRetry, stepFail, stepPersist, stepReport, stepNotify,
	}
}

// optionalBefore tells where optional steps may be.
func optionalBefore(id string) bool {
	return slices.Contains([]string{stepWake, stepPrecheck, stepDispatch, stepReport, stepNotify}, id)
}

// maxRetries is how often a step that is not the database's, and a lost dispatch, is tried again.
const maxRetries = 4

// Bounds of the pauses between two questions to the fleet, and how long it is asked: a job in the queue wakes it as well.
const (
	wakeAgainLeast = 50 * time.Millisecond
	wakeAgainMost  = time.Minute
	wakeLimit      = 15 * time.Minute
)

// input is what a run is begun with. It is kept with the run: it only gains fields, each of which older runs lack.
type input struct {
	AnalysisID string          `json:"analysisId"`
	Round      int64           `json:"round"`
	Reason     store.RunReason `json:"reason"`
	// Steps are the optional ones that were on.
	Steps []string `json:"steps,omitempty"`
}

func (in input) key() store.RunKey { return store.RunKey{AnalysisID: in.AnalysisID, Round: in.Round} }

// workflowID is the key of a run: one for each round of an analysis, and another one only if it has to begin anew.
func workflowID(k store.RunKey, again int) string {
	id := fmt.Sprintf("run_%s_%d", k.AnalysisID, k.Round)
	if again > 0 {
		id += fmt.Sprintf("~%d", again)
	}

	return id
}

// progress is what a step returns. It is kept with the run, as input is.
type progress struct {
	// Outcome is how the round was decided, or empty.
	Outcome store.Status `json:"outcome,omitempty"`
	// Fault is why the round can't go on.
	Fault *Refusal `json:"fault,omitempty"`
	// Gone: there is no such run.
	Gone bool `json:"gone,omitempty"`
	// Again is when to ask the fleet again.
	Again time.Duration `json:"again,omitempty"`
	// Lost: nobody has the analysis.
	Lost bool `json:"lost,omitempty"`
}

// ended tells whether there is nothing to do any more before the outcome's effects.
func (p progress) ended() bool { return p.Outcome != "" || p.Gone }

// run is one execution of a run, the first or one that takes it up again.
type run struct {
	*Pipeline
	ctx dbos.Context
	in  input
	// looked tells whether the run has waited for its decision in this process.
	looked bool
}

// analysis is the durable function. An error leaves the run where it is: the process ends, what is kept can't be read, or the code has no
// place for it. Unless the process ends, it is begun anew.
func (p *Pipeline) analysis(ctx dbos.Context, in input) (store.Status, error) {
	if id, err := dbos.GetWorkflowID(ctx); err == nil {
		defer p.doubts.began(id)()
	}
	r := &run{Pipeline: p, ctx: ctx, in: in}
	outcome, err := r.all()
	if err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "a run ended with an error", slog.String("analysis_id", in.AnalysisID), slog.Any("error", err))
		p.doubts.broke(in.key())
	}

	return outcome, err
}

func (r *run) all() (store.Status, error) {
	last, err := r.work()
	if err == nil && last.Fault != nil {
		// The catch-all: whatever went wrong, the round ends, and its credit goes back once.
		fault := *last.Fault
		last, err = r.step(stepFail, func(ctx context.Context) (progress, error) { return r.fail(ctx, fault) })
	}
	if err != nil || last.Gone {
		return last.Outcome, err
	}

	return last.Outcome, r.finish(last.Outcome)
}

// work brings the round to its decision.
func (r *run) work() (progress, error) {
	last, err := r.step(stepAnalysing, r.analysing)
	if err != nil || last.ended() {
		return last, err
	}
	if r.sends() {
		if last, err = r.send(); err != nil || last.ended() || last.Fault != nil {
			return last, err
		}
	}

	return r.await()
}

// sends tells whether the run hands the analysis over itself.
func (r *run) sends() bool {
	return r.in.Reason == store.RunSubmitted || r.in.Reason == store.RunRetried
}

// send hands the analysis over.
func (r *run) send() (progress, error) {
	last, err := r.optional(stepWake)
	if err == nil && last.Fault == nil {
		last, err = r.wake()
	}
	for _, s := range []struct {
		id string
		do func(context.Context) (progress, error)
	}{{stepPrecheck, r.precheck}, {stepDispatch, r.dispatch}} {
		if err != nil || last.ended() || last.Fault != nil {
			return last, err
		}
		if last, err = r.optional(s.id); err == nil && last.Fault == nil {
			last, err = r.step(s.id, s.do)
		}
	}

	return last, err
}

// wake asks the fleet until it is ready. It sleeps in between, and holds nothing.
func (r *run) wake() (progress, error) {
	for asked := time.Duration(0); ; {
		last, err := r.step(stepWake, r.askFleet)
		if err != nil || last.ended() || last.Again == 0 || asked > wakeLimit {
			return last, err
		}
		if _, err := dbos.Sleep(r.ctx, last.Again); err != nil {
			return last, err
		}
		asked += last.Again
	}
}

// await waits for the decision. Nobody having the analysis any more is a reason to send it again, up to a limit.
func (r *run) await() (progress, error) {
	for retries := 0; ; {
		last, err := r.step(stepAwait, r.look)
		if err != nil || last.ended() || last.Fault != nil {
			return last, err
		}
		if !last.Lost {
			continue
		}
		if retries++; retries > maxRetries {
			last.Fault = &Refusal{Code: protocol.CodeInternal, Message: fmt.Sprintf("the analysis was lost after each of %d dispatches", retries)}

			return last, nil
		}
		last, err = r.step(stepRetry, func(ctx context.Context) (progress, error) { return r.retry(ctx, retries) })
		if err != nil || last.ended() {
			return last, err
		}
	}
}

// finish has what follows the decision.
func (r *run) finish(outcome store.Status) error {
	if _, err := r.step(stepPersist, r.persist); err != nil {
		return err
	}
	if _, err := r.optional(stepReport); err != nil {
		return err
	}
	if outcome == store.StatusDelivered {
		if _, err := r.step(stepReport, r.report); err != nil {
			return err
		}
	}
	if _, err := r.optional(stepNotify); err != nil {
		return err
	}
	_, err := r.step(stepNotify, r.notify)

	return err
}

// optional runs the optional steps before a step.
func (r *run) optional(before string) (progress, error) {
	var last progress
	for _, o := range r.cfg.Optional {
		if o.Before != before || !slices.Contains(r.in.Steps, o.ID) {
			continue
		}
		var err error
		last, err = r.step(o.ID, func(ctx context.Context) (progress, error) { return r.plugged(ctx, o.ID, o.Run) })
		if err != nil || last.Fault != nil {
			return last, err
		}
	}

	return last, nil
}

// step runs a step, or takes what it returned before. Its function returns an error only if the process ends.
func (r *run) step(id string, do func(context.Context) (progress, error)) (progress, error) {
	out, err := dbos.RunAsStep(r.ctx, func(ctx context.Context) (progress, error) {
		r.cfg.Point(id + ":begin")
		out, err := r.persevere(ctx, id, do)
		if err == nil {
			r.cfg.Point(id + ":done")
		}

		return out, err
	}, dbos.WithStepName(id))
	if err != nil {
		return out, fmt.Errorf("step %s: %w", id, err)
	}
	r.cfg.Point(id + ":kept")

	return out, nil
}
