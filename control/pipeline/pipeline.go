package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

const (
	// version is what DBOS calls the version of the application. It stays: runs of former versions are taken up by the present one.
	version = "1"
	// workflowName is the durable function's, for good.
	workflowName = "analysis"
	// sweepInterval is how often runs that nobody has are looked for, runIdle how long a run has to be without a move to be looked at.
	sweepInterval = time.Minute
	runIdle       = time.Minute
	sweepBatch    = 200
	sweepPages    = 20
	// sweepFaults is how many runs may fail to be begun anew before a sweep leaves the rest to the next one: the database may be away.
	sweepFaults = 5
	// runMemory is how long finished runs are kept.
	runMemory = 30 * 24 * time.Hour
	// closeGrace is how long running steps may take to hear of the end.
	closeGrace = 10 * time.Second
)

// Pipeline runs analyses. It is made by Open.
type Pipeline struct {
	cfg     Config
	log     *slog.Logger
	engine  *engine
	waiting waiting
	doubts  *doubts
	// standstills say what runs wait for.
	standstills *standstills
	// swept is where the last sweep stopped, hinted where the last hints did; both belong to Run's goroutine.
	swept  store.Run
	hinted store.DecidedRun
	// unread and unseen are what is tried every few seconds and may fail each time.
	unread, unseen seldom
}

// Open connects to where the steps are kept and takes up the runs that an end of the process left. Whoever calls Open calls Close.
func Open(ctx context.Context, cfg Config) (*Pipeline, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	cfg.setDefaults()
	p := &Pipeline{cfg: cfg, log: cfg.Logger, waiting: waiting{runs: map[store.RunKey]chan struct{}{}}, doubts: newDoubts(), standstills: newStandstills(cfg.Logger)}
	var err error
	if p.engine, err = openEngine(ctx, cfg.DatabaseURL, cfg.Takeover, cfg.Logger, p.analysis); err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}

	return p, nil
}

// Start begins the run that the outbox asks for. A run that has begun, or ended, stays as it is.
func (p *Pipeline) Start(ctx context.Context, e store.OutboxEntry) error {
	k := store.RunKey{AnalysisID: e.AnalysisID, Round: e.Round}

	return p.start(ctx, k, store.RunReason(e.Reason), workflowID(k, 0))
}

func (p *Pipeline) start(ctx context.Context, k store.RunKey, reason store.RunReason, id string) error {
	in := input{AnalysisID: k.AnalysisID, Round: k.Round, Reason: reason}
	for _, o := range p.cfg.Optional {
		if o.On {
			in.Steps = append(in.Steps, o.ID)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// The run belongs to the process, not to the call.
	if _, err := dbos.RunWorkflow(p.engine.dbos, p.analysis, in, dbos.WithWorkflowID(id)); err != nil {
		p.doubts.add(id)

		return fmt.Errorf("start run of %s: %w", k.AnalysisID, err)
	}

	return nil
}

// Hint tells a run that its round may have been decided.
func (p *Pipeline) Hint(analysisID string, round int64) {
	p.waiting.hint(store.RunKey{AnalysisID: analysisID, Round: round})
}

// Run looks for decisions that others made and for runs that nobody has, until ctx ends. It returns an error if this process may not go
// on with its runs, because another one took them.
func (p *Pipeline) Run(ctx context.Context) error {
	poll, sweep, adopt := time.NewTicker(p.cfg.Poll), time.NewTicker(sweepInterval), time.NewTicker(p.cfg.Takeover/seatChecks)
	defer poll.Stop()
	defer sweep.Stop()
	defer adopt.Stop()
	p.Sweep(ctx) // after a restore there may be runs of which nothing is kept
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-p.engine.lost:
			return err
		case <-poll.C:
			p.hints(ctx)
			p.settleDoubts(ctx)
			p.mend(ctx)
		case <-sweep.C:
			p.Sweep(ctx)
		case <-adopt.C:
			p.adopt(ctx)
		}
	}
}

// adopt takes over runs whose process is gone. That it can't look for them is said once in a while: it looks every few seconds.
func (p *Pipeline) adopt(ctx context.Context) {
	if err := p.engine.adopt(ctx, p.log); err != nil && ctx.Err() == nil && p.unseen.due() {
		p.log.ErrorContext(ctx, "runs of other processes can't be looked at", slog.Any("error", err))
	}
}

