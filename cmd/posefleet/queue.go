package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/posefleet/posefleet/cmd/posefleet/internal/queuecmd"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
)

// queueCmd is "posefleet queue …".
type queueCmd struct {
	Stats   queueStatsCmd   `cmd:"" help:"How many jobs are in each state, since when the oldest waits, who is connected."`
	List    queueListCmd    `cmd:"" help:"The jobs of one state."`
	Get     queueGetCmd     `cmd:"" help:"One job, with all that is stored about it."`
	Logs    queueLogsCmd    `cmd:"" help:"The log of one job."`
	Workers queueWorkersCmd `cmd:"" help:"The connected workers, of any language."`
	Events  queueEventsCmd  `cmd:"" help:"What happens to the jobs, line by line, until Ctrl-C."`
	Pause   queuePauseCmd   `cmd:"" help:"Keep workers from taking jobs; what runs goes on."`
	Resume  queueResumeCmd  `cmd:"" help:"Let workers take jobs again, also after a pause by a BullMQ 5 client."`
	Retry   queueRetryCmd   `cmd:"" help:"Let failed or completed jobs run again."`
	Remove  queueRemoveCmd  `cmd:"" help:"Delete jobs, except those that run."`
	Clean   queueCleanCmd   `cmd:"" help:"Delete the old jobs of one state, except those that run."`
	Drain   queueDrainCmd   `cmd:"" help:"Delete all jobs that have not begun."`

	Wait    queueWaitCmd    `cmd:"" help:"Wait until jobs have finished; exit 0 if all of them completed."`
	Flow    queueFlowCmd    `cmd:"" help:"Trees of jobs: add one, show one."`
	Metrics queueMetricsCmd `cmd:"" help:"Jobs completed and failed per minute."`
	Limits  queueLimitsCmd  `cmd:"" help:"What bounds all workers together: jobs at once, starts in a time."`

	Promote    queuePromoteCmd    `cmd:"" help:"Let delayed jobs run now."`
	Delay      queueDelayCmd      `cmd:"" help:"Let a delayed job run later or sooner."`
	Prioritize queuePrioritizeCmd `cmd:"" help:"Give a job another priority."`
	Schedulers queueSchedulersCmd `cmd:"" help:"The job schedulers: list, get, set, remove."`
	Orphans    queueOrphansCmd    `cmd:"" help:"Delete jobs that are in no state, left behind by other software."`
	Obliterate queueObliterateCmd `cmd:"" help:"Delete the queue with everything in it."`

	JSON bool `help:"One JSON document instead of lines for people."`
	kong.Plugins
	flags *variables
}

func newQueueCmd() queueCmd {
	v := newVariables(queueVariables())
	return queueCmd{Plugins: v.plugin(), flags: v}
}

// queueVariables are the variables that name a queue.
func queueVariables() []worker.Variable {
	return slices.DeleteFunc(worker.Variables(), func(v worker.Variable) bool {
		return !slices.Contains([]string{"redis-url", "prefix", "queue"}, v.Flag())
	})
}

// Help is shown below the usage line.
func (queueCmd) Help() string {
	return "Works on any BullMQ queue of the majors 5 and 6, also one that posefleet has never used."
}

// with runs an action on the queue that the flags and variables name.
func (c *queueCmd) with(h *host, do func(ctx context.Context, d *queuecmd.Desk) error) error {
	o, err := c.flags.queueOptions(h.environ)
	if err != nil {
		return err
	}
	q, err := queue.NewQueue(o)
	if err != nil {
		return c.flags.explain(fmt.Errorf("%sPREFIX or %sQUEUE is not usable: %w", worker.EnvPrefix, worker.EnvPrefix, err))
	}
	ctx, stop := signal.NotifyContext(h.ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err = do(ctx, &queuecmd.Desk{Queue: q, Options: o, Out: h.stdout, JSON: c.JSON})
	for _, fault := range []error{queuecmd.ErrBadState, queuecmd.ErrBadFlow, queue.ErrBadOptions} {
		if errors.Is(err, fault) {
			err = &usageError{err: err}
			break
		}
	}
	return errors.Join(c.flags.unreachable(o, err), q.Close())
}

// deleting is with for what deletes jobs that nobody has named one by one: a person at a terminal is asked first, a script has to say
// --yes.
func (c *queueCmd) deleting(h *host, yes bool, do func(ctx context.Context, d *queuecmd.Desk) error) error {
	if !yes && !h.canAsk() {
		return &usageError{err: errors.New("this deletes jobs for good: say --yes")}
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error {
		if !yes {
			d.Confirm = h.ask
		}
		return do(ctx, d)
	})
}

// queueOptions reads the three variables that name a queue.
func (v *variables) queueOptions(environ map[string]string) (queue.Options, error) {
	environ = v.over(environ)
	value := map[string]string{}
	for _, variable := range v.list {
		value[variable.Flag()] = environ[variable.Name]
		if environ[variable.Name] == "" {
			value[variable.Flag()] = variable.Default
		}
	}
	o := queue.Options{RedisURL: value["redis-url"], Prefix: value["prefix"], Name: value["queue"]}
	if _, err := queue.ParseRedisURL(o.RedisURL); err != nil {
		return o, v.explain(fmt.Errorf("%sREDIS_URL is not usable: %w", worker.EnvPrefix, err))
	}
	return o, nil
}

type queueStatsCmd struct{}

// Run shows the queue's state.
func (*queueStatsCmd) Run(h *host, c *queueCmd) error {
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Stats(ctx) })
}

