package store

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/pgtest"
)

// pageIndexes is which index each kind of page is read by, on both databases.
func pageIndexes() map[string]struct {
	request          PageRequest
	sqlite, postgres string
} {
	cursor := formatCursor(millis(scaleNow)-2_000_000, "an_00002000")

	return map[string]struct {
		request          PageRequest
		sqlite, postgres string
	}{
		"newest":           {PageRequest{Limit: 50}, "analyses_newest", "analyses_newest"},
		"a page further":   {PageRequest{Limit: 50, Cursor: cursor}, "analyses_newest", "analyses_newest"},
		"in a state":       {PageRequest{Limit: 50, Status: StatusFailed}, "analyses_status", "analyses_status"},
		"of an account":    {PageRequest{Limit: 50, Account: "team7", Cursor: cursor}, "analyses_account", "analyses_account"},
		"by id":            {PageRequest{Limit: 50, IDPrefix: "an_1"}, "PRIMARY KEY (id", "analyses_id_bytes"},
		"by id, in states": {PageRequest{Limit: 50, IDPrefix: "an_1", Status: StatusFailed, Cursor: cursor}, "", ""},
	}
}

// Lists find their page by an index, in its order: nothing is read that is not shown.
func TestPagePlansSQLite(t *testing.T) {
	t.Parallel()
	s := openAt(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
	for name, c := range pageIndexes() {
		query, args, err := s.listing(c.request)
		if err != nil {
			t.Fatal(err)
		}
		plan := explain(t, s, query, args...)
		if !strings.Contains(plan, c.sqlite) || strings.Contains(plan, "SCAN") || c.sqlite != "" && strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

func TestPagePlansPostgres(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.Start(t).Database())
	fill(t, s, 5_000) // a planner reads a small table whole, and rightly so
	for name, c := range pageIndexes() {
		query, args, err := s.listing(c.request)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := explainPostgres(t.Context(), s, query, args...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, c.postgres) || strings.Contains(plan, "Seq Scan") || c.postgres != "" && strings.Contains(plan, "Sort") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
	for name, c := range map[string]struct {
		index, query string
		args         []any
	}{
		"lapsed leases": {"analyses_", `SELECT id FROM analyses WHERE status = 'processing' AND source = 'http' AND lease_until < $1 ORDER BY lease_until LIMIT 9`, []any{5}},
		"uploads":       {"analyses_status", `SELECT id FROM analyses WHERE status = 'uploading' AND created_at < $1 ORDER BY created_at LIMIT 9`, []any{5}},
		"ledger":        {"ledger_pkey", `SELECT outcome FROM ledger WHERE entry_key >= $1 AND entry_key < $2 ORDER BY entry_key LIMIT 9`, []any{"an_00000001/", "an_000000010"}},
		"expiry":        {"ledger_expiry", `SELECT entry_key FROM ledger WHERE expires_at <= $1 ORDER BY expires_at LIMIT 9`, []any{5}},
		"webhook ids":   {"webhook_ids_seen", `SELECT id FROM webhook_ids WHERE seen_at < $1 ORDER BY seen_at LIMIT 9`, []any{5}},
		"timeline":      {"events_analysis", `SELECT * FROM events WHERE analysis_id = $1 ORDER BY id DESC LIMIT 9`, []any{"an_00000001"}},
		"demand":        {"analyses_", demandQuery, []any{5}},
		"open runs":     {"runs_open", `SELECT * FROM runs WHERE ended_at = 0 AND updated_at < $1 ORDER BY updated_at, analysis_id, round LIMIT 9`, []any{5}},
		"decided runs":  {"runs_decided", decidedQuery, []any{5, "an_00000001", 0, 9}},
	} {
		plan, err := explainPostgres(t.Context(), s, c.query, c.args...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(plan, c.index) || strings.Contains(plan, "Seq Scan on analyses") || strings.Contains(plan, "Seq Scan on runs") || strings.Contains(plan, "Seq Scan on ledger") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

func explainPostgres(ctx context.Context, s *sqlStore, query string, args ...any) (string, error) {
	rows, err := s.reader.QueryContext(ctx, "EXPLAIN "+query, args...)
	if err != nil {
		return "", err
	}
	lines, err := scanAll(rows, func(r scanner) (string, error) {
		var line string

		return line, r.Scan(&line)
	})
	if err != nil {
		return "", fmt.Errorf("explain: %w", err)
	}

	return strings.Join(lines, "\n"), nil
}
