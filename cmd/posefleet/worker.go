package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/posefleet/posefleet/worker"
)

// workerCmd is "posefleet worker".
type workerCmd struct {
	kong.Plugins
	flags *variables
}

func newWorkerCmd() workerCmd {
	v := newVariables(worker.Variables())
	return workerCmd{Plugins: v.plugin(), flags: v}
}

// Help is shown below the usage line.
func (workerCmd) Help() string {
	return "Runs until SIGTERM. Then it takes nothing more, lets running analyses end within the drain timeout, gives " +
		"back the rest and exits 0; a second SIGTERM gives back at once. Each flag overrides the variable of the same name."
}

// Run starts the worker. The signal handler is set before anything else, so that no signal is missed.
func (c *workerCmd) Run(h *host) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	fit := worker.FitMachine(h.ctx, h.environ)
	cfg, err := worker.LoadConfig(c.flags.over(h.environ))
	if err != nil {
		return c.flags.explain(err)
	}
	log := newLogger(h.stderr, cfg.LogFormat, cfg.LogLevel)
	fit.Share(&cfg, h.environ)
	w, err := worker.New(cfg, log)
	if err != nil {
		return c.flags.explain(err)
	}
	fit.Log(&cfg, log)
	ctx, stop := context.WithCancel(h.ctx)
	defer stop()
	go drainOn(ctx, signals, w, log) // ends with ctx
	return w.Run(ctx)
}

// drainOn drains at the first signal and gives back at the second.
func drainOn(ctx context.Context, signals <-chan os.Signal, w *worker.Worker, log *slog.Logger) {
	for first := true; ; first = false {
		select {
		case sig := <-signals:
			log.Info("signal", slog.String("signal", sig.String()), slog.Bool("first", first))
			if first {
				w.Drain()
			} else {
				w.GiveBack()
			}
		case <-ctx.Done():
			return
		}
	}
}
