package queuecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// scheduler is a job scheduler's document.
type scheduler struct {
	ID         string          `json:"id"`
	Job        string          `json:"job"`
	Every      string          `json:"every,omitempty"`
	Offset     string          `json:"offset,omitempty"`
	Pattern    string          `json:"pattern,omitempty"`
	TZ         string          `json:"tz,omitempty"`
	Limit      int             `json:"limit,omitempty"`
	StartAt    *time.Time      `json:"startAt,omitempty"`
	EndAt      *time.Time      `json:"endAt,omitempty"`
	NextAt     *time.Time      `json:"nextAt,omitempty"`
	Iterations int             `json:"iterations"`
	Data       json.RawMessage `json:"data,omitempty"`
}

func describeScheduler(s queue.Scheduler) scheduler {
	doc := scheduler{
		ID: s.ID, Job: s.Template.Name, Pattern: s.Repeat.Pattern, TZ: s.Repeat.TZ, Limit: s.Repeat.Limit, StartAt: moment(s.Repeat.StartDate),
		EndAt: moment(s.Repeat.EndDate), NextAt: moment(s.Next), Iterations: s.Iterations,
	}
	if s.Repeat.Every > 0 {
		doc.Every = s.Repeat.Every.String()
	}

	if s.Repeat.Offset > 0 {
		doc.Offset = s.Repeat.Offset.String()
	}

	if data, ok := s.Template.Data.(json.RawMessage); ok {
		doc.Data = rawJSON(data)
	}

	return doc
}

// schedulersMost bounds what Schedulers shows.
const schedulersMost = 1000

// Schedulers shows the job schedulers, those that are due next first.
func (d *Desk) Schedulers(ctx context.Context) error {
	all, err := d.Queue.Schedulers(ctx, 0, schedulersMost)
	if err != nil {
		return err
	}

	rows, docs := [][]string{{"ID", "JOB", "WHEN", "NEXT", "MADE"}}, make([]scheduler, 0, len(all))

	for _, s := range all {
		doc := describeScheduler(s)
		docs = append(docs, doc)
		rows = append(rows, []string{s.ID, doc.Job, doc.times(), when(s.Next, d.now()), strconv.Itoa(s.Iterations)})
	}

	switch {
	case d.JSON:
		return d.document(map[string]any{"schedulers": docs})
	case len(all) == 0:
		return d.say("no schedulers")
	}

	return d.table(rows)
}

// Scheduler shows one job scheduler.
func (d *Desk) Scheduler(ctx context.Context, id string) error {
	s, err := d.Queue.Scheduler(ctx, id)
	if err != nil {
		return explainScheduler(id, err)
	}

	doc := describeScheduler(s)
	if d.JSON {
		return d.document(doc)
	}

	rows := [][]string{{"id", s.ID}, {"job", doc.Job}, {"when", doc.times()}, {"made", strconv.Itoa(s.Iterations)}}

	for _, row := range [][]string{
		{"offset", doc.Offset},
		{"limit", nonZero(doc.Limit, "job", "jobs")},
		{"starts", d.optionalTime(doc.StartAt)},
		{"ends", d.optionalTime(doc.EndAt)},
		{"next", d.optionalTime(doc.NextAt)},
		{"data", string(doc.Data)},
	} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}

	return d.table(rows)
}

func (d *Desk) optionalTime(t *time.Time) string {
	if t == nil {
		return ""
	}

	return when(*t, d.now())
}

// SetScheduler makes a job scheduler, or changes the one with that id.
func (d *Desk) SetScheduler(ctx context.Context, id string, r queue.Repeat, template queue.NewJob) error {
	made, err := d.Queue.UpsertScheduler(ctx, id, r, template)
	if err != nil {
		return err
	}

	if d.JSON {
		return d.document(map[string]any{"id": id, "nextJob": made.JobID, "delayMs": made.Delay.Milliseconds()})
	}

	return d.say("scheduler %s is set; its next job %s is due in %s", oneLine(id), oneLine(made.JobID), age(made.Delay))
}

// RemoveScheduler deletes a job scheduler with its pending job.
func (d *Desk) RemoveScheduler(ctx context.Context, id string) error {
	removed, err := d.Queue.RemoveScheduler(ctx, id)

	switch {
	case err != nil:
		return err
	case !removed:
		return explainScheduler(id, queue.ErrSchedulerNotFound)
	case d.JSON:
		return d.document(map[string]any{"removed": id})
	}

	return d.say("scheduler %s is removed: it makes no more jobs", oneLine(id))
}

// SchedulerError is a fault of one scheduler, in an operator's words.
type SchedulerError struct {
	ID  string
	err error
}

// Error names the scheduler.
func (e *SchedulerError) Error() string {
	return fmt.Sprintf("scheduler %s does not exist", oneLine(e.ID))
}

// Unwrap returns what the queue said.
func (e *SchedulerError) Unwrap() error { return e.err }

func explainScheduler(id string, err error) error {
	if errors.Is(err, queue.ErrSchedulerNotFound) {
		return &SchedulerError{ID: id, err: err}
	}

	return err
}

func (s *scheduler) times() string {
	switch {
	case s.Every != "":
		return "every " + s.Every
	case s.TZ != "":
		return s.Pattern + " (" + s.TZ + ")"
	}

	return s.Pattern
}
