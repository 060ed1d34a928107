package main

import (
	"errors"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/control/fleet"
	"github.com/posefleet/posefleet/worker"
)

// controlCmd is "posefleet control".
type controlCmd struct {
	kong.Plugins
	flags *variables
}

func newControlCmd() controlCmd {
	v := newVariables(control.Variables())
	return controlCmd{Plugins: v.plugin(), flags: v}
}

// Help is shown below the usage line.
func (controlCmd) Help() string {
	return "Runs until SIGTERM, lets running requests end and exits 0. Redis may be away: what has to be enqueued waits in the database. " +
		"Each flag overrides the variable of the same name."
}

// Run starts the control plane.
func (c *controlCmd) Run(h *host) error {
	ctx, stop := signal.NotifyContext(h.ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cfg, err := control.LoadConfig(c.flags.over(h.environ))
	if err != nil {
		return c.flags.explain(err)
	}
	if err := checkWorkers(&cfg); err != nil {
		return c.flags.explain(err)
	}
	s, err := control.New(ctx, cfg, newLogger(h.stderr, cfg.LogFormat, cfg.LogLevel))
	if _, ok := errors.AsType[*control.ConfigError](err); ok {
		return c.flags.explain(err)
	}
	if err != nil && ctx.Err() != nil { // the end was asked for while it still waited for the database
		return nil
	}
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// checkWorkers refuses settings with which no worker of this machine could start: the control plane would try again for ever.
func checkWorkers(cfg *control.Config) error {
	target, err := fleet.ParseTarget(cfg.Fleet)
	if err != nil || target.Kind != fleet.Local {
		return err
	}
	env, err := cfg.LocalWorker()
	if err != nil {
		return err
	}
	_, err = worker.LoadConfig(env)
	return err
}
