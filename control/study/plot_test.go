package study_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/control/study"
	"github.com/posefleet/posefleet/control/study/rig"
	"github.com/posefleet/posefleet/internal/pgtest"
)

var (
	measure = flag.Bool("measure", false, "let the days happen again to both databases, and write docs/ledger and the tables of docs/ledger.md anew")
	repeats = flag.Bool("real", false, "as -measure, for the days with real repeats: some minutes")
)

const (
	plotsDir   = "../../docs/ledger"
	ledgerPage = "../../docs/ledger.md"
)

// TestPlots: the plots and the tables of docs/ledger.md show what was measured, the counts of that are the model's, and where the repeats were
// real each key has had its effects once. With -measure and -real they are made anew.
func TestPlots(t *testing.T) {
	t.Parallel()
	file := filepath.Join(plotsDir, study.MeasuredFile)
	if *measure || *repeats {
		measureAnew(t, file)
	}
	d, err := study.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Plots() {
		want := p.SVG()
		if got, err := os.ReadFile(filepath.Join(plotsDir, p.Name+".svg")); err != nil || string(got) != want {
			t.Errorf("%s.svg does not show what was measured: %v", p.Name, err)
		}
		if err := wellFormed(want); err != nil {
			t.Errorf("%s.svg: %v", p.Name, err)
		}
	}
	page, err := os.ReadFile(ledgerPage)
	for _, table := range d.Tables() {
		if err != nil || !strings.Contains(string(page), table) {
			t.Errorf("%s does not have this table: %v\n%s", ledgerPage, err, table)
		}
	}
	for _, name := range study.Days() {
		checkDay(t, name, &d)
	}
}

// checkDay holds a measured day against the model's.
func checkDay(t *testing.T, name string, d *study.Document) {
	t.Helper()
	day := study.ModelOf(name).Run()
	for _, m := range d.Measured[name] {
		want := study.Outcome{Scope: m.Scope, Effects: day.Effects}
		for _, o := range day.Outcomes {
			if o.Scope == m.Scope {
				want = o
			}
		}
		if m.Deliveries != day.Deliveries || m.Effects != want.Effects || m.Suppressed != want.Suppressed || m.Ledger != want.Ledger {
			t.Errorf("%s on %s: %+v, the model says %+v", name, m.Database, m, want)
		}
	}
	if n := len(d.Measured[name]); n != 2*len(study.Variants()) {
		t.Errorf("%s: %d days are measured, not each variant on both databases", name, n)
	}
	for _, r := range d.Real[name] {
		if err := r.Check(); err != nil {
			t.Error(err)
		}
		if r.Events != 8750 {
			t.Errorf("%s on %s: the real day has %d events", name, r.Database, r.Events)
		}
	}
	if n := len(d.Real[name]); n != 2 {
		t.Errorf("%s: %d days have real repeats, not one on either database", name, n)
	}
}

func wellFormed(text string) error {
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func measureAnew(t *testing.T, file string) {
	t.Helper()
	databases := []study.Database{study.SQLite(t.TempDir()), study.Postgres(pgtest.Start(t).Database())}
	d, err := study.Read(file) // for what is not measured now
	if *measure {
		d.Measured, err = study.MeasureAll(t.Context(), databases)
	}
	if err == nil && *repeats {
		d.Real, err = rig.RunAll(t.Context(), rig.Config{Dir: t.TempDir()}, study.Quiet().Shipments, databases)
	}
	if err == nil {
		err = d.WritePlots(plotsDir)
	}
	for _, table := range d.Tables() {
		if err == nil {
			err = writeTable(table)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeTable puts the table in the place of the one of the page.
func writeTable(table string) error {
	text, err := os.ReadFile(ledgerPage)
	if err != nil {
		return err
	}
	head, _, _ := strings.Cut(table, "\n")
	before, rest, ok := strings.Cut(string(text), head+"\n")
	_, after, end := strings.Cut(rest, "\n\n")
	if !ok || !end {
		return fmt.Errorf("%s has no table that begins with %s", ledgerPage, head)
	}

	return os.WriteFile(ledgerPage, []byte(before+table+"\n"+after), 0o600)
}
