package main

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/demo"
)

// demoCmd is "posefleet demo [CLIP…]".
type demoCmd struct {
	demo.Options
}

// Help is shown below the usage line.
func (demoCmd) Help() string {
	return "Starts Redis and the control plane on this machine, which starts a worker for the first clip and ends it when there is nothing to do, " +
		"takes each clip through them as a deployment would, prints what came of " +
		"it and serves a page that plays the clip with the skeleton on it. Ctrl-C ends it, with exit code 0 once the results were shown and 1 before; nothing is left behind."
}

// Run runs the demo until it is done or interrupted. An interrupted demo that had shown its results is no failure.
func (c *demoCmd) Run(h *host) error {
	ctx, stop := signal.NotifyContext(h.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	level := slog.LevelWarn
	if c.Verbose {
		level = slog.LevelInfo
	}

	err := demo.Run(ctx, c.Options, demo.Streams{Out: h.stdout, Log: slog.New(textHandler(h.stderr, level)), Err: h.stderr})

	if _, ok := errors.AsType[*demo.ClipError](err); ok {
		return &usageError{err: err}
	}

	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return errInterrupted
	}

	return err
}

// errInterrupted says that there was no result yet when the demo was ended.
var errInterrupted = errors.New("interrupted before there was a result")
