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

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/study"
	"github.com/posefleet/posefleet/internal/pgtest"
)

var measure = flag.Bool("measure", false, "let the days happen again to both databases, and write docs/ledger and the table of docs/ledger.md anew")

const (
	plotsDir   = "../../docs/ledger"
	ledgerPage = "../../docs/ledger.md"
)

// TestPlots: the plots and the table of docs/ledger.md show what was measured, and the counts of that are the model's. With -measure they are made
// anew.
func TestPlots(t *testing.T) {
	t.Parallel()
	if *measure {
		measureAnew(t)
	}
	measured, err := study.ReadMeasured(filepath.Join(plotsDir, study.MeasuredFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range study.Plots(study.New(), measured) {
		want := p.SVG()
		if got, err := os.ReadFile(filepath.Join(plotsDir, p.Name+".svg")); err != nil || string(got) != want {
			t.Errorf("%s.svg does not show what was measured: %v", p.Name, err)
		}
		if err := wellFormed(want); err != nil {
			t.Errorf("%s.svg: %v", p.Name, err)
		}
	}
	page, err := os.ReadFile(ledgerPage)
	if err != nil || !strings.Contains(string(page), study.MeasuredTable(measured)) {
		t.Errorf("%s does not have this table: %v\n%s", ledgerPage, err, study.MeasuredTable(measured))
	}
	for name, day := range map[string]study.Day{"failure-free": study.Quiet().Run(), "failure window": study.Window().Run()} {
		for _, m := range measured[name] {
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
		if n := len(measured[name]); n != 2*len(study.Variants()) {
			t.Errorf("%s: %d days are measured, not each variant on both databases", name, n)
		}
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

func measureAnew(t *testing.T) {
	t.Helper()
	server := pgtest.Start(t)
	open := func(url, database string, m study.Model, scope study.Scope) (out study.Measured, err error) {
		s, err := store.Open(t.Context(), url, store.Options{})
		if err != nil {
			return out, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()

		return study.Measure(t.Context(), s, database, m, scope)
	}
	d := study.Document{Report: study.New()}
	var err error
	d.Measured, err = study.MeasureAll(func(m study.Model, scope study.Scope) ([]study.Measured, error) {
		one, err := open("sqlite:"+filepath.Join(t.TempDir(), "study.db"), "SQLite", m, scope)
		if err != nil {
			return nil, err
		}
		other, err := open(server.Database(), "Postgres", m, scope)

		return []study.Measured{one, other}, err
	})
	if err == nil {
		err = d.WritePlots(plotsDir)
	}
	if err == nil {
		err = writeTable(study.MeasuredTable(d.Measured))
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
