package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// oldestSample is how many jobs at the front of a list are looked at: retried ones and those added in front are mixed up there.
	oldestSample = 32
	// oldestLevels is how many priorities are looked at.
	oldestLevels = 32
	// priorityStep is the distance of two priorities in the score of the prioritized set.
	priorityStep = 1 << 32
)

// Oldest is the job that has waited longest to be taken, and since when: it was added, became due, or was last taken, whichever came
// last. The id is "" if no job waits. It looks at the front of the queue and of each priority, not at all jobs.
func (q *Queue) Oldest(ctx context.Context) (id string, since time.Time, err error) {
	ids, err := q.frontIDs(ctx)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("find the oldest job: %w", err)
	}

	if len(ids) == 0 {
		return "", time.Time{}, nil
	}

	pipe := q.client.get().Pipeline()
	cmds := make([]*redis.SliceCmd, len(ids))

	for i, id := range ids {
		cmds[i] = pipe.HMGet(ctx, q.keys.job(id), "timestamp", "processedOn", "opts")
	}

	if _, err := pipe.Exec(ctx); err != nil {
		return "", time.Time{}, fmt.Errorf("find the oldest job: %w", err)
	}

	for i, cmd := range cmds {
		at := waitingSince(cmd.Val())
		if !at.IsZero() && (since.IsZero() || at.Before(since)) {
			id, since = ids[i], at
		}
	}

	return id, since, nil
}

// frontIDs are the ids that the oldest job is among.
func (q *Queue) frontIDs(ctx context.Context) ([]string, error) {
	pipe := q.client.get().Pipeline()
	wait := pipe.LRange(ctx, q.keys.of(keyWait), -oldestSample, -1)
	paused := pipe.LRange(ctx, q.keys.of(keyPaused), -oldestSample, -1)

	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}

	var ids []string

	for _, id := range append(wait.Val(), paused.Val()...) {
		if !strings.HasPrefix(id, "0:") { // a marker of old majors
			ids = append(ids, id)
		}
	}

	from := "-inf"

	for range oldestLevels {
		first, err := q.client.get().ZRangeByScoreWithScores(ctx, q.keys.of(keyPrioritized), &redis.ZRangeBy{
			Min: from, Max: "+inf", Count: 1,
		}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}

		if len(first) == 0 {
			break
		}

		id, _ := first[0].Member.(string)
		ids = append(ids, id)
		from = formatMillis((float64(int64(first[0].Score)/priorityStep) + 1) * priorityStep)
	}

	return ids, nil
}

// waitingSince reads timestamp, processedOn and opts of a job; zero if there is no such job.
func waitingSince(fields []any) time.Time {
	text := make([]string, 3)
	for i := range min(len(fields), len(text)) {
		text[i], _ = fields[i].(string)
	}

	added, taken := moment(text[0]), moment(text[1])
	if added.IsZero() {
		return taken
	}

	if o, err := decodeOptions(text[2]); err == nil && o.Delay > 0 {
		added = added.Add(o.Delay)
	}

	if taken.After(added) {
		return taken
	}

	return added
}
