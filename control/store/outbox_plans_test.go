package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/pgtest"
)

// backlogged is how many notices wait in vain while others are looked for.
const backlogged = 20_000

// fillOutbox writes notices that were all tried before and are due, as after a long outage of their receiver, and a dispatch.
func fillOutbox(t *testing.T, s *sqlStore) {
	t.Helper()
	series := `(WITH RECURSIVE g(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM g WHERE i + 1 < $1) SELECT i FROM g) AS g`
	if s.forUpdate != "" {
		series = `(SELECT i FROM generate_series(0, $1::bigint - 1) AS i) AS g`
	}
	for _, q := range []string{
		`INSERT INTO outbox (analysis_id, kind, reason, tries, due_at, created_at) SELECT 'an_' || i, 'notice', 'delivered', 1, i, i FROM ` + series,
		`INSERT INTO outbox (analysis_id, kind, reason, due_at, created_at) SELECT 'an_new', 'dispatch', 'submitted', 9, $1`,
		`INSERT INTO outbox (analysis_id, kind, reason, due_at, created_at) SELECT 'an_new', 'notice', 'delivered', 9, $1`,
	} {
		if _, err := s.writer.ExecContext(t.Context(), q, backlogged); err != nil {
			t.Fatalf("%v: %s", err, q)
		}
	}
	if _, err := s.writer.ExecContext(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
}

// claimPlans are the looks of a courier and what they have to be read by.
func claimPlans() map[string]OutboxClaim {
	return map[string]OutboxClaim{
		"outbox_kind":  {Owner: "a", Kinds: []OutboxKind{OutboxNotice}, Limit: 8, Lease: time.Minute},
		"outbox_fresh": {Owner: "a", Kinds: []OutboxKind{OutboxNotice}, Limit: 8, Lease: time.Minute, Fresh: true},
	}
}

// A courier finds its entries by an index, in their order, however many others wait.
func TestClaimPlansSQLite(t *testing.T) {
	t.Parallel()
	s := openAt(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
	fillOutbox(t, s)
	for index, c := range claimPlans() {
		where, args := s.claimable(c)
		plan := explain(t, s, `SELECT o.id FROM outbox o`+where, args...)
		if !strings.Contains(plan, index) || strings.Contains(plan, "SCAN") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s:\n%s", index, plan)
		}
	}
	claimAll(t, s)
}

func TestClaimPlansPostgres(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.Start(t).Database())
	fillOutbox(t, s)
	for index, c := range claimPlans() {
		where, args := s.claimable(c)
		plan, err := explainPostgres(t.Context(), s, `SELECT o.id FROM outbox o`+where, args...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") {
			t.Errorf("%s:\n%s", index, plan)
		}
	}
	claimAll(t, s)
}

// claimAll claims what was never tried, and some of what was, and logs what that takes.
func claimAll(t *testing.T, s *sqlStore) {
	t.Helper()
	for i, want := range []string{"an_new", "an_0 an_1 an_2 an_3"} {
		begun := time.Now()
		all, err := s.ClaimOutbox(t.Context(), OutboxClaim{
			Owner: fmt.Sprint("owner", i), Kinds: []OutboxKind{OutboxNotice}, Limit: 4, Lease: time.Minute, Fresh: i == 0,
		})
		var got []string
		for _, e := range all {
			got = append(got, e.AnalysisID)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%v, %v, want %s", got, err, want)
		}
		t.Logf("%s: %s among %d", want, time.Since(begun), backlogged)
	}
}