// hints tells runs what the database says, those that were decided first before the others. Of very many it tells some now, and goes on at
// the next call.
func (p *Pipeline) hints(ctx context.Context) {
	if !p.waiting.any() {
		return
	}
	for range sweepPages {
		page, err := p.cfg.Store.DecidedRuns(ctx, p.hinted, sweepBatch)
		if err != nil && ctx.Err() == nil && p.unread.due() {
			p.log.ErrorContext(ctx, "decided runs can't be read", slog.Any("error", err))
		}
		for _, d := range page {
			p.waiting.hint(d.RunKey)
		}
		if len(page) < sweepBatch {
			p.hinted = store.DecidedRun{}

			return
		}
		p.hinted = page[len(page)-1]
	}
}

// Sweep begins runs anew that are not kept any more, ends those that can't go on, and forgets old ones. Run does so by itself; tests call it.
func (p *Pipeline) Sweep(ctx context.Context) {
	if err := errors.Join(p.orphans(ctx), p.engine.forget(runMemory, sweepBatch)); err != nil && ctx.Err() == nil {
		p.log.ErrorContext(ctx, "runs can't be swept", slog.Any("error", err))
	}
}

// orphans looks at the runs that have not moved for a while.
func (p *Pipeline) orphans(ctx context.Context) error {
	for range sweepPages {
		rows, err := p.cfg.Store.OpenRuns(ctx, p.cfg.Now().Add(-runIdle), p.swept, sweepBatch)
		if err != nil || len(rows) == 0 {
			p.swept = store.Run{}

			return err
		}
		states, err := p.engine.states(rows)
		if err == nil {
			p.swept, err = eachRow(rows, func(row store.Run) error { return p.renew(ctx, row, states) })
		}
		for id, state := range states {
			if state == dbos.WorkflowStatusPending && !p.doubts.runs(id) {
				p.doubts.add(id)
			}
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// eachRow does something for each run, up to the one with which too much has failed, and returns the last one. A run with which it fails each
// time keeps nobody from those that come after it.
func eachRow(rows []store.Run, do func(store.Run) error) (store.Run, error) {
	var errs []error
	for _, row := range rows {
		if err := do(row); err != nil {
			errs = append(errs, err)
		}
		if len(errs) == sweepFaults {
			return row, errors.Join(errs...)
		}
	}

	return rows[len(rows)-1], errors.Join(errs...)
}

// renew begins a run anew if nothing of it is kept or if what is kept can't be taken up, as when its code has no place for it. The
// steps find out what has been done. After four times its round ends.
func (p *Pipeline) renew(ctx context.Context, row store.Run, states map[string]dbos.WorkflowStatusType) error {
	k := store.RunKey{AnalysisID: row.AnalysisID, Round: row.Round}
	for again := range maxRetries + 1 {
		id := workflowID(k, again)
		switch states[id] {
		case "":
			if again > 0 {
				p.log.ErrorContext(ctx, "a run could not be taken up and is begun anew", slog.String("analysis_id", k.AnalysisID), slog.Int("retry", again))
			}

			return p.start(ctx, k, row.Reason, id)
		case dbos.WorkflowStatusError, dbos.WorkflowStatusSuccess, dbos.WorkflowStatusCancelled, dbos.WorkflowStatusMaxRecoveryAttemptsExceeded:
		default:
			return nil
		}
	}

	return p.giveUp(ctx, k)
}

// giveUp ends a run for which nothing else is left.
func (p *Pipeline) giveUp(ctx context.Context, k store.RunKey) error {
	p.log.ErrorContext(ctx, "a run could not be taken up; its round ends here", slog.String("analysis_id", k.AnalysisID), slog.Int64("round", k.Round))
	_, err := p.cfg.Store.FailRun(ctx, k, protocol.CodeInternal, "the run of the analysis could not be taken up again")
	if err == nil {
		_, err = p.cfg.Store.NotifyRun(ctx, k)
	}
	p.cfg.OnWrite(k.AnalysisID)

	return err
}

// Close ends what runs here. Steps hear of it by their context; runs go on where they are taken up again.
func (p *Pipeline) Close() error {
	if p.engine == nil {
		return nil
	}

	return p.engine.close()
}
