package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// RunReason says why a run was begun, and with it what it has to do.
type RunReason string

// Reasons of a run.
const (
	// RunSubmitted: the clips are there; the run sees to the work from its dispatch to the notice.
	RunSubmitted RunReason = "submitted"
	// RunFollowed: somebody else dispatches; the run waits for the outcome and does what follows.
	RunFollowed RunReason = "followed"
	// RunRetried: a person asked us to have a failed analysis run again; as submitted, but the queue knows its job already.
	RunRetried RunReason = "retried"
	// RunReopened: a person had a failed analysis started once more; the work is under way already.
	RunReopened RunReason = "reopened"
)

// RunStage is how far a run has come. Stages only grow; numbers are never given to another stage, and leave room for new ones.
type RunStage int

// Stages of a run, in order.
const (
	StageBegun      RunStage = 0
	StageAnalysing  RunStage = 10
	StageAwake      RunStage = 20
	StageChecked    RunStage = 30
	StageDispatched RunStage = 40
	StagePersisted  RunStage = 50
	StageReported   RunStage = 60
	StageNotified   RunStage = 70
)

// StageFollowed is no stage: it counts the runs that only wait.
const StageFollowed RunStage = -1

// String names the stage.
func (s RunStage) String() string {
	switch s {
	case StageFollowed:
		return "followed"
	case StageAnalysing:
		return "analysing"
	case StageAwake:
		return "awake"
	case StageChecked:
		return "checked"
	case StageDispatched:
		return "dispatched"
	case StagePersisted:
		return "persisted"
	case StageReported:
		return "reported"
	case StageNotified:
		return "notified"
	}

	return "begun"
}

// Way is how a run hands its analysis to a worker.
type Way string

// Ways of a dispatch. WayNone: there was nothing to hand over.
const (
	WayQueue Way = "queue"
	WayHTTP  Way = "http"
	WayNone  Way = "none"
)

// Run is the durable run of one round of an analysis, as far as it has come.
type Run struct {
	AnalysisID string
	Round      int64
	Reason     RunReason
	Stage      RunStage
	// Way is empty before the dispatch.
	Way Way
	// Retries counts dispatches after the first.
	Retries int
	// Outcome is how the round was decided, or empty.
	Outcome   Status
	CreatedAt time.Time
	UpdatedAt time.Time
	// EndedAt is when the last stage was reached, or zero.
	EndedAt time.Time
}

// RunKey names a run.
type RunKey struct {
	AnalysisID string
	Round      int64
}

// DecidedRun is a run whose round was decided, and when.
type DecidedRun struct {
	RunKey

	// At is zero where a former version decided.
	At time.Time
}

// Runs is what the durable pipeline reads and writes. Each write happens once, however often it is asked for.
type Runs interface {
	// Run reads a run, or ErrUnknown.
	Run(ctx context.Context, k RunKey) (Run, error)
	// AnalysisRuns lists the runs of an analysis, oldest first.
	AnalysisRuns(ctx context.Context, id string) ([]Run, error)
	// AdvanceRun notes a stage that was reached, with a line in the timeline if it has an event. A run that is further stays there.
	AdvanceRun(ctx context.Context, k RunKey, stage RunStage, event, detail string) (Run, error)
	// DispatchRun writes the intent to hand the analysis over in this way, unless it was written, somebody works on it or it was decided.
	DispatchRun(ctx context.Context, k RunKey, way Way) (Run, error)
	// RetryRun writes the intent once more as the given retry, counted from 1, unless that was done or the round was decided.
	RetryRun(ctx context.Context, k RunKey, retry int) (Run, error)
	// NotifyRun writes the notice of the round and ends the run.
	NotifyRun(ctx context.Context, k RunKey) (Run, error)
	// FailRun decides a round that can't come to an end, unless it was decided: failed, with its refund.
	FailRun(ctx context.Context, k RunKey, code protocol.Code, message string) (Run, error)
	// OutboxOf tells whether the outbox has an entry of one of these kinds for the analysis.
	OutboxOf(ctx context.Context, id string, kinds ...OutboxKind) (bool, error)
	// DecidedRuns lists runs whose round was decided and which have not ended, in the order of the decisions, at most limit, from the one after
	// the given run on; the zero run is before all.
	DecidedRuns(ctx context.Context, after DecidedRun, limit int) ([]DecidedRun, error)
	// OpenRuns lists runs that have not ended and not moved since the given time, oldest first, at most limit, from the one after the given
	// run on; the zero run is before all.
	OpenRuns(ctx context.Context, before time.Time, after Run, limit int) ([]Run, error)
	// RunStages counts the runs that have not ended, by the stage that they have reached. Those that wait for what somebody else began, for as
	// long as that takes, are StageFollowed.
	RunStages(ctx context.Context) (map[RunStage]RunCount, error)
}

