package store

import (
	"context"
	"fmt"
	"strings"
)

// Occurrence is an event from outside with its effects in the timeline of its scope.
type Occurrence struct {
	// Key is what makes it the same as another one.
	Key LedgerKey
	// Body is held against that of the first arrival; Outcome is given back to later ones.
	Body    []byte
	Outcome string
	// Effects are the kinds of the lines that it writes.
	Effects []string
	// Unkeyed lets it happen however often it comes, as if there were no ledger; for comparison.
	Unkeyed bool
}

// Occur lets an event have its effects once, and tells whether they happened now. A repeat gives back the outcome of the first time;
// one with another body is ErrConflict.
func (s *sqlStore) Occur(ctx context.Context, o Occurrence) (string, bool, error) {
	outcome, fresh := o.Outcome, true
	err := s.write(ctx, "record occurrence", func(t *tx) error {
		if o.Unkeyed {
			return t.occur(o)
		}
		var err error
		outcome, fresh, err = t.once(o.Key, o.Body, o.Outcome, func() error { return t.occur(o) })

		return err
	})

	return outcome, fresh, err
}

func (t *tx) occur(o Occurrence) error {
	for _, kind := range o.Effects {
		if err := t.event(Event{AnalysisID: o.Key.Scope, Kind: kind}); err != nil {
			return err
		}
	}

	return nil
}

// TableSize is what a table takes, its indexes included.
type TableSize struct {
	Table string
	Rows  int64
	Bytes int64
}

// Sizes measures the tables. It reads them whole: a tool for people, not for a metric.
func (s *sqlStore) Sizes(ctx context.Context) ([]TableSize, error) {
	var all []TableSize
	for _, table := range []string{"analyses", "accounts", "artifacts", "credits", "events", "executions", "ledger", "outbox", "runs", "webhook_ids"} {
		size := TableSize{Table: table}
		query := `SELECT count(*), (` + strings.ReplaceAll(s.sizeOf, "?", table) + `) FROM ` + table
		if err := s.reader.QueryRowContext(ctx, query).Scan(&size.Rows, &size.Bytes); err != nil {
			return nil, fmt.Errorf("measure %s: %w", table, err)
		}
		all = append(all, size)
	}

	return all, nil
}

// How the databases know what a table takes.
const (
	sqliteSize = `SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_schema WHERE tbl_name = '?')`
	// Vacuumed or not: what is on disk counts.
	postgresSize = `SELECT pg_total_relation_size('?')`
)
