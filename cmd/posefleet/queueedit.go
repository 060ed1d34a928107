package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/queuecmd"
	"github.com/posefleet/posefleet/queue"
)

type queuePromoteCmd struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Job ids."`
	All bool     `help:"All delayed jobs, instead of ids."`
}

// Run promotes jobs.
func (p *queuePromoteCmd) Run(h *host, c *queueCmd) error {
	if p.All == (len(p.IDs) > 0) {
		return &usageError{err: errors.New("give either job ids or --all")}
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error {
		if p.All {
			return d.PromoteAll(ctx)
		}
		return d.Promote(ctx, p.IDs)
	})
}

type queueDelayCmd struct {
	ID    string        `arg:"" help:"Id of a delayed job."`
	Delay time.Duration `arg:"" help:"When it is due, from now, as in 90s or 2h."`
}

// Run changes a delay.
func (r *queueDelayCmd) Run(h *host, c *queueCmd) error {
	if r.Delay < 0 {
		return &usageError{err: errors.New("<delay> must not be negative")}
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.ChangeDelay(ctx, r.ID, r.Delay) })
}

type queuePrioritizeCmd struct {
	ID       string `arg:"" help:"Job id."`
	Priority int    `arg:"" help:"0 is served first, then 1, 2 and so on."`
	First    bool   `help:"In front of the jobs of that priority, instead of behind them."`
}

// Run changes a priority.
func (r *queuePrioritizeCmd) Run(h *host, c *queueCmd) error {
	if r.Priority < 0 || r.Priority > queue.MaxPriority {
		return &usageError{err: fmt.Errorf("<priority> must be 0 to %d", queue.MaxPriority)}
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error {
		return d.ChangePriority(ctx, r.ID, r.Priority, r.First)
	})
}

type queueOrphansCmd struct {
	Yes bool `short:"y" help:"Do not ask; needed where there is no terminal to ask at."`
}

// Run deletes jobs that are in no state.
func (r *queueOrphansCmd) Run(h *host, c *queueCmd) error {
	return c.deleting(h, r.Yes, func(ctx context.Context, d *queuecmd.Desk) error { return d.RemoveOrphans(ctx) })
}

type queueObliterateCmd struct {
	Yes   bool `short:"y" help:"Do not ask; needed where there is no terminal to ask at."`
	Force bool `help:"Also while jobs run."`
}

// Run deletes the queue.
func (r *queueObliterateCmd) Run(h *host, c *queueCmd) error {
	return c.deleting(h, r.Yes, func(ctx context.Context, d *queuecmd.Desk) error { return d.Obliterate(ctx, r.Force) })
}
