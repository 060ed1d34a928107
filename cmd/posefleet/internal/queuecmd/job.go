package queuecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// job is the document of Get. Times are absent if they have not come; what the job's producer and workers stored as JSON is shown as it
// is.
type job struct {
	ID              string          `json:"id"`
	Name            string          `json:"name"`
	State           queue.State     `json:"state"`
	Data            json.RawMessage `json:"data"`
	Options         options         `json:"options"`
	AttemptsMade    int             `json:"attemptsMade"`
	AttemptsStarted int             `json:"attemptsStarted"`
	StalledCount    int             `json:"stalledCount"`
	AddedAt         *time.Time      `json:"addedAt,omitempty"`
	DueAt           *time.Time      `json:"dueAt,omitempty"`
	StartedAt       *time.Time      `json:"startedAt,omitempty"`
	FinishedAt      *time.Time      `json:"finishedAt,omitempty"`
	Worker          string          `json:"worker,omitempty"`
	Progress        json.RawMessage `json:"progress,omitempty"`
	ReturnValue     json.RawMessage `json:"returnValue,omitempty"`
	FailedReason    string          `json:"failedReason,omitempty"`
	DeferredFailure string          `json:"deferredFailure,omitempty"`
	Stacktrace      []string        `json:"stacktrace,omitempty"`
	Scheduler       string          `json:"scheduler,omitempty"`
	Deduplication   string          `json:"deduplicationId,omitempty"`
	Parent          string          `json:"parent,omitempty"`
	Logs            int             `json:"logRows"`
}

// options are those that decide when and how often a job runs.
type options struct {
	Attempts  int      `json:"attempts"`
	Backoff   *backoff `json:"backoff,omitempty"`
	DelayMs   int64    `json:"delayMs,omitempty"`
	Priority  int      `json:"priority,omitempty"`
	LIFO      bool     `json:"lifo,omitempty"`
	KeepsDone *keep    `json:"removeOnComplete,omitempty"`
	KeepsFail *keep    `json:"removeOnFail,omitempty"`
}

type backoff struct {
	Type    string  `json:"type"`
	DelayMs int64   `json:"delayMs"`
	Jitter  float64 `json:"jitter,omitempty"`
}

type keep = queue.Keep

// Get shows one job.
func (d *Desk) Get(ctx context.Context, id string) error {
	stored, err := d.Queue.Job(ctx, id)
	if err != nil {
		return explain(id, "", err)
	}

	state, err := d.Queue.State(ctx, id)
	if err != nil {
		return err
	}

	rows, err := d.Queue.Logs(ctx, id)
	if err != nil {
		return err
	}

	j := describe(stored, state)
	j.Logs = len(rows)

	if d.JSON {
		return d.document(j)
	}

	return d.showJob(j)
}

func describe(j *queue.Job, state queue.State) job {
	out := job{
		ID: j.ID, Name: j.Name, State: state, Data: rawJSON(j.Data), AttemptsMade: j.AttemptsMade, AttemptsStarted: j.AttemptsStarted,
		StalledCount: j.StalledCount, AddedAt: moment(j.Timestamp), StartedAt: moment(j.ProcessedOn), FinishedAt: moment(j.FinishedOn),
		Worker: j.ProcessedBy, Progress: rawJSON(j.Progress), ReturnValue: rawJSON(j.ReturnValue), FailedReason: j.FailedReason,
		DeferredFailure: j.DeferredFailure, Stacktrace: j.Stacktrace, Scheduler: j.SchedulerID, Deduplication: j.DeduplicationID,
		Parent: j.ParentKey,
		Options: options{
			Attempts: max(j.Opts.Attempts, 1), DelayMs: j.Opts.Delay.Milliseconds(), Priority: j.Priority, LIFO: j.Opts.LIFO,
			KeepsDone: j.Opts.RemoveOnComplete, KeepsFail: j.Opts.RemoveOnFail,
		},
	}

	if b := j.Opts.Backoff; b != nil {
		out.Options.Backoff = &backoff{Type: b.Type, DelayMs: b.Delay.Milliseconds(), Jitter: b.Jitter}
	}

	// A first delay counts from the add, that between attempts from the last start, which is the best that is stored.
	if since := later(j.Timestamp, j.ProcessedOn); state == queue.StateDelayed && !since.IsZero() {
		out.DueAt = moment(since.Add(j.Delay))
	}

	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}

func (d *Desk) showJob(j job) error {
	now := d.now()
	at := func(t *time.Time) string {
		if t == nil {
			return ""
		}

		return when(*t, now)
	}

	rows := [][]string{
		{"id", j.ID},
		{"name", j.Name},
		{"state", string(j.State)},
		{"attempts", fmt.Sprintf("%d made of %d, %d started, stalled %d times", j.AttemptsMade, j.Options.Attempts, j.AttemptsStarted, j.StalledCount)},
	}

	for _, row := range [][]string{
		{"backoff", j.Options.Backoff.String()},
		{"priority", nonZero(j.Options.Priority)},
		{"added", at(j.AddedAt)},
		{"due about", at(j.DueAt)},
		{"started", at(j.StartedAt)},
		{"finished", at(j.FinishedAt)},
		{"worker", j.Worker},
		{"scheduler", j.Scheduler},
		{"deduplication", j.Deduplication},
		{"parent", j.Parent},
		{"progress", string(j.Progress)},
		{"result", string(j.ReturnValue)},
		{"failed because", j.FailedReason},
		{"will fail because", j.DeferredFailure},
		{"data", string(j.Data)},
		{"log", nonZero(j.Logs, "row", "rows")},
	} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}

	if err := d.table(rows); err != nil {
		return err
	}

	return d.showTraces(j.Stacktrace)
}

func (d *Desk) showTraces(traces []string) error {
	for i, trace := range traces {
		if err := d.say("\nstack of failure %d", i+1); err != nil {
			return err
		}

		for _, row := range lines(trace) {
			if err := d.say("  %s", row); err != nil {
				return err
			}
		}
	}

	return nil
}

// String is the backoff in words, "" for none.
func (b *backoff) String() string {
	if b == nil {
		return ""
	}

	return fmt.Sprintf("%s, %s", b.Type, time.Duration(b.DelayMs)*time.Millisecond)
}

// nonZero is the number, with its unit if given; "" for 0.
func nonZero(n int, units ...string) string {
	switch {
	case n == 0:
		return ""
	case len(units) == 0:
		return strconv.Itoa(n)
	case n == 1:
		return "1 " + units[0]
	}

	return strconv.Itoa(n) + " " + units[len(units)-1]
}

// Logs shows the log of one job, oldest row first; of a long one the newest tail rows (0: all).
func (d *Desk) Logs(ctx context.Context, id string, tail int) error {
	if _, err := d.Queue.Job(ctx, id); err != nil {
		return explain(id, "", err)
	}

	rows, err := d.Queue.Logs(ctx, id)
	if err != nil {
		return err
	}

	total := len(rows)
	if tail > 0 {
		rows = rows[max(total-tail, 0):]
	}

	if d.JSON {
		return d.document(map[string]any{"id": id, "logs": append([]string{}, rows...), "rows": total})
	}

	for _, row := range rows {
		if err := d.say("%s", oneLine(row)); err != nil {
			return err
		}
	}

	if len(rows) == 0 {
		return d.say("job %s has no log", oneLine(id))
	}

	return nil
}