// RunCount is how many runs are in a stage, and when the one that has been there for longest moved last.
type RunCount struct {
	Runs    int64
	MovedAt time.Time
}

// The state of the analysis says how a round was decided also where the writer knew of no runs.
const runColumns = `r.analysis_id, r.round, r.reason, r.stage, r.way, r.retries, CASE WHEN r.outcome <> '' THEN r.outcome
	WHEN a.round > r.round THEN 'failed' WHEN a.status IN ('delivered', 'failed', 'cancelled') THEN a.status ELSE '' END,
	r.created_at, r.updated_at, r.ended_at FROM runs r JOIN analyses a ON a.id = r.analysis_id`

func scanRun(r scanner) (Run, error) {
	var out Run
	var created, updated, ended int64
	err := r.Scan(&out.AnalysisID, &out.Round, &out.Reason, &out.Stage, &out.Way, &out.Retries, &out.Outcome, &created, &updated, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		return out, ErrUnknown
	}
	out.CreatedAt, out.UpdatedAt, out.EndedAt = fromMillis(created), fromMillis(updated), fromMillis(ended)

	return out, err
}

// Run reads a run.
func (s *sqlStore) Run(ctx context.Context, k RunKey) (Run, error) {
	r, err := scanRun(s.reader.QueryRowContext(ctx, `SELECT `+runColumns+` WHERE r.analysis_id = $1 AND r.round = $2`, k.AnalysisID, k.Round))
	if err != nil {
		return r, fmt.Errorf("read run: %w", err)
	}

	return r, nil
}

// AnalysisRuns lists the runs of an analysis.
func (s *sqlStore) AnalysisRuns(ctx context.Context, id string) ([]Run, error) {
	return s.runs(ctx, `SELECT `+runColumns+` WHERE r.analysis_id = $1 ORDER BY r.round`, id)
}

// OpenRuns lists runs that have not ended.
func (s *sqlStore) OpenRuns(ctx context.Context, before time.Time, after Run, limit int) ([]Run, error) {
	return s.runs(ctx, `SELECT `+runColumns+` WHERE r.ended_at = 0 AND r.updated_at < $1 AND (r.updated_at, r.analysis_id, r.round) > ($2, $3, $4)
		ORDER BY r.updated_at, r.analysis_id, r.round LIMIT $5`, millis(before), millis(after.UpdatedAt), after.AnalysisID, after.Round, limit)
}

func (s *sqlStore) runs(ctx context.Context, query string, args ...any) ([]Run, error) {
	rows, err := s.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	all, err := scanAll(rows, scanRun)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}

	return all, nil
}

// decidedQuery finds its page by an index, in its order.
const decidedQuery = `SELECT analysis_id, round, decided_at FROM runs WHERE ended_at = 0 AND outcome <> ''
	AND (decided_at, analysis_id, round) > ($1, $2, $3) ORDER BY decided_at, analysis_id, round LIMIT $4`

