package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"time"
)

const scheduleTries = 3

// continueSchedule makes the next iteration of the scheduler that made this job: whoever takes an iteration has to. A failure must not
// cost the job its run; it is logged as an error because the schedule ends here then.
func (w *Worker) continueSchedule(h *hold) {
	pause := newBackoff(finishPauseFirst, finishPauseMost)

	for try := 1; ; try++ {
		err := w.writeOnce(h, func(ctx context.Context) error { return w.iterate(ctx, h.job, time.Now().UnixMilli()) })
		if err == nil {
			return
		}

		if try == scheduleTries || errors.Is(err, ErrBadOptions) {
			w.log.Error("schedule not continued", slog.String("job_id", h.job.ID), slog.String("scheduler_id", h.job.SchedulerID),
				slog.Any("error", err))

			return
		}

		h.pause(pause.pause())
	}
}

func (w *Worker) iterate(ctx context.Context, j *Job, now int64) error {
	schedule, pending, err := readSchedule(ctx, w.client, w.keys, j.SchedulerID)
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

	if repeat.Limit > 0 && repeat.Count+1 > repeat.Limit || repeat.EndDate > 0 && now > repeat.EndDate {
		return nil
	}

	next, err := nextIteration(j, schedule, &repeat, pending, now)
	if err != nil || next == 0 {
		return err
	}

	opts, err := nextOptions(j, next, now, repeat.Count+1, inject(ctx, w.opts.Telemetry))
	if err != nil {
		return err
	}

	_, err = w.scripts.iterate.run(ctx, w.client, w.keys,
		j.SchedulerID, pending, next, now, opts, []byte(j.Data), j.Opts.Priority, flag(j.Opts.LIFO))

	return err
}

// nextIteration is when the job after this one is due; 0 if there is none.
func nextIteration(j *Job, schedule map[string]string, repeat *repeatOptions, pending, now int64) (int64, error) {
	every := int64(cmp.Or(number(schedule["every"]), repeat.Every))
	if every > 0 {
		offset, ok := schedule["offset"]
		if !ok {
			offset = formatMillis(repeat.Offset)
		}

		return nextSlot(pending, every, int64(number(offset)), now), nil
	}

	// A pattern of a definition that has no jobs' options, as a hand or another library may have written it.
	repeat.Pattern = cmp.Or(repeat.Pattern, schedule["pattern"])
	repeat.TZ = cmp.Or(repeat.TZ, schedule["tz"])

	if repeat.Pattern == "" {
		return 0, fmt.Errorf("%w: scheduler %s has neither every nor a pattern", ErrBadOptions, j.SchedulerID)
	}

	return repeat.nextTime(max(now, int64(taker(maps.Clone(j.Opts.Extra)).number("prevMillis"))))
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
func nextOptions(j *Job, next, now int64, count float64, trace propagation) ([]byte, error) {
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

	delete(opts, "prevMillis")

	if _, ok := repeat["pattern"]; ok {
		opts["prevMillis"] = next
	}

	repeat["count"] = count
	opts["repeat"] = repeat
	opts["repeatJobKey"] = j.SchedulerID
	opts["jobId"] = "repeat:" + j.SchedulerID + ":" + strconv.FormatInt(next, 10)
	opts["delay"] = max(next-now, 0)
	opts["timestamp"] = now
	trace.intoStored(opts)

	return encodeJSON(opts)
}
