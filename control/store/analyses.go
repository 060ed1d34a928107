package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/posefleet/posefleet/protocol"
)

const analysisColumns = `id, status, params, params_digest, clips, epoch, claim, worker_id, source, job_id, attempt, lease_until,
	result_id, result, artifact_key, artifact_size, artifact_sha256, error_code, error_message, created_at, updated_at, settled_at, account, round,
	job_ends, job_stalls, job_added, job_taken`

// CreateAnalysis makes an analysis in StatusUploading.
func (s *sqlStore) CreateAnalysis(ctx context.Context, n NewAnalysis) (Analysis, bool, error) {
	var out Analysis
	var created bool
	err := s.write(ctx, "create analysis", func(t *tx) error {
		var err error
		out, created, err = t.createAnalysis(n)

		return err
	})

	return out, created, err
}

func (t *tx) createAnalysis(n NewAnalysis) (Analysis, bool, error) {
	params, err := CanonicalJSON(n.Params)
	if err != nil {
		return Analysis{}, false, fmt.Errorf("params: %w", err)
	}
	clips, err := json.Marshal(n.Clips)
	if err != nil {
		return Analysis{}, false, err
	}
	account := cmp.Or(n.Account, DefaultAccount)
	content := digest(params, clips)
	if account != DefaultAccount {
		content = digest(params, clips, []byte(account))
	}
	rows, err := t.exec(`INSERT INTO analyses (id, status, params, params_digest, clips, content_digest, created_at, updated_at, account)
		VALUES ($1, 'uploading', $2, $3, $4, $5, $6, $6, $7) ON CONFLICT (id) DO NOTHING`,
		n.ID, []byte(n.Params), digest(params), clips, content, millis(t.now), account)
	if err != nil {
		return Analysis{}, false, err
	}
	if rows == 0 {
		a, err := t.sameContent(n.ID, content)

		return a, false, err
	}
	if err := errors.Join(t.event(Event{AnalysisID: n.ID, Kind: EventCreated}), t.reserve(n.ID, account, 0, false)); err != nil {
		return Analysis{}, false, err
	}
	a, err := t.analysis(n.ID)

	return a, true, err
}

// sameContent reads an existing analysis back if it was made of the same clips and parameters.
func (t *tx) sameContent(id, content string) (Analysis, error) {
	var had string
	if err := t.row(`SELECT content_digest FROM analyses WHERE id = $1`, id).Scan(&had); err != nil {
		return Analysis{}, err
	}
	if had != content {
		return Analysis{}, ErrConflict
	}

	return t.analysis(id)
}

// Submit moves an uploading analysis to queued and writes its dispatch in the same transaction.
func (s *sqlStore) Submit(ctx context.Context, sub Submission) (Analysis, error) {
	clips, err := json.Marshal(sub.Clips)
	if err != nil {
		return Analysis{}, err
	}
	var out Analysis
	err = s.write(ctx, "submit analysis", func(t *tx) error {
		rows, err := t.exec(`UPDATE analyses SET status = 'queued', clips = $2, updated_at = $3 WHERE id = $1 AND status = 'uploading'`,
			sub.ID, clips, millis(t.now))
		if err != nil {
			return err
		}
		if rows == 1 {
			err = t.submitted(sub)
		}
		if err != nil {
			return err
		}
		out, err = t.analysis(sub.ID)

		return err
	})

	return out, err
}

func (t *tx) submitted(sub Submission) error {
	err := t.event(Event{AnalysisID: sub.ID, Kind: EventSubmitted})
	if err == nil && sub.Run != "" {
		return t.beginRun(sub.ID, 0, sub.Run)
	}
	if err != nil || !sub.Dispatch {
		return err
	}

	return t.enqueue(sub.ID, OutboxDispatch, string(DispatchSubmitted))
}

// Analysis reads one analysis.
func (s *sqlStore) Analysis(ctx context.Context, id string) (Analysis, error) {
	return scanAnalysis(s.reader.QueryRowContext(ctx, `SELECT `+analysisColumns+` FROM analyses WHERE id = $1`, id))
}

// analysis reads one analysis within the transaction.
func (t *tx) analysis(id string) (Analysis, error) {
	return scanAnalysis(t.row(`SELECT `+analysisColumns+` FROM analyses WHERE id = $1`, id))
}

// lockAnalysis reads one analysis that the transaction is going to decide on.
func (t *tx) lockAnalysis(id string) (Analysis, error) {
	return scanAnalysis(t.row(`SELECT `+analysisColumns+` FROM analyses WHERE id = $1`+t.forUpdate, id))
}

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(dest ...any) error }

func scanAnalysis(r scanner) (Analysis, error) {
	var a Analysis
	var art protocol.Artifact
	var clips, params []byte
	var lease, created, updated, settled, added, taken int64
	err := r.Scan(&a.ID, &a.Status, &params, &a.ParamsDigest, &clips, &a.Epoch, &a.Claim,
		&a.Holder.WorkerID, &a.Holder.Source, &a.Holder.JobID, &a.Holder.Attempt, &lease,
		&a.ResultID, &a.Result, &art.Key, &art.Size, &art.SHA256, &a.ErrorCode, &a.ErrorMessage, &created, &updated, &settled, &a.Account, &a.Round,
		&a.JobEnds, &a.JobStalls, &added, &taken)
	if errors.Is(err, sql.ErrNoRows) {
		return Analysis{}, ErrUnknown
	}
	if err != nil {
		return Analysis{}, err
	}
	if err := json.Unmarshal(clips, &a.Clips); err != nil {
		return Analysis{}, fmt.Errorf("clips of %s: %w", a.ID, err)
	}
	if art.Key != "" {
		a.Artifact = &art
	}
	a.Params = params
	a.LeaseUntil, a.CreatedAt, a.UpdatedAt, a.SettledAt = fromMillis(lease), fromMillis(created), fromMillis(updated), fromMillis(settled)
	a.JobAdded, a.JobTaken = fromMillis(added), fromMillis(taken)

	return a, nil
}

func scanAll[T any](rows *sql.Rows, scan func(scanner) (T, error)) ([]T, error) {
	defer rows.Close()
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}

	return all, rows.Err()
}

// CanonicalJSON returns the JSON with keys sorted and without white space, numbers as they were written. Empty input
// is the empty object.
func CanonicalJSON(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return []byte("{}"), nil
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}

	return json.Marshal(v)
}

// digest is the hex SHA-256 over the parts, each with its length before it.
func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}

	return hex.EncodeToString(h.Sum(nil))
}
