// Package queuecmd is what "posefleet queue" does: it shows and steers one queue. Each action writes readable lines, or with Desk.JSON
// one JSON document (events: one a line), and answers an error for whatever could not be done. What comes out of Redis is made harmless
// for a terminal before it is shown; the Redis address, which may hold a password, is shown nowhere.
package queuecmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// Desk is one queue and where to write about it.
type Desk struct {
	// Queue is the queue; Options are what it was made of.
	Queue   *queue.Queue
	Options queue.Options
	Out     io.Writer
	// JSON: for scripts instead of people.
	JSON bool
	// Confirm lets a person think again before jobs are deleted that nobody has named one by one; an error leaves them. nil: no questions.
	Confirm func(question string) error
	// Now is the clock for ages; nil: time.Now.
	Now func() time.Time
}

// name is the queue as people know it.
func (d *Desk) name() string {
	if d.Options.Prefix == "" || d.Options.Prefix == queue.DefaultPrefix {
		return d.Options.Name
	}

	return d.Options.Prefix + ":" + d.Options.Name
}

func (d *Desk) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}

	return d.Now()
}

// sure asks before something is deleted.
func (d *Desk) sure(format string, args ...any) error {
	if d.Confirm == nil {
		return nil
	}

	return d.Confirm(oneLine(fmt.Sprintf(format, args...)))
}

// say writes one line for people.
func (d *Desk) say(format string, args ...any) error {
	_, err := fmt.Fprintf(d.Out, format+"\n", args...)

	return err
}

// document writes one JSON document for scripts, <, > and & as they are.
func (d *Desk) document(v any) error {
	enc := json.NewEncoder(d.Out)
	enc.SetEscapeHTML(false)

	return enc.Encode(v)
}

// table writes rows in aligned columns.
func (d *Desk) table(rows [][]string) error {
	w := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)

	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				_, _ = io.WriteString(w, "\t") // Flush has the error
			}

			_, _ = io.WriteString(w, oneLine(cell))
		}

		_, _ = io.WriteString(w, "\n")
	}

	return w.Flush()
}

// JobError is a fault of one job, in an operator's words.
type JobError struct {
	ID     string
	Reason string
	err    error
}

// Error names the job and the reason.
func (e *JobError) Error() string { return fmt.Sprintf("job %s %s", oneLine(e.ID), e.Reason) }

// Unwrap returns what the queue said.
func (e *JobError) Unwrap() error { return e.err }

// explain puts the queue's error about a job into an operator's words; others pass.
func explain(id string, state queue.State, err error) error {
	var reason string

	switch {
	case err == nil:
		return nil
	case errors.Is(err, queue.ErrJobNotFound):
		reason = "does not exist"
	case errors.Is(err, queue.ErrJobLocked):
		reason = "is being worked on"
	case errors.Is(err, queue.ErrScheduled):
		reason = "is the next run of a scheduler, which would be stopped by it"
	case errors.Is(err, queue.ErrNotInState):
		reason = fmt.Sprintf("is %s", state)
	default:
		return err
	}

	return &JobError{ID: id, Reason: reason, err: err}
}

// jobs is how many jobs, in words.
func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}

	return fmt.Sprintf("%d jobs", n)
}
