package study_test

import (
	"math"
	"testing"

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
			d := study.SQLite(t.TempDir())
			if database == "postgres" {
				d = study.Postgres(pgtest.Start(t).Database())
			}
			for _, scope := range study.Variants() {
				compare(t, d, part, scope)
			}
		})
	}
}

func compare(t *testing.T, d study.Database, m study.Model, scope study.Scope) {
	t.Helper()
	database := d.Name
	s, done, err := d.Empty(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := done(); err != nil {
			t.Error(err)
		}
	}()
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
	checkRecord(t, got)
	// Few entries fit into the pages that an empty table has.
	if (want.Ledger > 200 && got.RecordBytes < 50) || (want.Ledger == 0 && got.RecordBytes != 0) || got.PerWrite <= 0 {
		t.Errorf("%s, key %q: %.0f bytes a record, %s a write", database, scope, got.RecordBytes, got.PerWrite)
	}
}

// checkRecord: the parts of a record are together the whole, and the whole has room for what is in it.
func checkRecord(t *testing.T, m study.Measured) {
	t.Helper()
	r := m.Record
	if sum := r.Row + r.KeyIndex + r.Expiry + r.Rest; math.Abs(sum-m.RecordBytes) > 1e-6 {
		t.Errorf("%s, key %q: the parts of a record are %.1f bytes, the whole %.1f", m.Database, m.Scope, sum, m.RecordBytes)
	}
	// The key twice, its digest of 16 bytes, the outcome, two times; an empty table has a page or two already.
	const page = 8192
	if least := 2*r.Key + 16; m.Ledger > 200 && m.RecordBytes < least-float64(3*page)/float64(m.Ledger) {
		t.Errorf("%s, key %q: a record of %.1f bytes can't hold a key of %.1f twice", m.Database, m.Scope, m.RecordBytes, r.Key)
	}
	if m.Ledger > 200 && (r.Key < 10 || r.Row <= 0 || r.Expiry <= 0) {
		t.Errorf("%s, key %q: %+v", m.Database, m.Scope, r)
	}
}
