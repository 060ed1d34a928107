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
	// Parts are the table's own pages and those of each of its indexes, in bytes, by the database's name of them. What a database keeps beside
	// these (Postgres: maps of free space) is in Bytes only.
	Parts map[string]int64
}

// sizedTables are all tables that grow.
func sizedTables() []string {
	return []string{
		"analyses", "accounts", "artifacts", "census", "credits", "events", "executions", "fleet_history", "ledger", "outbox", "runs", "webhook_ids",
	}
}

// Sizes measures the tables. It reads them whole: a tool for people, not for a metric.
func (s *sqlStore) Sizes(ctx context.Context) ([]TableSize, error) {
	var all []TableSize
	for _, table := range sizedTables() {
		size := TableSize{Table: table}
		query := `SELECT count(*), (` + strings.ReplaceAll(s.sizeOf.whole, "?", table) + `) FROM ` + table
		err := s.reader.QueryRowContext(ctx, query).Scan(&size.Rows, &size.Bytes)
		if err == nil {
			size.Parts, err = s.parts(ctx, table)
		}
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", table, err)
		}
		all = append(all, size)
	}

	return all, nil
}

func (s *sqlStore) parts(ctx context.Context, table string) (map[string]int64, error) {
	rows, err := s.reader.QueryContext(ctx, strings.ReplaceAll(s.sizeOf.parts, "?", table))
	if err != nil {
		return nil, err
	}
	type part struct {
		name  string
		bytes int64
	}
	all, err := scanAll(rows, func(r scanner) (p part, err error) {
		err = r.Scan(&p.name, &p.bytes)

		return p, err
	})
	byName := map[string]int64{}
	for _, p := range all {
		byName[p.name] = p.bytes
	}

	return byName, err
}

// sizing is how a database knows what a table takes, as queries with ? for its name.
type sizing struct{ whole, parts string }

// sqliteSize counts whole pages, used or not.
func sqliteSize() sizing {
	const ofTable = ` FROM dbstat WHERE name IN (SELECT name FROM sqlite_schema WHERE tbl_name = '?')`

	return sizing{whole: `SELECT sum(pgsize)` + ofTable, parts: `SELECT name, sum(pgsize)` + ofTable + ` GROUP BY name`}
}

// postgresSize counts what is on disk, vacuumed or not.
func postgresSize() sizing {
	return sizing{
		whole: `SELECT pg_total_relation_size('?')`,
		parts: `SELECT relname, pg_relation_size(oid) FROM pg_class WHERE oid = '?'::regclass
			OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = '?'::regclass)`,
	}
}
