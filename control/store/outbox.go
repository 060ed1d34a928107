package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// enqueue writes an intent beside the state that asks for it.
func (t *tx) enqueue(id string, kind OutboxKind, reason string) error {
	return t.enqueueRound(id, kind, reason, 0)
}

// enqueueRound does so for intents that belong to a round.
func (t *tx) enqueueRound(id string, kind OutboxKind, reason string, round int64) error {
	return t.run(`INSERT INTO outbox (analysis_id, kind, reason, round, due_at, created_at) VALUES ($1, $2, $3, $4, $5, $5)`,
		id, string(kind), reason, round, millis(t.now))
}

// RequeueLapsed gives analyses of the HTTP door whose worker fell silent to the queue.
func (s *sqlStore) RequeueLapsed(ctx context.Context, grace time.Duration, limit int) (int, error) {
	n := 0
	err := s.write(ctx, "requeue lapsed leases", func(t *tx) error {
		n = 0
		rows, err := t.QueryContext(ctx, `SELECT `+analysisColumns+` FROM analyses WHERE status = 'processing' AND source = 'http'
			AND lease_until < $1 ORDER BY lease_until LIMIT $2`+t.forUpdate, millis(t.now.Add(-grace)), limit)
		if err != nil {
			return err
		}
		lapsed, err := scanAll(rows, scanAnalysis)
		for _, a := range lapsed {
			err = errors.Join(err, t.requeue(a))
			n++
		}

		return err
	})

	return n, err
}

func (t *tx) requeue(a Analysis) error {
	err := t.run(`UPDATE analyses SET status = 'queued', lease_until = 0, updated_at = $2 WHERE id = $1`, a.ID, millis(t.now))
	if err != nil {
		return err
	}

	way, err := t.wayOf(a.ID, a.Round)

	return errors.Join(err,
		t.event(Event{AnalysisID: a.ID, Kind: EventLeaseLapsed, Epoch: a.Epoch, Holder: a.Holder}),
		t.enqueueRound(a.ID, way.kind(), string(DispatchLeaseLapsed), a.Round),
	)
}

// event adds a line to the timeline.
func (t *tx) event(e Event) error {
	return t.run(`INSERT INTO events (analysis_id, at, kind, epoch, worker_id, source, job_id, attempt, detail, actor)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, e.AnalysisID, millis(t.now), e.Kind, e.Epoch,
		e.Holder.WorkerID, string(e.Holder.Source), e.Holder.JobID, e.Holder.Attempt, e.Detail, e.Actor)
}

// timelineLimit bounds what a page has to show of an analysis that was started again and again.
const timelineLimit = 500

// Timeline reads the events of an analysis, oldest first.
func (s *sqlStore) Timeline(ctx context.Context, id string) ([]Event, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT id, analysis_id, at, kind, epoch, worker_id, source, job_id, attempt, detail, actor FROM
		(SELECT * FROM events WHERE analysis_id = $1 ORDER BY id DESC LIMIT $2) AS newest ORDER BY id`, id, timelineLimit)
	if err != nil {
		return nil, fmt.Errorf("read timeline: %w", err)
	}
	all, err := scanAll(rows, func(r scanner) (Event, error) {
		var e Event
		var at int64
		var source string
		err := r.Scan(&e.ID, &e.AnalysisID, &at, &e.Kind, &e.Epoch, &e.Holder.WorkerID, &source, &e.Holder.JobID, &e.Holder.Attempt, &e.Detail, &e.Actor)
		e.At, e.Holder.Source = fromMillis(at), protocol.Source(source)

		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read timeline: %w", err)
	}

	return all, nil
}
