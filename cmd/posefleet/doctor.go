package main

import (
	"encoding/json"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/doctor"
	"github.com/posefleet/posefleet/worker"
)

// doctorCmd is "posefleet doctor".
type doctorCmd struct {
	JSON    bool          `help:"One JSON document instead of lines for people."`
	Timeout time.Duration `default:"5s" help:"How long to wait for each part of the deployment; six times that where models are read and programs started."`
	kong.Plugins
	flags *variables
}

func newDoctorCmd() doctorCmd {
	v := newVariables(worker.Variables())
	return doctorCmd{Plugins: v.plugin(), flags: v}
}

// Help is shown below the usage line.
func (doctorCmd) Help() string {
	return "Run it where a worker runs, with the worker's environment. One line for each thing that was looked at: " +
		"ok, warn or FAIL, what is wrong, and how to mend it. Changes nothing and shows no secret. " +
		"Exit codes: 0 nothing failed, 1 something did, 2 the configuration itself is wrong."
}

// Run examines the deployment. A wrong configuration does not keep it from looking at everything else.
func (c *doctorCmd) Run(h *host) error {
	if c.Timeout <= 0 {
		return &usageError{err: fmt.Errorf("--timeout must be positive, not %s", c.Timeout)}
	}
	ctx, stop := signal.NotifyContext(h.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, faults := worker.LoadConfig(c.flags.over(h.environ))
	found := []doctor.Finding{}
	sum := doctor.Worker{Config: cfg, Faults: faults, Timeout: c.Timeout}.Examine(ctx, func(f doctor.Finding) {
		found = append(found, f)
		if !c.JSON {
			fmt.Fprintln(h.stdout, f)
		}
	})
	if c.JSON {
		if err := c.document(h, found, sum); err != nil {
			return err
		}
	}
	switch {
	case faults != nil:
		return c.flags.explain(faults)
	case sum.Failed > 0:
		return fmt.Errorf("%d of %d checks failed", sum.Failed, len(found))
	}
	return nil
}

func (c *doctorCmd) document(h *host, found []doctor.Finding, sum doctor.Summary) error {
	enc := json.NewEncoder(h.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		OK      bool             `json:"ok"`
		Summary doctor.Summary   `json:"summary"`
		Checks  []doctor.Finding `json:"checks"`
	}{sum.Failed == 0, sum, found})
}
