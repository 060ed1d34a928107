package store

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/posefleet/posefleet/internal/pgtest"
)

var scale = flag.Int("scale", 0, "measure the store with so many analyses beside 10,000, as 1000000; see docs/store.md")

// scaleBase is the size that a large store is compared with.
const scaleBase = 10_000

// TestScale measures what a control plane does all the time with few and with many analyses: it must not cost more. The open analyses
// are as many in both. Without -scale it only shows that all of it works.
func TestScale(t *testing.T) {
	base, most := scaleBase, *scale
	if most == 0 {
		base, most = scaleBase/3, scaleBase/2
		t.Parallel()
	}
	server := pgtest.Start(t)
	for name, open := range map[string]func() *sqlStore{
		"SQLite":   func() *sqlStore { return openAt(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db")) },
		"Postgres": func() *sqlStore { return openAt(t, server.Database()) },
	} {
		t.Run(name, func(t *testing.T) {
			small, large := open(), open()
			few, many := measureBoth(t, sized{small, base}, sized{large, most})
			var out strings.Builder
			w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintf(w, "%s\t%d\t%d\tratio\t\n", name, base, most)
			for _, what := range measured() {
				ratio := many[what.name].Seconds() / few[what.name].Seconds()
				fmt.Fprintf(w, "%s\t%d µs\t%d µs\t%.2f\t\n", what.name, few[what.name].Microseconds(), many[what.name].Microseconds(), ratio)
				// Below that a ratio says more about the machine.
				if *scale > 0 && ratio > 1.5 && many[what.name] > few[what.name]+500*time.Microsecond {
					t.Errorf("%s grows with the store: %s, %s", what.name, few[what.name], many[what.name])
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", out.String())
		})
	}
}

// openAt opens a store for the length of the test.
func openAt(t *testing.T, url string) *sqlStore {
	t.Helper()
	s, err := Open(t.Context(), url, Options{Now: func() time.Time { return scaleNow }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })

	return s.(*sqlStore)
}

// scaleNow is the time of the measurements.
var scaleNow = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// operationOf is something that is measured on a store with n analyses.
type operationOf struct {
	name string
	run  func(ctx context.Context, s *sqlStore, n int) error
}

// measured is what runs all the time or whenever somebody looks.
func measured() []operationOf {
	list := func(r PageRequest) func(context.Context, *sqlStore, int) error {
		return func(ctx context.Context, s *sqlStore, n int) error {
			r := r
			r.Limit = 50
			if r.Cursor == "middle" {
				r.Cursor = formatCursor(millis(scaleNow)-int64(n/2)*1000, fmt.Sprintf("an_%08d", n/2))
			}
			p, err := s.Analyses(ctx, r)
			if err == nil && len(p.Analyses) != 50 {
				err = fmt.Errorf("%d analyses", len(p.Analyses))
			}

			return err
		}
	}

	return []operationOf{
		{"list, first page", list(PageRequest{})},
		{"list, in the middle", list(PageRequest{Cursor: "middle"})},
		{"list, failed", list(PageRequest{Status: StatusFailed})},
		{"list, queued", list(PageRequest{Status: StatusQueued})},
		{"list, an account", list(PageRequest{Account: "team7"})},
		{"list, by id", list(PageRequest{IDPrefix: "an_00001"})},
		{"get, with its record", func(ctx context.Context, s *sqlStore, n int) error {
			return getAll(ctx, s, fmt.Sprintf("an_%08d", n/3))
		}},
		{"sweep, lapsed leases", func(ctx context.Context, s *sqlStore, _ int) error {
			return none(s.RequeueLapsed(ctx, time.Minute, 500))
		}},
		{"sweep, uploads", func(ctx context.Context, s *sqlStore, _ int) error {
			return none(s.ExpireUploads(ctx, scaleNow.Add(-1000*24*time.Hour), 500))
		}},
		{"sweep, ledger", func(ctx context.Context, s *sqlStore, _ int) error { return none(s.ForgetLedger(ctx, 500)) }},
		{"sweep, webhook ids", func(ctx context.Context, s *sqlStore, _ int) error {
			return none(s.ForgetWebhooks(ctx, scaleNow.Add(-1000*24*time.Hour), 500))
		}},
		{"reconcile, demand", func(ctx context.Context, s *sqlStore, _ int) error {
			_, err := s.FleetDemand(ctx)

			return err
		}},
		{"reconcile, open runs", func(ctx context.Context, s *sqlStore, _ int) error {
			_, err := s.OpenRuns(ctx, scaleNow, Run{}, 500)

			return err
		}},
		{"relay, outbox", func(ctx context.Context, s *sqlStore, _ int) error {
			_, err := s.Outbox(ctx, 100, OutboxDispatch)

			return err
		}},
		{"metrics, open analyses", func(ctx context.Context, s *sqlStore, _ int) error {
			_, err := s.Open(ctx)

			return err
		}},
	}
}

// none wants a sweep to have found nothing.
func none(n int, err error) error {
	if err == nil && n != 0 {
		err = fmt.Errorf("%d were swept", n)
	}

	return err
}

func getAll(ctx context.Context, s *sqlStore, id string) error {
	_, err := s.Analysis(ctx, id)
	if err != nil {
		return err
	}
	x, err := s.Executions(ctx, id)
	if err == nil && len(x) != 1 {
		err = fmt.Errorf("%d executions", len(x))
	}
	if err != nil {
		return err
	}
	if _, err = s.Credits(ctx, id); err != nil {
		return err
	}
	entries, err := s.Ledger(ctx, id)
	if err == nil && len(entries) != 3 {
		err = fmt.Errorf("%d entries", len(entries))
	}

	return err
}

// sized is a store and how many analyses it is to hold.
type sized struct {
	*sqlStore
	n int
}

// rounds is how often each operation is timed, after some that fill caches; without -scale a few show that it works.
func rounds() (warm, timed int) {
	if *scale > 0 {
		return 10, 300
	}

	return 0, 2
}

// measureBoth fills both stores and times each operation, in turns so that a busy machine is busy for both. Of 300 times it
// takes the fifteenth: what the operation costs when nobody else is served.
func measureBoth(t *testing.T, small, large sized) (few, many map[string]time.Duration) {
	t.Helper()
	for _, s := range []sized{small, large} {
		began := time.Now()
		fill(t, s.sqlStore, s.n)
		t.Logf("%d analyses written in %s", s.n, time.Since(began).Round(time.Second))
	}
	few, many = map[string]time.Duration{}, map[string]time.Duration{}
	warm, timed := rounds()
	for _, o := range measured() {
		times := map[int][]time.Duration{}
		for i := range warm + timed {
			for _, s := range []sized{small, large} {
				at := time.Now()
				if err := o.run(t.Context(), s.sqlStore, s.n); err != nil {
					t.Fatalf("%s: %v", o.name, err)
				}
				if i >= warm {
					times[s.n] = append(times[s.n], time.Since(at))
				}
			}
		}
		for _, all := range times {
			slices.Sort(all)
		}
		few[o.name], many[o.name] = times[small.n][timed/20], times[large.n][timed/20]
	}

	return few, many
}

// fill writes n analyses with what belongs to them: nearly all of them decided, a few hundred open. The newest has the number 0.
func fill(t *testing.T, s *sqlStore, n int) {
	t.Helper()
	series, number := `(WITH RECURSIVE g(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM g WHERE i + 1 < $1) SELECT i FROM g) AS g`, `printf('%08d', i)`
	bytes := func(text string) string { return "CAST(" + text + " AS BLOB)" }
	if s.forUpdate != "" {
		series, number = `(SELECT i FROM generate_series(0, $1::bigint - 1) AS i) AS g`, `lpad(i::text, 8, '0')`
		bytes = func(text string) string { return "convert_to(" + text + ", 'UTF8')" }
	}
	status := `CASE WHEN i < 300 THEN 'queued' WHEN i < 400 THEN 'processing' WHEN i < 500 THEN 'uploading' WHEN i % 50 = 0 THEN 'failed'
		WHEN i % 100 = 1 THEN 'cancelled' ELSE 'delivered' END`
	id, at := `'an_' || `+number, fmt.Sprintf(`%d - i * 1000`, millis(scaleNow))
	future := strconv.FormatInt(millis(scaleNow)+100_000_000, 10)
	for _, q := range []string{
		`INSERT INTO analyses (id, status, params, params_digest, clips, content_digest, epoch, source, lease_until, result, created_at, updated_at, settled_at, account)
			SELECT ` + id + `, ` + status + `, ` + bytes(`'{"model":"full"}'`) + `, '', ` + bytes(`'[{"id":"c1","key":"analyses/x/clips/c1","size":1}]'`) + `, '', 1, 'http',
			CASE WHEN i >= 300 AND i < 400 THEN ` + future + ` ELSE 0 END, ` + bytes(`'`+strings.Repeat("r", 400)+`'`) + `, ` + at + `, ` + at + `, ` + at + `,
			'team' || (i % 10) FROM ` + series,
		`INSERT INTO executions (analysis_id, epoch, claim, worker_id, source, job_id, attempt, started_at)
			SELECT ` + id + `, 1, 'clm', 'w', 'queue', 'j', 1, ` + at + ` FROM ` + series,
		`INSERT INTO credits (analysis_id, round, account, state, reserved_at) SELECT ` + id + `, 0, 'team' || (i % 10), 'settled', ` + at + ` FROM ` + series,
		`INSERT INTO events (analysis_id, at, kind) SELECT ` + id + `, ` + at + `, k FROM (SELECT 'created' AS k UNION ALL SELECT 'submitted'
			UNION ALL SELECT 'delivered') AS kinds, ` + series,
		`INSERT INTO ledger (entry_key, digest, outcome, at, expires_at) SELECT ` + id + ` || k, ` + bytes(`'0123456789abcdef'`) + `, 'done', ` + at + `, ` + future + `
			FROM (SELECT '/credit.reserve/0' AS k UNION ALL SELECT '/credit.settle/0' UNION ALL SELECT '/notice/0') AS kinds, ` + series,
		`INSERT INTO webhook_ids (id, analysis_id, digest, decision, seen_at) SELECT 'res_' || ` + id + `, ` + id + `, '', 'accepted', ` + at + ` FROM ` + series,
		`INSERT INTO runs (analysis_id, round, reason, stage, created_at, updated_at, ended_at) SELECT ` + id + `, 0, 'submitted', 70, ` + at + `, ` + at + `,
			CASE WHEN i < 400 THEN 0 ELSE ` + at + ` END FROM ` + series,
	} {
		if _, err := s.writer.ExecContext(t.Context(), q, n); err != nil {
			t.Fatalf("%v: %s", err, q)
		}
	}
	// Postgres does so by itself, though not at once.
	if s.forUpdate == "" {
		return
	}
	for _, q := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := s.writer.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
}
