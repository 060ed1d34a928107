package queuecmd

import (
	"context"
	"errors"
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
	Gap    bool              `json:"gap,omitempty"` // events before this one may be lost
	Fields map[string]string `json:"fields,omitempty"`
}

// fieldWidth is how much of an event's field is shown to people.
const fieldWidth = 120

// errEnough ends a tail that was asked for so many events.
var errEnough = errors.New("enough")

// Events shows what happens to the queue's jobs, from now on or after the event with the id after ("0": from the oldest one kept), until
// ctx ends or most events have been shown (0: no bound). It tells where events may be missing because Redis has trimmed them, and at the
// end after which one to go on.
func (d *Desk) Events(ctx context.Context, after string, most int, log *slog.Logger) error {
	if err := d.Queue.Ping(ctx); err != nil { // later on a lost Redis is waited for
		return err
	}

	o := d.Options
	o.Logger = log

	events, err := queue.NewEvents(o)
	if err != nil {
		return err
	}

	shown := 0

	err = events.RunFrom(ctx, after, func(e queue.Event) error {
		if err := d.event(e); err != nil {
			return err
		}

		if after, shown = e.ID, shown+1; shown == most {
			return errEnough
		}

		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}

	if shown == 0 {
		return nil
	}

	return d.tell("go on with --after=%s", after)
}

func (d *Desk) event(e queue.Event) error {
	if d.JSON {
		return d.document(event{ID: e.ID, At: eventTime(e.ID), Event: e.Name, JobID: e.JobID, Gap: e.Gap, Fields: e.Fields})
	}

	if e.Gap {
		if err := d.say("-- events are missing here: Redis trimmed them before they were read"); err != nil {
			return err
		}
	}

	return d.say("%s", eventLine(e))
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
