package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/posefleet/posefleet/control/study"
	"github.com/posefleet/posefleet/control/study/rig"
)

// ledgerCmd is "posefleet ledger …".
type ledgerCmd struct {
	Study ledgerStudyCmd `cmd:"" help:"What an idempotency ledger prevents and costs: key scopes on a quiet day and in a failure window."`
}

// ledgerStudyCmd is "posefleet ledger study".
type ledgerStudyCmd struct {
	JSON        bool   `help:"For scripts."`
	Measure     bool   `help:"Let the same days happen to the real ledger too, in SQLite files that are removed afterwards."`
	Real        bool   `help:"Let the repeats arise for real: replies cut off, Redis failing over, workers lost. Needs redis-server; takes some minutes."`
	Shipments   *int   `placeholder:"N" help:"With --real: the size of the day (default 1250)."`
	RedisServer string `placeholder:"FILE" help:"With --real: the program redis-server, if it is not on the PATH."`
	Postgres    string `placeholder:"URL" help:"With --measure or --real: and in this Postgres database (postgres://…), in schemas that are removed afterwards."`
	From        string `placeholder:"FILE" help:"Show days that were measured before: what --json wrote, or measured.json of --plots."`
	Plots       string `placeholder:"DIR" help:"With --measure, --real or --from: write plots of them there (SVG), and the figures (measured.json)."`
}

// check tells what of the flags does not fit together.
func (c *ledgerStudyCmd) check() error {
	measures := c.Measure || c.Real
	switch {
	case measures && c.From != "":
		return &usageError{err: errors.New("--from shows what was measured before: not with --measure or --real")}
	case c.Plots != "" && !measures && c.From == "":
		return &usageError{err: errors.New("--plots needs --measure, --real or --from")}
	case !c.Real && (c.Shipments != nil || c.RedisServer != ""):
		return &usageError{err: errors.New("--shipments and --redis-server need --real")}
	case !measures && c.Postgres != "":
		return &usageError{err: errors.New("--postgres needs --measure or --real")}
	case c.shipments() < 1:
		return &usageError{err: errors.New("--shipments must be at least 1")}
	}

	return nil
}

// modelShipments is the size of the model's day.
const modelShipments = 1250

// shipments is the size of the day with real repeats; by default it is the model's.
func (c *ledgerStudyCmd) shipments() int {
	if c.Shipments == nil {
		return modelShipments
	}

	return *c.Shipments
}

// Run prints the study.
func (c *ledgerStudyCmd) Run(h *host) error {
	if err := c.check(); err != nil {
		return err
	}
	out, err := c.document(h.ctx)
	if err == nil && c.Plots != "" {
		err = out.WritePlots(c.Plots)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(h.stdout)
		e.SetIndent("", "  ")

		return errors.Join(e.Encode(out), checkReal(out))
	}
	if err := out.Write(h.stdout); err != nil {
		return err
	}

	return errors.Join(out.WriteMeasured(h.stdout), checkReal(out))
}

// checkReal is the errors of the days whose effects did not happen exactly once.
func checkReal(d study.Document) error {
	var faults []error
	for _, day := range study.Days() {
		for _, r := range d.Real[day] {
			faults = append(faults, r.Check())
		}
	}

	return errors.Join(faults...)
}

func (c *ledgerStudyCmd) document(ctx context.Context) (out study.Document, err error) {
	if c.From != "" {
		return study.Read(c.From)
	}
	out.Report = study.New()
	dir, err := os.MkdirTemp("", "posefleet-study-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	databases := []study.Database{study.SQLite(dir)}
	if c.Postgres != "" {
		databases = append(databases, study.Postgres(c.Postgres))
	}
	if c.Measure {
		out.Measured, err = study.MeasureAll(ctx, databases)
	}
	if err == nil && c.Real {
		out.Real, err = rig.RunAll(ctx, rig.Config{RedisServer: c.RedisServer, Dir: filepath.Join(dir, "redis")}, c.shipments(), databases)
	}

	return out, err
}
