package study_test

import (
	"path/filepath"
	"testing"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/study"
	"github.com/posefleet/posefleet/internal/pgtest"
)

// TestMeasuredDaysAreTheModels: the real ledger does what the model says, on both databases. A part of the day is enough to compare.
func TestMeasuredDaysAreTheModels(t *testing.T) {
	t.Parallel()
	part := study.Window()
	part.Shipments = 40
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			newURL := func() string { return "sqlite:" + filepath.Join(t.TempDir(), "study.db") }
			if database == "postgres" {
				newURL = pgtest.Start(t).Database
			}
			for _, scope := range study.Variants() {
				compare(t, newURL(), database, part, scope)
			}
		})
	}
}

func compare(t *testing.T, url, database string, m study.Model, scope study.Scope) {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := study.Measure(t.Context(), s, database, m, scope)
	if err != nil {
		t.Fatal(err)
	}
	day := m.Run()
	want := study.Outcome{Effects: day.Effects}
	for _, o := range day.Outcomes {
		if o.Scope == scope {
			want = o
		}
	}
	if got.Deliveries != day.Deliveries || got.Suppressed != want.Suppressed || got.Effects != want.Effects || got.Ledger != want.Ledger {
		t.Errorf("%s, key %q: measured %+v, the model says %+v of %d", database, scope, got, want, day.Deliveries)
	}
	// Few entries fit into the pages that an empty table has.
	if (want.Ledger > 200 && got.RecordBytes < 50) || (want.Ledger == 0 && got.RecordBytes != 0) || got.PerWrite <= 0 {
		t.Errorf("%s, key %q: %.0f bytes a record, %s a write", database, scope, got.RecordBytes, got.PerWrite)
	}
}
