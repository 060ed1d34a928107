package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/posefleet/posefleet/protocol"
)

// RecordResult lets a result count or not, in one transaction with its webhook id, timeline and outbox. The result has
// passed protocol.Result.Validate.
func (s *sqlStore) RecordResult(ctx context.Context, p ResultPost) (Verdict, error) {
	var v Verdict
	const op = "record result"
	record := func(t *tx) error {
		var err error
		v, err = t.recordResult(p)

		return err
	}
	if s.together == nil || p.Result.Type != protocol.ResultCompleted {
		// A refund locks the account's row: shared transactions with several refunds each might wait for each other.
		err := s.write(ctx, op, record)

		return v, err
	}
	err := s.writeTogether(ctx, op, record)

	return v, err
}

func (t *tx) recordResult(p ResultPost) (Verdict, error) {
	d := p.Result.Data
	// A twin with the same id waits here until the first one has committed.
	rows, err := t.exec(`INSERT INTO webhook_ids (id, analysis_id, digest, decision, seen_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO NOTHING`, p.WebhookID, d.AnalysisID, digest(p.Body), string(DecisionAccepted), millis(t.now))
	if err != nil {
		return Verdict{}, err
	}
	if rows == 0 {
		return t.repeatedResult(p)
	}
	holder, err := t.execution(Lease{AnalysisID: d.AnalysisID, Claim: d.Claim, Epoch: d.Epoch})
	if err != nil {
		_, unknown := t.analysis(d.AnalysisID)

		return Verdict{}, cmp.Or(unknown, err)
	}
	a, counts, err := t.compareAndSet(p)
	if err != nil {
		return Verdict{}, err
	}
	if counts {
		return Verdict{Decision: DecisionAccepted, Status: a.Status}, t.resultCounted(p, a, holder)
	}
	v, err := t.verdict(p, holder)
	if err != nil {
		return Verdict{}, err
	}

	return v, t.run(`UPDATE webhook_ids SET decision = $2 WHERE id = $1`, p.WebhookID, string(v.Decision))
}

// repeatedResult answers a webhook id that has been answered before.
func (t *tx) repeatedResult(p ResultPost) (Verdict, error) {
	v := Verdict{Repeat: true}
	var had, id string
	err := t.row(`SELECT digest, decision, analysis_id FROM webhook_ids WHERE id = $1`, p.WebhookID).Scan(&had, &v.Decision, &id)
	if err != nil {
		return v, err
	}
	if had != digest(p.Body) {
		return v, ErrConflict
	}
	a, err := t.analysis(id)
	v.Status = a.Status

	return v, err
}

// compareAndSet is the one write that decides; it tells whether the result counts, and then what the analysis is now.
func (t *tx) compareAndSet(p ResultPost) (Analysis, bool, error) {
	d := p.Result.Data
	a := Analysis{ID: d.AnalysisID}
	var query string
	args := []any{d.AnalysisID, d.Epoch, millis(t.now)}
	switch p.Result.Type {
	case protocol.ResultCompleted:
		if err := t.artifactGranted(d); err != nil {
			return a, false, err
		}
		query = `UPDATE analyses SET status = 'delivered', result_id = $4, result = $5, artifact_key = $6, artifact_size = $7,
			artifact_sha256 = $8, error_code = '', error_message = '', lease_until = 0, updated_at = $3, settled_at = $3
			WHERE id = $1 AND ` + completedCounts
		args = append(args, p.WebhookID, p.Body, d.Artifact.Key, d.Artifact.Size, d.Artifact.SHA256)
	case protocol.ResultFailed:
		query = `UPDATE analyses SET status = 'failed', result_id = $4, result = $5, error_code = $6, error_message = $7,
			lease_until = 0, updated_at = $3, settled_at = $3 WHERE id = $1 AND ` + othersCount
		args = append(args, p.WebhookID, p.Body, string(d.Error.Code), d.Error.Message)
	case protocol.ResultInterrupted:
		query = `UPDATE analyses SET status = 'queued', lease_until = 0, updated_at = $3 WHERE id = $1 AND ` + othersCount
	default:
		return a, false, fmt.Errorf("result type %q", p.Result.Type)
	}
	err := t.row(query+` RETURNING status, round`, args...).Scan(&a.Status, &a.Round)
	if errors.Is(err, sql.ErrNoRows) {
		return a, false, nil
	}

	return a, err == nil, err
}

// artifactGranted is ErrUnissued unless a PUT of exactly this artifact was allowed for this analysis, in any epoch.
func (t *tx) artifactGranted(d protocol.ResultData) error {
	var n int
	err := t.row(`SELECT count(*) FROM artifacts WHERE analysis_id = $1 AND object_key = $2 AND size = $3 AND sha256 = $4`,
		d.AnalysisID, d.Artifact.Key, d.Artifact.Size, d.Artifact.SHA256).Scan(&n)
	if err == nil && n == 0 {
		err = ErrUnissued
	}

	return err
}

// verdict reads what was decided before a result that does not count, and notes it.
func (t *tx) verdict(p ResultPost, h Holder) (Verdict, error) {
	a, err := t.analysis(p.Result.Data.AnalysisID)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Status: a.Status}
	e := Event{AnalysisID: a.ID, Epoch: p.Result.Data.Epoch, Holder: h}
	if a.Status.Terminal() {
		v.Decision, e.Kind = DecisionConceded, EventResultConceded
		e.Detail = fmt.Sprintf("%s; the analysis was %s already", p.Result.Type, a.Status)
	} else {
		v.Decision, e.Kind = DecisionSuperseded, EventResultSuperseded
		e.Detail = fmt.Sprintf("%s; epoch %d goes on", p.Result.Type, a.Epoch)
	}

	return v, t.event(e)
}

// resultCounted writes what follows from a result that counts.
func (t *tx) resultCounted(p ResultPost, a Analysis, h Holder) error {
	e := Event{AnalysisID: a.ID, Epoch: p.Result.Data.Epoch, Holder: h}
	switch p.Result.Type {
	case protocol.ResultCompleted:
		e.Kind = EventDelivered
	case protocol.ResultFailed:
		e.Kind, e.Detail = EventFailed, fmt.Sprintf("%s: %s", p.Result.Data.Error.Code, p.Result.Data.Error.Message)
	default:
		e.Kind = EventInterrupted
		if err := t.event(e); err != nil || e.Holder.Source != protocol.SourceHTTP {
			return err
		}

		way, err := t.wayOf(a.ID, a.Round)

		return errors.Join(err, t.enqueueRound(a.ID, way.kind(), string(DispatchInterrupted), a.Round))
	}

	return errors.Join(t.event(e), t.end(a.ID, a.Round, a.Status))
}
