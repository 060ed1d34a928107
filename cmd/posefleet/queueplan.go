package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/queuecmd"
	"github.com/posefleet/posefleet/queue"
)

// queueSchedulersCmd is "posefleet queue schedulers …"; alone it lists.
type queueSchedulersCmd struct {
	List   schedulersListCmd   `cmd:"" default:"1" help:"All of them, those that are due next first."`
	Get    schedulersGetCmd    `cmd:"" help:"One of them."`
	Set    schedulersSetCmd    `cmd:"" help:"Make one, or change it: jobs by the clock."`
	Remove schedulersRemoveCmd `cmd:"" help:"End one; its next job is deleted with it."`
}

type schedulersListCmd struct{}

// Run shows the job schedulers.
func (*schedulersListCmd) Run(h *host, c *queueCmd) error {
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Schedulers(ctx) })
}

type schedulersGetCmd struct {
	ID string `arg:"" help:"Scheduler id."`
}

// Run shows one scheduler.
func (g *schedulersGetCmd) Run(h *host, c *queueCmd) error {
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Scheduler(ctx, g.ID) })
}

type schedulersRemoveCmd struct {
	ID string `arg:"" help:"Scheduler id."`
}

// Run ends a scheduler.
func (r *schedulersRemoveCmd) Run(h *host, c *queueCmd) error {
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.RemoveScheduler(ctx, r.ID) })
}

type schedulersSetCmd struct {
	ID      string        `arg:"" help:"Scheduler id."`
	Every   time.Duration `placeholder:"TIME" help:"Time between two jobs, as in 90s or 24h."`
	Offset  time.Duration `placeholder:"TIME" help:"How far the jobs are moved away from the multiples of --every."`
	Pattern string        `placeholder:"CRON" help:"Cron pattern of five or six fields, seconds first, instead of --every."`
	TZ      string        `name:"tz" placeholder:"ZONE" help:"Time zone of the pattern, as in Europe/Berlin. Default: UTC."`
	Limit   int           `default:"0" help:"How many jobs in all; 0 is no limit."`
	Start   time.Time     `placeholder:"RFC3339" help:"Not before this time."`
	End     time.Time     `placeholder:"RFC3339" help:"Not after this time."`
	Now     bool          `help:"The first job of a pattern runs at once."`

	Job      string        `placeholder:"NAME" help:"Name of the jobs. Default: the scheduler's id."`
	Data     string        `placeholder:"JSON" help:"Payload of the jobs."`
	Attempts int           `default:"1" help:"How often each job is tried."`
	Backoff  time.Duration `placeholder:"TIME" help:"Pause before a second attempt; it doubles from there. Default: none."`
	Priority int           `default:"0" help:"Priority of the jobs; 0 is served first."`
}

// Run makes or changes a scheduler.
func (s *schedulersSetCmd) Run(h *host, c *queueCmd) error {
	template := queue.NewJob{Name: s.Job, Opts: queue.JobOptions{Attempts: s.Attempts, Priority: s.Priority}}
	if s.Data != "" {
		if !json.Valid([]byte(s.Data)) {
			return &usageError{err: errors.New("--data is no JSON")}
		}
		template.Data = json.RawMessage(s.Data)
	}
	if s.Backoff > 0 {
		template.Opts.Backoff = &queue.Backoff{Type: "exponential", Delay: s.Backoff}
	}
	r := queue.Repeat{
		Every: s.Every, Offset: s.Offset, Pattern: s.Pattern, TZ: s.TZ, Limit: s.Limit, StartDate: s.Start, EndDate: s.End, Immediately: s.Now,
	}
	if r.Pattern != "" && r.TZ == "" {
		r.TZ = "UTC" // not the zone of the machine that happens to run this
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.SetScheduler(ctx, s.ID, r, template) })
}

// queueLimitsCmd is "posefleet queue limits …"; alone it shows them.
type queueLimitsCmd struct {
	Show  limitsShowCmd  `cmd:"" default:"1" help:"What is set."`
	Set   limitsSetCmd   `cmd:"" help:"Set limits."`
	Clear limitsClearCmd `cmd:"" help:"Take limits away."`
}

type limitsShowCmd struct{}

// Run shows the limits.
func (*limitsShowCmd) Run(h *host, c *queueCmd) error {
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Limits(ctx) })
}

type limitsSetCmd struct {
	Concurrency int           `placeholder:"N" help:"How many jobs may run at once, in all workers together."`
	Rate        string        `placeholder:"N/TIME" help:"How many jobs may be started in a time, as in 100/1m, by all workers together."`
	Hold        time.Duration `placeholder:"TIME" help:"Start nothing for so long. Binds workers that have a limiter, and all of them if there is a --rate."`
}

// Run sets limits.
func (l *limitsSetCmd) Run(h *host, c *queueCmd) error {
	rate, err := parseRate(l.Rate)
	switch {
	case err != nil:
		return &usageError{err: err}
	case l.Concurrency < 0 || l.Hold < 0:
		return &usageError{err: errors.New("--concurrency and --hold must not be negative")}
	case l.Concurrency == 0 && l.Hold == 0 && rate.Max == 0:
		return &usageError{err: errors.New("give --concurrency, --rate or --hold")}
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error {
		return d.SetLimits(ctx, l.Concurrency, rate, l.Hold)
	})
}

// parseRate reads 100/1m; "" is none.
func parseRate(text string) (queue.Limiter, error) {
	if text == "" {
		return queue.Limiter{}, nil
	}
	most, each, _ := strings.Cut(text, "/")
	n, badNumber := strconv.Atoi(most)
	d, badTime := time.ParseDuration(each)
	if badNumber != nil || badTime != nil || n < 1 || d < time.Millisecond {
		return queue.Limiter{}, fmt.Errorf("--rate=%s is not a number and a time, as in 100/1m", text)
	}
	return queue.Limiter{Max: n, Duration: d}, nil
}

type limitsClearCmd struct {
	Concurrency bool `help:"Any number of jobs may run at once."`
	Rate        bool `help:"Any number of jobs may be started."`
	Hold        bool `help:"The window that runs ends: starts are counted from 0."`
}

// Run takes limits away.
func (l *limitsClearCmd) Run(h *host, c *queueCmd) error {
	which := queuecmd.LimitKinds{Concurrency: l.Concurrency, Rate: l.Rate, Hold: l.Hold}
	if which == (queuecmd.LimitKinds{}) {
		return &usageError{err: errors.New("give --concurrency, --rate or --hold")}
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.ClearLimits(ctx, which) })
}
