package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/doctor"
	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/worker"
)

// doctorCmd is "posefleet doctor".
type doctorCmd struct {
	JSON    bool          `help:"One JSON document instead of lines for people."`
	Timeout time.Duration `default:"5s" help:"How long to wait for each part of the deployment; six times that where models are read and programs started."`
	Part    string        `default:"auto" enum:"auto,worker,control" help:"From whose place to look: worker, control, or auto: that of the control plane if there are variables of it and no POSEFLEET_CONTROL_URL."`
	kong.Plugins
	flags *variables
}

func newDoctorCmd() doctorCmd {
	v := newVariables(doctorVariables())
	return doctorCmd{Plugins: v.plugin(), flags: v}
}

// doctorVariables are those of a worker, then those that only a control plane has.
func doctorVariables() []worker.Variable {
	list := worker.Variables()
	for _, v := range control.Variables() {
		if !slices.ContainsFunc(list, func(have worker.Variable) bool { return have.Name == v.Name }) {
			list = append(list, worker.Variable{Name: v.Name, Default: v.Default, Help: v.Help})
		}
	}
	return list
}

// Help is shown below the usage line.
func (doctorCmd) Help() string {
	return "Run it where a worker (or the control plane) runs, with its environment. One line for each thing that was looked at: " +
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
	patient, faults := c.patient(c.flags.over(h.environ))
	found := []doctor.Finding{}
	sum := patient.Examine(ctx, func(f doctor.Finding) {
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
	case ctx.Err() != nil:
		return errInterrupted
	case sum.Failed > 0:
		return fmt.Errorf("%d of %d checks failed", sum.Failed, len(found))
	}
	return nil
}

// examiner is a part of a deployment.
type examiner interface {
	Examine(ctx context.Context, report func(doctor.Finding)) doctor.Summary
}

// patient is the part that the environment configures, with the faults of its configuration.
func (c *doctorCmd) patient(environ map[string]string) (examiner, error) {
	if c.Part == "control" || c.Part == "auto" && isControl(environ) {
		cfg, faults := control.LoadConfig(environ)
		return doctor.Control{Config: cfg, Faults: faults, Timeout: c.Timeout}, faults
	}
	cfg, faults := worker.LoadConfig(environ)
	return doctor.Worker{Config: cfg, Faults: faults, Timeout: c.Timeout}, faults
}

// isControl: a worker can't be without the URL of the control plane, which itself has no use for it.
func isControl(environ map[string]string) bool {
	if environ[worker.EnvPrefix+"CONTROL_URL"] != "" {
		return false
	}
	return slices.ContainsFunc([]string{"DATABASE_URL", "STORAGE_URL", "PUBLIC_URL", "API_TOKEN"}, func(name string) bool {
		return environ[control.EnvPrefix+name] != ""
	})
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
