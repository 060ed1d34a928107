package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const scheduleTries = 3

var errPattern = errors.New("a cron schedule is not continued")

// continueSchedule makes the next iteration of the scheduler that made this job: whoever takes an iteration has to. A failure must not
// cost the job its run; it is logged as an error because the schedule ends here then.
func (w *Worker) continueSchedule(h *hold) {
	pause := newBackoff(finishPauseFirst, finishPauseMost)

	for try := 1; ; try++ {
		err := w.writeOnce(h, func(ctx context.Context) error { return w.iterate(ctx, h.job, time.Now().UnixMilli()) })
		if err == nil {
			return
		}

		if try == scheduleTries || errors.Is(err, errPattern) {
			w.log.Error("schedule not continued", slog.String("job_id", h.job.ID), slog.String("scheduler_id", h.job.SchedulerID),
				slog.Any("error", err))

			return
		}

		h.pause(pause.pause())
	}
}

// repeatOptions are the part of an iteration's options that speaks of its schedule.
type repeatOptions struct {
	Every   float64 `json:"every"`
	Limit   float64 `json:"limit"`
	EndDate float64 `json:"endDate"`
	Count   float64 `json:"count"`
}

func (w *Worker) iterate(ctx context.Context, j *Job, now int64) error {
	schedule, pending, err := w.readSchedule(ctx, j.SchedulerID)
	if err != nil {
		return err
	}

	// A retried or stalled older iteration must not make another one.
	if pending == 0 || j.ID != fmt.Sprintf("repeat:%s:%d", j.SchedulerID, pending) {
		return nil
	}

	var repeat repeatOptions
	if raw, ok := j.Opts.Extra["repeat"]; ok {
		if err := json.Unmarshal(raw, &repeat); err != nil {
			return fmt.Errorf("read schedule of job %s: %w", j.ID, err)
		}
	}

	if repeat.Limit > 0 && repeat.Count+1 > repeat.Limit || repeat.EndDate > 0 && float64(now) > repeat.EndDate {
		return nil
	}

	every := int64(number(schedule["every"]))
	if every <= 0 {
		every = int64(repeat.Every)
	}

	if every <= 0 {
		return errPattern
	}

	next := nextSlot(pending, every, int64(number(schedule["offset"])), now)

	opts, err := nextOptions(j, next, now, repeat.Count+1)
	if err != nil {
		return err
	}

	_, err = w.scripts.iterate.run(ctx, w.client, w.keys,
		j.SchedulerID, pending, next, now, opts, []byte(j.Data), j.Opts.Priority, flag(j.Opts.LIFO))

	return err
}

func (w *Worker) readSchedule(ctx context.Context, id string) (fields map[string]string, pending int64, err error) {
	pipe := w.client.get().Pipeline()
	hash := pipe.HGetAll(ctx, w.keys.schedule(id))
	score := pipe.ZScore(ctx, w.keys.of(keyRepeat), id)

	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, 0, fmt.Errorf("read scheduler %s: %w", id, err)
	}

	return hash.Val(), int64(score.Val()), nil
}

// nextSlot is the slot after prev, or after now if that has passed.
func nextSlot(prev, every, offset, now int64) int64 {
	if next := prev + every; next >= now {
		return next
	}

	slot := now/every*every + offset
	if slot > now {
		return slot
	}

	return slot + every
}

// nextOptions are the taken job's options with what differs from one iteration to the next.
func nextOptions(j *Job, next, now int64, count float64) ([]byte, error) {
	var opts, repeat map[string]any
	if err := json.Unmarshal([]byte(j.rawOpts), &opts); err != nil {
		return nil, fmt.Errorf("options of job %s: %w", j.ID, err)
	}

	repeat, _ = opts["repeat"].(map[string]any)
	if repeat == nil {
		repeat = map[string]any{}
	}

	if _, ok := opts["attempts"]; !ok {
		opts["attempts"] = 0 // as each job added by a client has
	}

	repeat["count"] = count
	opts["repeat"] = repeat
	opts["repeatJobKey"] = j.SchedulerID
	opts["jobId"] = "repeat:" + j.SchedulerID + ":" + strconv.FormatInt(next, 10)
	opts["delay"] = max(next-now, 0)
	opts["timestamp"] = now

	return encodeJSON(opts)
}
