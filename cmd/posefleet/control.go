package main

import (
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/posefleet/posefleet/control"
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
	s, err := control.New(ctx, cfg, newLogger(h.stderr, cfg.LogFormat, cfg.LogLevel))
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
