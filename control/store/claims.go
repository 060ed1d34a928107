package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// Redeem gives the claim to the holder, or says why not.
func (s *sqlStore) Redeem(ctx context.Context, id string, h Holder, job JobSeen, lease time.Duration) (Grant, error) {
	var out Grant
	err := s.write(ctx, "redeem", func(t *tx) error {
		a, err := t.lockAnalysis(id)
		if err != nil {
			return err
		}
		event, err := decide(&a, h, job, t.now)
		if err != nil {
			return err
		}
		a.LeaseUntil = fromMillis(millis(t.now.Add(lease)))
		if event == "" {
			out = Grant{Analysis: a, Repeat: true}

			return t.extend(Lease{AnalysisID: id, Claim: a.Claim, Epoch: a.Epoch}, lease)
		}
		out, err = t.grant(a, h, job, event)

		return err
	})

	return out, err
}

// grant begins a new epoch.
func (t *tx) grant(a Analysis, h Holder, job JobSeen, event string) (Grant, error) {
	detail := ""
	if event == EventTakenOver {
		detail = fmt.Sprintf("from epoch %d, attempt %d of %s", a.Epoch, a.Holder.Attempt, a.Holder.WorkerID)
	}
	if event == EventReopened {
		a.Round++
		if err := errors.Join(t.reserve(a.ID, a.Account, a.Round, true), t.reopenRun(a.ID, a.Round)); err != nil {
			return Grant{}, err
		}
	}
	a.Epoch++
	a.Claim, a.Holder, a.Status = "clm_"+rand.Text(), h, StatusProcessing
	seen := job.at(h)
	a.JobEnds, a.JobStalls, a.JobAdded, a.JobTaken = seen.Ends, seen.Stalls, seen.Added, seen.Taken
	err := t.run(`UPDATE analyses SET status = 'processing', epoch = $2, claim = $3, worker_id = $4, source = $5, job_id = $6,
		attempt = $7, lease_until = $8, updated_at = $9, settled_at = 0, result_id = '', result = NULL, error_code = '', error_message = '', round = $10,
		job_ends = $11, job_stalls = $12, job_added = $13, job_taken = $14 WHERE id = $1`, a.ID, a.Epoch, a.Claim, h.WorkerID, string(h.Source), h.JobID, h.Attempt, millis(a.LeaseUntil),
		millis(t.now), a.Round, a.JobEnds, a.JobStalls, millis(a.JobAdded), millis(a.JobTaken))
	if err != nil {
		return Grant{}, err
	}
	err = t.run(`INSERT INTO executions (analysis_id, epoch, claim, worker_id, source, job_id, attempt, started_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, a.ID, a.Epoch, a.Claim, h.WorkerID, string(h.Source), h.JobID, h.Attempt, millis(t.now))
	if err != nil {
		return Grant{}, err
	}

	return Grant{Analysis: a}, t.event(Event{AnalysisID: a.ID, Kind: event, Epoch: a.Epoch, Holder: h, Detail: detail})
}

// Renew moves the lease's end. A lease that ran out may be renewed as long as nobody else has redeemed: a slow but
// living holder is not robbed.
func (s *sqlStore) Renew(ctx context.Context, l Lease, lease time.Duration) error {
	return s.write(ctx, "renew", func(t *tx) error { return t.extend(l, lease) })
}

func (t *tx) extend(l Lease, lease time.Duration) error {
	rows, err := t.exec(`UPDATE analyses SET lease_until = $4 WHERE id = $1 AND epoch = $2 AND claim = $3 AND status = 'processing'
		AND lease_until > 0`, l.AnalysisID, l.Epoch, l.Claim, millis(t.now.Add(lease)))
	if err != nil || rows == 1 {
		return err
	}
	_, err = t.analysis(l.AnalysisID)
	if err == nil {
		err = ErrLost
	}

	return err
}

// Release ends the lease if it is still the one that is named.
func (s *sqlStore) Release(ctx context.Context, l Lease) error {
	return s.write(ctx, "release", func(t *tx) error {
		rows, err := t.exec(`UPDATE analyses SET status = 'queued', lease_until = 0, updated_at = $4 WHERE id = $1 AND epoch = $2
			AND claim = $3 AND status = 'processing' AND lease_until > 0`, l.AnalysisID, l.Epoch, l.Claim, millis(t.now))
		if err != nil {
			return err
		}
		a, err := t.analysis(l.AnalysisID)
		if err != nil || rows == 0 {
			return err
		}

		return t.event(Event{AnalysisID: a.ID, Kind: EventReleased, Epoch: a.Epoch, Holder: a.Holder})
	})
}

// GrantArtifact records an artifact of the current claim. The same artifact may be granted again.
func (s *sqlStore) GrantArtifact(ctx context.Context, l Lease, art StoredArtifact) error {
	about, err := json.Marshal(aboutArtifact{Model: art.Model, Clips: art.Clips})
	if err != nil {
		return err
	}

	return s.write(ctx, "grant artifact", func(t *tx) error {
		a, err := t.lockAnalysis(l.AnalysisID)
		if err != nil {
			return err
		}
		if a.Epoch != l.Epoch || a.Claim != l.Claim || a.Status != StatusProcessing {
			return ErrLost
		}
		rows, err := t.exec(`INSERT INTO artifacts (analysis_id, object_key, epoch, name, content_type, size, sha256, params_digest, about, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (analysis_id, object_key) DO NOTHING`,
			a.ID, art.Key, l.Epoch, art.Name, art.ContentType, art.Size, art.SHA256, a.ParamsDigest, about, millis(t.now))
		if err != nil || rows == 0 {
			return err
		}

		return t.event(Event{AnalysisID: a.ID, Kind: EventArtifactGranted, Epoch: a.Epoch, Holder: a.Holder, Detail: art.Name})
	})
}

// aboutArtifact is the column about.
type aboutArtifact struct {
	Model *protocol.Model       `json:"model,omitempty"`
	Clips []protocol.ResultClip `json:"clips,omitempty"`
}

// Artifacts lists granted artifacts, newest epoch first.
func (s *sqlStore) Artifacts(ctx context.Context, id, paramsDigest string) ([]StoredArtifact, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT analysis_id, epoch, object_key, name, content_type, size, sha256, params_digest, about
		FROM artifacts WHERE analysis_id = $1 AND params_digest = $2 ORDER BY epoch DESC, created_at DESC`, id, paramsDigest)
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}
	all, err := scanAll(rows, scanArtifact)
	if err != nil {
		return nil, fmt.Errorf("list artifacts: %w", err)
	}

	return all, nil
}

func scanArtifact(r scanner) (StoredArtifact, error) {
	var a StoredArtifact
	var about []byte
	if err := r.Scan(&a.AnalysisID, &a.Epoch, &a.Key, &a.Name, &a.ContentType, &a.Size, &a.SHA256, &a.ParamsDigest, &about); err != nil {
		return a, err
	}
	var more aboutArtifact
	if err := json.Unmarshal(about, &more); err != nil {
		return a, fmt.Errorf("artifact %s: %w", a.Key, err)
	}
	a.Model, a.Clips = more.Model, more.Clips

	return a, nil
}

// execution reads who held the claim in an epoch; ErrUnissued if this claim was never given out for it.
func (t *tx) execution(l Lease) (Holder, error) {
	var h Holder
	var claim string
	err := t.row(`SELECT claim, worker_id, source, job_id, attempt FROM executions WHERE analysis_id = $1 AND epoch = $2`,
		l.AnalysisID, l.Epoch).Scan(&claim, &h.WorkerID, &h.Source, &h.JobID, &h.Attempt)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && claim != l.Claim) {
		return h, ErrUnissued
	}

	return h, err
}
