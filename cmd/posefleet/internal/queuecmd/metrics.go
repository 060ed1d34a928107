package queuecmd

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posefleet/posefleet/queue"
)

// series is one part of Metrics' document.
type series struct {
	Count  int64      `json:"count"`
	Since  *time.Time `json:"until,omitempty"` // the end of the newest minute in Points
	Points []int64    `json:"perMinute"`       // newest first
}

// Metrics shows how many jobs were completed and failed in each of the last minutes, if a worker keeps count of that.
func (d *Desk) Metrics(ctx context.Context, minutes int64) error {
	done, err := d.Queue.Metrics(ctx, queue.StateCompleted, 0, minutes)
	if err != nil {
		return err
	}

	failed, err := d.Queue.Metrics(ctx, queue.StateFailed, 0, minutes)
	if err != nil {
		return err
	}

	if d.JSON {
		return d.document(map[string]series{"completed": seriesOf(done), "failed": seriesOf(failed)})
	}

	if done.Count+failed.Count == 0 {
		return d.say("no metrics: no worker keeps them (in posefleet and Node an option of the worker)")
	}

	if err := d.say("%d completed and %d failed since the count began", done.Count, failed.Count); err != nil {
		return err
	}

	return d.table(minuteRows(done, failed))
}

// Prometheus shows counts in Prometheus' text format.
func (d *Desk) Prometheus(ctx context.Context) error {
	text, err := d.Queue.PrometheusText(ctx, nil)
	if err != nil {
		return err
	}

	if d.JSON {
		return d.document(map[string]string{"text": text})
	}

	return d.say("%s", strings.TrimSuffix(text, "\n"))
}

func seriesOf(m queue.Metrics) series {
	return series{Count: m.Count, Since: moment(m.Since), Points: append([]int64{}, m.Points...)}
}

// minuteRows puts both series beside each other, by the minutes that their points stand for.
func minuteRows(done, failed queue.Metrics) [][]string {
	counts := map[int64][2]string{}

	for column, m := range []queue.Metrics{done, failed} {
		for i, n := range m.Points {
			minute := m.Since.Truncate(time.Minute).Add(-time.Duration(i+1) * time.Minute).Unix()

			row, ok := counts[minute]
			if !ok {
				row = [2]string{"-", "-"}
			}

			row[column] = strconv.FormatInt(n, 10)
			counts[minute] = row
		}
	}

	rows := [][]string{{"MINUTE", "COMPLETED", "FAILED"}}

	for _, minute := range slices.Backward(slices.Sorted(maps.Keys(counts))) {
		at := time.Unix(minute, 0).UTC().Format("2006-01-02 15:04 MST")
		rows = append(rows, []string{at, counts[minute][0], counts[minute][1]})
	}

	return rows
}
