package queuecmd

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// event is one line of Events' JSON.
type event struct {
	ID     string            `json:"id"`
	At     *time.Time        `json:"at,omitempty"`
	Event  string            `json:"event"`
	JobID  string            `json:"jobId,omitempty"`
	Fields map[string]string `json:"fields,omitempty"`
}

// fieldWidth is how much of an event's field is shown to people.
const fieldWidth = 120

// Events shows what happens to the queue's jobs, from now on or after the event with the id after ("0": from the oldest one kept), until
// ctx ends.
func (d *Desk) Events(ctx context.Context, after string, log *slog.Logger) error {
	if err := d.Queue.Ping(ctx); err != nil { // later on a lost Redis is waited for
		return err
	}

	o := d.Options
	o.Logger = log

	events, err := queue.NewEvents(o)
	if err != nil {
		return err
	}

	return events.RunFrom(ctx, after, func(e queue.Event) error {
		if d.JSON {
			return d.document(event{ID: e.ID, At: eventTime(e.ID), Event: e.Name, JobID: e.JobID, Fields: e.Fields})
		}

		return d.say("%s", eventLine(e))
	})
}

// eventTime is the time in an event's id, by Redis' clock.
func eventTime(id string) *time.Time {
	text, _, _ := strings.Cut(id, "-")

	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}

	return moment(time.UnixMilli(ms))
}

func eventLine(e queue.Event) string {
	at := "-"
	if t := eventTime(e.ID); t != nil {
		at = t.Format("15:04:05.000")
	}

	parts := []string{at, fmt.Sprintf("%-12s", e.Name), e.JobID}

	for _, field := range slices.Sorted(maps.Keys(e.Fields)) {
		parts = append(parts, field+"="+short(e.Fields[field], fieldWidth))
	}

	return strings.TrimRight(oneLine(strings.Join(parts, " ")), " ")
}
