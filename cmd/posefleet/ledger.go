package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/study"
)

// ledgerCmd is "posefleet ledger …".
type ledgerCmd struct {
	Study ledgerStudyCmd `cmd:"" help:"What an idempotency ledger prevents and costs: key scopes on a quiet day and in a failure window."`
}

// ledgerStudyCmd is "posefleet ledger study".
type ledgerStudyCmd struct {
	JSON     bool   `help:"For scripts."`
	Measure  bool   `xor:"source" help:"Let the same days happen to the real ledger too, in a SQLite file that is removed afterwards."`
	Postgres string `placeholder:"URL" help:"With --measure: and in this empty Postgres database (postgres://…), which keeps the rows."`
	From     string `placeholder:"FILE" xor:"source" help:"Show days that were measured before: what --json wrote, or measured.json of --plots."`
	Plots    string `placeholder:"DIR" help:"With --measure or --from: write plots of them there (SVG), and the figures (measured.json)."`
}

// Run prints the study.
func (c *ledgerStudyCmd) Run(h *host) error {
	if c.Plots != "" && !c.Measure && c.From == "" {
		return &usageError{err: errors.New("--plots needs --measure or --from")}
	}
	out := study.Document{Report: study.New()}
	var err error
	switch {
	case c.Measure:
		out.Measured, err = c.measure(h.ctx)
	case c.From != "":
		out.Measured, err = study.ReadMeasured(c.From)
	}
	if err == nil && c.Plots != "" {
		err = out.WritePlots(c.Plots)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(h.stdout)
		e.SetIndent("", "  ")

		return e.Encode(out)
	}
	if err := out.Write(h.stdout); err != nil || out.Measured == nil {
		return err
	}

	return study.WriteMeasured(h.stdout, out.Measured)
}

// measure lets each day happen to each database, each time under another name, so that a database that is kept can hold them all.
func (c *ledgerStudyCmd) measure(ctx context.Context) (map[string][]study.Measured, error) {
	dir, err := os.MkdirTemp("", "posefleet-study-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)

	return study.MeasureAll(func(m study.Model, scope study.Scope) ([]study.Measured, error) {
		m.Name = filepath.Base(dir) + "-" + m.Name
		one, err := measureIn(ctx, "sqlite:"+filepath.Join(dir, m.Key()+".db"), "SQLite", m, scope)
		if err != nil || c.Postgres == "" {
			return []study.Measured{one}, err
		}
		other, err := measureIn(ctx, c.Postgres, "Postgres", m, scope)

		return []study.Measured{one, other}, err
	})
}

func measureIn(ctx context.Context, url, name string, m study.Model, scope study.Scope) (out study.Measured, err error) {
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	return study.Measure(ctx, s, name, m, scope)
}
