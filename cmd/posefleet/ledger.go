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
	Measure  bool   `help:"Let the same days happen to the real ledger too, in a SQLite file that is removed afterwards."`
	Postgres string `placeholder:"URL" help:"With --measure: and in this empty Postgres database (postgres://…), which keeps the rows."`
}

// Run prints the study.
func (c *ledgerStudyCmd) Run(h *host) error {
	var out struct {
		study.Report
		Measured map[string][]study.Measured `json:"measured,omitempty"`
	}
	out.Report = study.New()
	if c.Measure {
		var err error
		if out.Measured, err = c.measure(h.ctx); err != nil {
			return err
		}
	}
	if c.JSON {
		e := json.NewEncoder(h.stdout)
		e.SetIndent("", "  ")

		return e.Encode(out)
	}
	if err := out.Write(h.stdout); err != nil || !c.Measure {
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
	all := map[string][]study.Measured{}
	days := []struct {
		name  string
		model study.Model
	}{{"failure-free", study.Quiet()}, {"failure window", study.Window()}}
	for _, day := range days {
		for _, scope := range study.Variants() {
			model := day.model
			model.Name = filepath.Base(dir) + "-" + day.name + "-" + string(scope)
			file := "sqlite:" + filepath.Join(dir, model.Key()+".db")
			m, err := measureIn(ctx, file, "SQLite", model, scope)
			if err != nil {
				return nil, err
			}
			all[day.name] = append(all[day.name], m)
			if c.Postgres == "" {
				continue
			}
			if m, err = measureIn(ctx, c.Postgres, "Postgres", model, scope); err != nil {
				return nil, err
			}
			all[day.name] = append(all[day.name], m)
		}
	}

	return all, nil
}

func measureIn(ctx context.Context, url, name string, m study.Model, scope study.Scope) (out study.Measured, err error) {
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	return study.Measure(ctx, s, name, m, scope)
}