type queueListCmd struct {
	State string `arg:"" help:"waiting, active, delayed, prioritized, waiting-children, completed or failed."`
	From  int64  `default:"0" help:"How many to leave out at the beginning."`
	Limit int64  `default:"50" help:"How many to show at most."`
}

// Run shows jobs of a state.
func (l *queueListCmd) Run(h *host, c *queueCmd) error {
	state, err := queuecmd.ParseState(l.State)
	if err != nil {
		return &usageError{err: err}
	}
	if l.From < 0 || l.Limit < 1 {
		return &usageError{err: errors.New("--from must not be negative and --limit must be at least 1")}
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.List(ctx, state, l.From, l.Limit) })
}

type queueGetCmd struct {
	ID string `arg:"" help:"Job id; for analyses the analysis id."`
}

// Run shows one job.
func (g *queueGetCmd) Run(h *host, c *queueCmd) error {
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Get(ctx, g.ID) })
}

type queueLogsCmd struct {
	ID   string `arg:"" help:"Job id."`
	Tail int    `default:"0" help:"Only the newest rows, so many; 0 is all."`
}

// Run shows a job's log.
func (l *queueLogsCmd) Run(h *host, c *queueCmd) error {
	if l.Tail < 0 {
		return &usageError{err: errors.New("--tail must not be negative")}
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Logs(ctx, l.ID, l.Tail) })
}

type queueWorkersCmd struct{}

// Run shows the connected workers.
func (*queueWorkersCmd) Run(h *host, c *queueCmd) error {
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Workers(ctx) })
}

type queueEventsCmd struct {
	After string `placeholder:"ID" help:"Begin after this event; 0 is the oldest one kept. Default: from now on."`
	Limit int    `default:"0" help:"End after so many events; 0 is never."`
}

// Help is shown below the usage line.
func (queueEventsCmd) Help() string {
	return "Redis keeps the newest 10,000 events or so. Where older ones were trimmed before they could be shown, the place is marked (with " +
		"--json by \"gap\": true). At its end it says after which event to go on."
}

// Run shows events until it is interrupted, which is its proper end.
func (e *queueEventsCmd) Run(h *host, c *queueCmd) error {
	if e.Limit < 0 {
		return &usageError{err: errors.New("--limit must not be negative")}
	}
	log := slog.New(textHandler(h.stderr, slog.LevelWarn))
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Events(ctx, e.After, e.Limit, log) })
}

type queuePauseCmd struct{}

// Run pauses the queue.
func (*queuePauseCmd) Run(h *host, c *queueCmd) error {
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Pause(ctx) })
}

type queueResumeCmd struct{}

// Run resumes the queue.
func (*queueResumeCmd) Run(h *host, c *queueCmd) error {
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Resume(ctx) })
}

type queueRetryCmd struct {
	IDs       []string `arg:"" optional:"" name:"id" help:"Job ids."`
	AllFailed bool     `help:"All jobs that have failed, instead of ids."`
	Reset     bool     `help:"Give the jobs all their attempts again; otherwise one more failure is final."`
}

// Run retries jobs.
func (r *queueRetryCmd) Run(h *host, c *queueCmd) error {
	if r.AllFailed == (len(r.IDs) > 0) {
		return &usageError{err: errors.New("give either job ids or --all-failed")}
	}
	o := queue.RetryOptions{ResetAttemptsMade: r.Reset}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error {
		if r.AllFailed {
			return d.RetryFailed(ctx, o)
		}
		return d.Retry(ctx, r.IDs, o)
	})
}

type queueRemoveCmd struct {
	IDs                 []string `arg:"" name:"id" help:"Job ids."`
	UnprocessedChildren bool     `help:"Remove only those children of the jobs that have not begun."`
}

// Run removes jobs.
func (r *queueRemoveCmd) Run(h *host, c *queueCmd) error {
	if r.UnprocessedChildren {
		return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.RemoveUnprocessedChildren(ctx, r.IDs) })
	}
	return c.with(h, func(ctx context.Context, d *queuecmd.Desk) error { return d.Remove(ctx, r.IDs) })
}

type queueCleanCmd struct {
	State     string        `arg:"" help:"waiting, active (without a worker), delayed, prioritized, completed or failed."`
	OlderThan time.Duration `default:"0s" help:"Only jobs that finished, or were added if they have not finished, longer ago than this."`
	Limit     int           `default:"0" help:"How many at most; 0 is all."`
	Yes       bool          `short:"y" help:"Do not ask; needed where there is no terminal to ask at."`
}

// Run deletes old jobs.
func (r *queueCleanCmd) Run(h *host, c *queueCmd) error {
	state, err := queuecmd.ParseState(r.State)
	switch {
	case err != nil:
		return &usageError{err: err}
	case r.OlderThan < 0 || r.Limit < 0:
		return &usageError{err: errors.New("--older-than and --limit must not be negative")}
	case state == queue.StateWaitingChildren:
		return &usageError{err: queuecmd.ErrNotCleanable}
	}
	return c.deleting(h, r.Yes, func(ctx context.Context, d *queuecmd.Desk) error { return d.Clean(ctx, state, r.OlderThan, r.Limit) })
}

type queueDrainCmd struct {
	Delayed bool `help:"Those that are due later as well."`
	Yes     bool `short:"y" help:"Do not ask; needed where there is no terminal to ask at."`
}

// Run deletes what waits.
func (r *queueDrainCmd) Run(h *host, c *queueCmd) error {
	return c.deleting(h, r.Yes, func(ctx context.Context, d *queuecmd.Desk) error { return d.Drain(ctx, r.Delayed) })
}
