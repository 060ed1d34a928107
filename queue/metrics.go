package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Metrics is the per-minute series that workers with MetricsPoints write, in any language.
type Metrics struct {
	// Count is how many jobs have ended so since the series began.
	Count int64
	// Since is the end of the last minute that is in Points; the jobs after it are in Count only.
	Since time.Time
	// Before is Count as it was then.
	Before int64
	// Points are jobs per minute, newest first.
	Points []int64
	// Total is how many points there are, of which Points is the part that was asked for.
	Total int64
}

// Metrics reads the series of completed or failed jobs: the points from the place from on, at most limit of them (0: all).
func (q *Queue) Metrics(ctx context.Context, state State, from, limit int64) (Metrics, error) {
	if state != StateCompleted && state != StateFailed {
		return Metrics{}, fmt.Errorf("metrics of %s jobs: %w", state, ErrNotInState)
	}

	last := int64(-1)
	if limit > 0 {
		last = from + limit - 1
	}

	key := q.keys.of("metrics:" + string(state))
	pipe := q.client.get().Pipeline()
	head := pipe.HGetAll(ctx, key)
	data := pipe.LRange(ctx, key+":data", from, last)
	total := pipe.LLen(ctx, key+":data")

	if _, err := pipe.Exec(ctx); err != nil {
		return Metrics{}, wrap("read metrics", err)
	}

	m := Metrics{
		Count: int64(number(head.Val()["count"])), Since: moment(head.Val()["prevTS"]), Before: int64(number(head.Val()["prevCount"])),
		Total: total.Val(), Points: make([]int64, 0, len(data.Val())),
	}

	for _, text := range data.Val() {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Metrics{}, fmt.Errorf("read metrics: %w: %q", errBadReply, text)
		}

		m.Points = append(m.Points, n)
	}

	return m, nil
}