// DecidedRuns lists runs that have something to do.
func (s *sqlStore) DecidedRuns(ctx context.Context, after DecidedRun, limit int) ([]DecidedRun, error) {
	rows, err := s.reader.QueryContext(ctx, decidedQuery, millis(after.At), after.AnalysisID, after.Round, limit)
	if err != nil {
		return nil, fmt.Errorf("list decided runs: %w", err)
	}
	all, err := scanAll(rows, func(r scanner) (DecidedRun, error) {
		var d DecidedRun
		var at int64
		err := r.Scan(&d.AnalysisID, &d.Round, &at)
		d.At = fromMillis(at)

		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("list decided runs: %w", err)
	}

	return all, nil
}

// RunStages counts what is open. It reads those, not the rest.
func (s *sqlStore) RunStages(ctx context.Context) (map[RunStage]RunCount, error) {
	out := map[RunStage]RunCount{}
	for _, stage := range []RunStage{StageFollowed, StageBegun, StageAnalysing, StageAwake, StageChecked, StageDispatched, StagePersisted, StageReported} {
		out[stage] = RunCount{}
	}
	rows, err := s.reader.QueryContext(ctx, `SELECT CASE WHEN outcome = '' AND reason IN ('followed', 'reopened') THEN -1 ELSE stage END AS reached,
		count(*), min(updated_at) FROM runs WHERE ended_at = 0 GROUP BY reached`)
	if err != nil {
		return nil, fmt.Errorf("count open runs: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var stage RunStage
		var n, moved int64
		if err := rows.Scan(&stage, &n, &moved); err != nil {
			return nil, fmt.Errorf("count open runs: %w", err)
		}
		out[stage] = RunCount{Runs: n, MovedAt: fromMillis(moved)}
	}

	return out, rows.Err()
}

// OutboxOf looks for what is still to be carried out for an analysis.
func (s *sqlStore) OutboxOf(ctx context.Context, id string, kinds ...OutboxKind) (bool, error) {
	for _, kind := range kinds {
		var n int
		err := s.reader.QueryRowContext(ctx, `SELECT count(*) FROM outbox WHERE analysis_id = $1 AND kind = $2`, id, string(kind)).Scan(&n)
		if err != nil {
			return false, fmt.Errorf("look into the outbox: %w", err)
		}
		if n > 0 {
			return true, nil
		}
	}

	return false, nil
}

// AdvanceRun notes a stage.
func (s *sqlStore) AdvanceRun(ctx context.Context, k RunKey, stage RunStage, event, detail string) (Run, error) {
	return s.writeRun(ctx, "advance run", k, func(t *tx) error {
		fresh, err := t.advanceRun(k, stage)
		if err != nil || !fresh || event == "" {
			return err
		}

		return t.event(Event{AnalysisID: k.AnalysisID, Kind: event, Detail: detail})
	})
}

// DispatchRun writes the dispatch.
func (s *sqlStore) DispatchRun(ctx context.Context, k RunKey, way Way) (Run, error) {
	return s.writeRun(ctx, "dispatch run", k, func(t *tx) error {
		// The analysis first, as a result does: two that lock in another order would wait for each other.
		a, err := t.lockAnalysis(k.AnalysisID)
		if err != nil {
			return err
		}
		fresh, err := t.advanceRun(k, StageDispatched)
		if err != nil || !fresh {
			return err
		}
		if a.Round != k.Round || a.Status != StatusQueued {
			way = WayNone
		}
		if err := t.run(`UPDATE runs SET way = $3 WHERE analysis_id = $1 AND round = $2`, k.AnalysisID, k.Round, string(way)); err != nil || way == WayNone {
			return err
		}

		r, err := t.readRun(k)
		reason := DispatchSubmitted
		if r.Reason == RunRetried {
			reason = DispatchRetried
		}

		return errors.Join(err, t.enqueueRound(k.AnalysisID, way.kind(), string(reason), k.Round))
	})
}

// kind is the outbox's kind for the way.
func (w Way) kind() OutboxKind {
	if w == WayHTTP {
		return OutboxDoor
	}

	return OutboxDispatch
}

// RetryRun writes the dispatch once more.
func (s *sqlStore) RetryRun(ctx context.Context, k RunKey, retry int) (Run, error) {
	return s.writeRun(ctx, "retry run", k, func(t *tx) error {
		var way Way
		err := t.row(`UPDATE runs SET retries = $3, updated_at = $4 WHERE analysis_id = $1 AND round = $2 AND retries < $3 AND outcome = '' RETURNING way`,
			k.AnalysisID, k.Round, retry, millis(t.now)).Scan(&way)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}

		return t.enqueueRound(k.AnalysisID, way.kind(), string(DispatchLost), k.Round)
	})
}

// NotifyRun ends the run with its notice.
func (s *sqlStore) NotifyRun(ctx context.Context, k RunKey) (Run, error) {
	return s.writeRun(ctx, "notify", k, func(t *tx) error {
		fresh, err := t.advanceRun(k, StageNotified)
		if err != nil || !fresh {
			return err
		}
		r, err := t.readRun(k)
		if err != nil {
			return err
		}
		if r.Outcome != "" {
			err = t.notice(k.AnalysisID, k.Round, r.Outcome)
		}

		return errors.Join(err, t.run(`UPDATE runs SET ended_at = $3 WHERE analysis_id = $1 AND round = $2`, k.AnalysisID, k.Round, millis(t.now)))
	})
}

// FailRun decides a round as failed.
func (s *sqlStore) FailRun(ctx context.Context, k RunKey, code protocol.Code, message string) (Run, error) {
	return s.writeRun(ctx, "fail run", k, func(t *tx) error {
		rows, err := t.exec(`UPDATE analyses SET status = 'failed', error_code = $3, error_message = $4, lease_until = 0, updated_at = $5, settled_at = $5
			WHERE id = $1 AND round = $2 AND status IN ('queued', 'processing')`, k.AnalysisID, k.Round, string(code), message, millis(t.now))
		if err != nil || rows == 0 {
			return err
		}

		return errors.Join(t.event(Event{AnalysisID: k.AnalysisID, Kind: EventFailed, Detail: string(code) + ": " + message}),
			t.end(k.AnalysisID, k.Round, StatusFailed))
	})
}

// writeRun runs fn in a transaction and reads the run back in it.
func (s *sqlStore) writeRun(ctx context.Context, op string, k RunKey, fn func(*tx) error) (Run, error) {
	var out Run
	err := s.write(ctx, op, func(t *tx) error {
		if err := fn(t); err != nil {
			return err
		}
		var err error
		out, err = t.readRun(k)

		return err
	})

	return out, err
}

func (t *tx) readRun(k RunKey) (Run, error) {
	return scanRun(t.row(`SELECT `+runColumns+` WHERE r.analysis_id = $1 AND r.round = $2`, k.AnalysisID, k.Round))
}

// advanceRun moves a run on and tells whether it did.
func (t *tx) advanceRun(k RunKey, stage RunStage) (bool, error) {
	rows, err := t.exec(`UPDATE runs SET stage = $3, updated_at = $4 WHERE analysis_id = $1 AND round = $2 AND `+stageAhead,
		k.AnalysisID, k.Round, int(stage), millis(t.now))

	return rows == 1, err
}

// beginRun writes a run and the intent to start it.
func (t *tx) beginRun(id string, round int64, reason RunReason) error {
	err := t.run(`INSERT INTO runs (analysis_id, round, reason, created_at, updated_at) VALUES ($1, $2, $3, $4, $4)`, id, round, string(reason), millis(t.now))

	return errors.Join(err, t.enqueueRound(id, OutboxRun, string(reason), round))
}

// reopenRun does so for a later round of an analysis that had a run before.
func (t *tx) reopenRun(id string, round int64) error {
	had, err := t.hadRun(id)
	if err != nil || !had {
		return err
	}

	return t.beginRun(id, round, RunReopened)
}

// retryRun has an analysis dispatched in a later round: by a run if it had one before.
func (t *tx) retryRun(id string, round int64) error {
	had, err := t.hadRun(id)
	if err == nil && had {
		return t.beginRun(id, round, RunRetried)
	}

	return errors.Join(err, t.enqueueRound(id, OutboxDispatch, string(DispatchRetried), round))
}

func (t *tx) hadRun(id string) (bool, error) {
	var n int
	err := t.row(`SELECT count(*) FROM runs WHERE analysis_id = $1`, id).Scan(&n)

	return n > 0, err
}

// decideRun tells the run of a round how it was decided, and tells whether there is one.
func (t *tx) decideRun(id string, round int64, outcome Status) (bool, error) {
	rows, err := t.exec(`UPDATE runs SET outcome = $3, decided_at = $4 WHERE analysis_id = $1 AND round = $2`, id, round, string(outcome), millis(t.now))

	return rows == 1, err
}

// wayOf is the way in which a lost execution of the round is dispatched again: by the queue, unless its run went through the door.
func (t *tx) wayOf(id string, round int64) (Way, error) {
	var way Way
	err := t.row(`SELECT way FROM runs WHERE analysis_id = $1 AND round = $2`, id, round).Scan(&way)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && way != WayHTTP) {
		return WayQueue, nil
	}

	return way, err
}
