package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Jobs reads jobs of a state in the order of IDs. Jobs that disappear meanwhile are left out.
func (q *Queue) Jobs(ctx context.Context, state State, from, limit int64) ([]*Job, error) {
	ids, err := q.IDs(ctx, state, from, limit)
	if err != nil || len(ids) == 0 {
		return nil, err
	}

	pipe := q.client.get().Pipeline()
	cmds := make([]*redis.MapStringStringCmd, len(ids))

	for i, id := range ids {
		cmds[i] = pipe.HGetAll(ctx, q.keys.job(id))
	}

	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read %s jobs: %w", state, err)
	}

	jobs := make([]*Job, 0, len(ids))

	for i, cmd := range cmds {
		if len(cmd.Val()) == 0 {
			continue
		}

		// A job whose options can't be read is shown as far as it can.
		j, _ := decodeJob(ids[i], cmd.Val())
		j.desk = &desk{line: q.client, scripts: q.scripts, keys: q.keys}
		jobs = append(jobs, j)
	}

	return jobs, nil
}

// LogRange reads rows of a job's log from the place from on, at most limit of them (0: all), oldest first or newest first, and how many
// there are in all.
func (q *Queue) LogRange(ctx context.Context, id string, from, limit int64, newestFirst bool) (rows []string, total int64, err error) {
	first, last := from, int64(-1)
	if limit > 0 {
		last = from + limit - 1
	}

	if newestFirst {
		first, last = -(last + 1), -(from + 1)
	}

	pipe := q.client.get().Pipeline()
	part := pipe.LRange(ctx, q.keys.logs(id), first, last)
	length := pipe.LLen(ctx, q.keys.logs(id))

	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, fmt.Errorf("logs of job %s: %w", id, err)
	}

	rows = part.Val()
	if newestFirst {
		slices.Reverse(rows)
	}

	return rows, length.Val(), nil
}

// CountsPerPriority counts the waiting jobs of each of the priorities; 0 are those without one.
func (q *Queue) CountsPerPriority(ctx context.Context, priorities ...int) (map[int]int64, error) {
	pipe := q.client.get().Pipeline()
	cmds := make(map[int][]*redis.IntCmd, len(priorities))

	for _, p := range priorities {
		if p == 0 {
			cmds[p] = []*redis.IntCmd{pipe.LLen(ctx, q.keys.of(keyWait)), pipe.LLen(ctx, q.keys.of(keyPaused))}
			continue
		}

		low := int64(p) * priorityStep
		cmds[p] = []*redis.IntCmd{pipe.ZCount(ctx, q.keys.of(keyPrioritized),
			strconv.FormatInt(low, 10), strconv.FormatInt(low+priorityStep-1, 10))}
	}

	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("count jobs per priority: %w", err)
	}

	counts := make(map[int]int64, len(cmds))

	for p, parts := range cmds {
		for _, part := range parts {
			counts[p] += part.Val()
		}
	}

	return counts, nil
}

// DelayedBefore counts the delayed jobs that are due before at.
func (q *Queue) DelayedBefore(ctx context.Context, at time.Time) (int64, error) {
	most := formatMillis(float64(at.UnixMilli())*4096 - 1)

	n, err := q.client.get().ZCount(ctx, q.keys.of(keyDelayed), "-inf", most).Result()

	return n, wrap("count delayed jobs", err)
}

// Exists reports whether there is a job with that id, in whatever state.
func (q *Queue) Exists(ctx context.Context, id string) (bool, error) {
	n, err := q.client.get().Exists(ctx, q.keys.job(id)).Result()

	return n > 0, wrap("look for job "+id, err)
}
