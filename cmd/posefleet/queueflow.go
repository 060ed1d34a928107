package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/queuecmd"
)

// queueFlowCmd is "posefleet queue flow …".
type queueFlowCmd struct {
	Add flowAddCmd `cmd:"" help:"Add a tree of jobs, all of it or nothing."`
	Get flowGetCmd `cmd:"" help:"The tree below a job, as it is now."`
}

type flowAddCmd struct {
	File string `arg:"" default:"-" help:"File with the tree; - is stdin."`
}

// Help is shown below the usage line.
func (flowAddCmd) Help() string {
	return `The tree is JSON as BullMQ's FlowProducer takes it, or an array of such trees: {"name": "report", "queueName": "mail", "data": {…}, ` +
		`"opts": {"attempts": 3}, "children": [{"name": "page", "queueName": "render"}]}. Without queueName a job is of --queue.`
}

// Run adds flows.
func (a *flowAddCmd) Run(h *host, c *queueCmd) error {
	in := h.stdin
	if a.File != "-" {
		f, err := os.Open(a.File)
		if err != nil {
			return &usageError{err: fmt.Errorf("flow: %w", err)}
		}
		defer f.Close()
		in = f
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error {
		return d.AddFlow(ctx, io.LimitReader(in, flowBytes))
	})
}

// flowBytes bounds a tree's text; what is cut off there is no JSON any more.
const flowBytes = 64 << 20

type flowGetCmd struct {
	ID       string `arg:"" help:"Job id."`
	Depth    int    `default:"10" help:"How many levels, the job's own included."`
	Children int    `default:"20" help:"How many children of each kind of each job: pending, completed, failed, ignored."`
}

// Run shows a flow.
func (g *flowGetCmd) Run(h *host, c *queueCmd) error {
	if g.Depth < 1 || g.Children < 1 {
		return &usageError{err: errors.New("--depth and --children must be at least 1")}
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Flow(ctx, g.ID, g.Depth, g.Children) })
}

type queueWaitCmd struct {
	IDs     []string      `arg:"" name:"id" help:"Job ids."`
	Timeout time.Duration `default:"0s" help:"How long at most; 0 is for ever."`
}

// Run waits for jobs.
func (w *queueWaitCmd) Run(h *host, c *queueCmd) error {
	if w.Timeout < 0 {
		return &usageError{err: errors.New("--timeout must not be negative")}
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Wait(ctx, w.IDs, w.Timeout) })
}

type queueMetricsCmd struct {
	Minutes    int64 `default:"60" help:"How many minutes; those before were counted too, if workers keep so many."`
	Prometheus bool  `help:"Print counts of jobs by state and of ended jobs in Prometheus' text format instead, as Node's exportPrometheusMetrics does."`
}

// Run shows metrics.
func (m *queueMetricsCmd) Run(h *host, c *queueCmd) error {
	if m.Minutes < 1 {
		return &usageError{err: errors.New("--minutes must be at least 1")}
	}
	if m.Prometheus {
		return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Prometheus(ctx) })
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Metrics(ctx, m.Minutes) })
}
