package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// Every table that grows is measured: all there are, but those of one row or of a few for good.
func sizesOfAllTables(t *testing.T, s *sqlStore) {
	t.Helper()
	query := `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`
	if s.forUpdate != "" {
		query = `SELECT tablename FROM pg_tables WHERE schemaname = 'public'`
	}
	rows, err := s.reader.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	want, err := scanAll(rows, func(r scanner) (string, error) {
		var name string

		return name, r.Scan(&name)
	})
	if err != nil {
		t.Fatal(err)
	}
	want = slices.DeleteFunc(want, func(name string) bool { return slices.Contains([]string{"fleet", "goose_db_version", "secrets"}, name) })
	sizes, err := s.Sizes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, z := range sizes {
		got = append(got, z.Table)
		if z.Bytes <= 0 {
			t.Errorf("%+v", z)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A look into the outbox that fails says what failed.
func outboxOfFails(t *testing.T, s *sqlStore) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.OutboxOf(ctx, "an_1", OutboxDispatch)
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "look into the outbox: ") {
		t.Error(err)
	}
}
