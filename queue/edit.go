package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Promote makes a delayed job takeable now. ErrNotInState if it is not delayed.
func (q *Queue) Promote(ctx context.Context, id string) error {
	_, err := q.scripts.promote.code(ctx, q.client, q.keys, id, id)

	return wrap("promote", err)
}

// ChangeDelay gives a delayed job another delay, counted from now. ErrNotInState if it is not delayed.
func (q *Queue) ChangeDelay(ctx context.Context, id string, delay time.Duration) error {
	if delay < 0 {
		return fmt.Errorf("change delay of job %s: %w: negative", id, ErrBadOptions)
	}

	_, err := q.scripts.redelay.code(ctx, q.client, q.keys, id, id, time.Now().UnixMilli(), formatMillis(toMillis(delay)))

	return wrap("change delay", err)
}

// ChangePriority gives a job another priority: 0 (served first) to MaxPriority. A waiting job goes behind its new equals, or in front of
// them if lifo; elsewhere the priority counts when it waits again.
func (q *Queue) ChangePriority(ctx context.Context, id string, priority int, lifo bool) error {
	if priority < 0 || priority > MaxPriority {
		return fmt.Errorf("change priority of job %s: %w: %d is not between 0 and %d", id, ErrBadOptions, priority, MaxPriority)
	}

	_, err := q.scripts.reprioritize.code(ctx, q.client, q.keys, id, id, priority, flag(lifo))

	return wrap("change priority", err)
}

// UpdateData replaces the payload of a job. A worker that has the job already does not see it.
func (q *Queue) UpdateData(ctx context.Context, id string, data any) error {
	text := []byte("{}")

	if data != nil {
		var err error
		if text, err = encodeJSON(data); err != nil {
			return fmt.Errorf("update data of job %s: %w", id, err)
		}
	}

	_, err := q.scripts.edit.code(ctx, q.client, q.keys, id, id, "data", text)

	return wrap("update data", err)
}

// ClearLogs deletes the job's log but for the newest keep rows.
func (q *Queue) ClearLogs(ctx context.Context, id string, keep int64) error {
	if keep <= 0 {
		return wrap("clear logs of job "+id, q.client.get().Del(ctx, q.keys.logs(id)).Err())
	}

	return wrap("clear logs of job "+id, q.client.get().LTrim(ctx, q.keys.logs(id), -keep, -1).Err())
}

// AddLog adds a row to the log of any job and answers how many rows there are; keep 0 keeps all.
func (q *Queue) AddLog(ctx context.Context, id, row string, keep int) (int64, error) {
	n, err := q.scripts.log.code(ctx, q.client, q.keys, id, id, row, strconv.Itoa(max(keep, 0)), "")

	return max(n, 0), wrap("log", err)
}
