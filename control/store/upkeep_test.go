package store

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// What runs again and again finds its rows by an index: its cost does not grow with the tables.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	s, err := openSQLite(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), Options{MaxConns: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for name, query := range map[string]string{
		"webhook_ids_seen":   `DELETE FROM webhook_ids WHERE id IN (SELECT id FROM webhook_ids WHERE seen_at < 1 ORDER BY seen_at LIMIT 9)`,
		"outbox_kind":        `SELECT id FROM outbox WHERE kind = 'notice' AND due_at <= 1 ORDER BY due_at, id LIMIT 9`,
		"analyses_leases":    `SELECT id FROM analyses WHERE status = 'processing' AND source = 'http' AND lease_until < 1 ORDER BY lease_until LIMIT 9`,
		"analyses_newest":    `SELECT id FROM analyses WHERE (created_at, id) < (1, 'a') ORDER BY created_at DESC, id DESC LIMIT 9`,
		"ledger_expiry":      `DELETE FROM ledger WHERE entry_key IN (SELECT entry_key FROM ledger WHERE expires_at <= 1 ORDER BY expires_at LIMIT 9)`,
		"PRIMARY KEY (entry": `SELECT outcome FROM ledger WHERE entry_key >= 'a/' AND entry_key < 'a0' ORDER BY entry_key LIMIT 9`,
		"analyses_status":    `SELECT id FROM analyses WHERE status = 'uploading' AND created_at < 1 ORDER BY created_at LIMIT 9`,
		"credits_account":    `SELECT state, count(*) FROM credits WHERE account = 'a' GROUP BY state`,
		"runs_decided":       `SELECT analysis_id, round, decided_at FROM runs WHERE ended_at = 0 AND outcome <> '' AND (decided_at, analysis_id, round) > (1, 'a', 0) ORDER BY decided_at, analysis_id, round LIMIT 9`,
		"events_analysis":    `SELECT * FROM events WHERE analysis_id = 'a' ORDER BY id DESC LIMIT 9`,
	} {
		plan := explain(t, s, query)
		if !strings.Contains(plan, name) || strings.Contains(plan, "SCAN") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

func explain(t *testing.T, s *sqlStore, query string, args ...any) string {
	t.Helper()
	rows, err := s.reader.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := scanAll(rows, func(r scanner) (string, error) {
		var id, parent, unused int
		var detail string

		return detail, r.Scan(&id, &parent, &unused, &detail)
	})
	if err != nil {
		t.Fatal(err)
	}

	return strings.Join(lines, "\n")
}
