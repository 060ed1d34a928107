package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	requeueStep    = 1000
	obliterateStep = 1000
	orphanStep     = 200
)

// Why a queue is not obliterated.
var (
	// ErrNotPaused: only a paused queue can be obliterated.
	ErrNotPaused = errors.New("queue is not paused")
	// ErrActiveJobs: jobs are running.
	ErrActiveJobs = errors.New("queue has active jobs")
)

// PromoteAll makes all delayed jobs takeable now and answers how many there were. As in BullMQ they join the list of jobs without a
// priority.
func (q *Queue) PromoteAll(ctx context.Context) (int64, error) {
	n, err := q.requeue(ctx, StateDelayed, "+inf")

	return n, wrap("promote jobs", err)
}

// RetryAll lets all failed (or completed) jobs that finished until then run again, oldest first; the zero time is now. It answers how
// many there were. As in BullMQ they join the list of jobs without a priority and keep their attempt counts.
func (q *Queue) RetryAll(ctx context.Context, state State, until time.Time) (int64, error) {
	if state != StateFailed && state != StateCompleted {
		return 0, fmt.Errorf("retry %s jobs: %w", state, ErrNotInState)
	}

	if until.IsZero() {
		until = time.Now()
	}

	n, err := q.requeue(ctx, state, strconv.FormatInt(until.UnixMilli(), 10))

	return n, wrap("retry jobs", err)
}

func (q *Queue) requeue(ctx context.Context, state State, most string) (total int64, err error) {
	for {
		n, err := q.scripts.requeue.code(ctx, q.client, q.keys, "", string(state), most, requeueStep)
		total += max(n, 0)

		if err != nil || n < requeueStep {
			return total, err
		}
	}
}

// Obliterate deletes a queue with everything in it. It pauses the queue first. ErrActiveJobs, with the queue left paused, if jobs run
// and force is not set. As in BullMQ parents that wait for children of other queues, and a running rate limit, are left.
func (q *Queue) Obliterate(ctx context.Context, force bool) error {
	if err := q.Pause(ctx); err != nil {
		return wrap("obliterate", err)
	}

	for {
		answer, err := q.scripts.obliterate.code(ctx, q.client, q.keys, "", obliterateStep, flag(force))

		switch {
		case err != nil:
			return wrap("obliterate", err)
		case answer == 0:
			return nil
		case answer == 2:
			return wrap("obliterate", ErrNotPaused) // somebody resumed it meanwhile
		case answer == 3:
			return wrap("obliterate", ErrActiveJobs)
		}
	}
}

// RemoveOrphans deletes jobs that are in no state, which crashes of other software and deleted lists leave behind, and answers their
// ids. It looks through all keys of the database in small steps. On a cluster it looks at the queue's own node only.
func (q *Queue) RemoveOrphans(ctx context.Context) ([]string, error) {
	placed, err := q.placedIDs(ctx)
	if err != nil {
		return nil, wrap("remove orphans", err)
	}

	var (
		gone    []string
		suspect []any
	)

	sweep := func() error {
		ids, err := q.sweepOrphans(ctx, suspect)
		gone, suspect = append(gone, ids...), suspect[:0]

		return err
	}

	err = q.eachJobID(ctx, func(id string) error {
		if placed[id] {
			return nil
		}

		if suspect = append(suspect, id); len(suspect) < orphanStep {
			return nil
		}

		return sweep()
	})
	if err == nil && len(suspect) > 0 {
		err = sweep()
	}

	return gone, wrap("remove orphans", err)
}

// placedIDs saves the script, which decides for good, from looking through long lists for each job.
func (q *Queue) placedIDs(ctx context.Context) (map[string]bool, error) {
	placed := map[string]bool{}

	for _, list := range []string{keyWait, keyPaused, keyActive} {
		ids, err := q.client.get().LRange(ctx, q.keys.of(list), 0, -1).Result()
		if err != nil {
			return nil, err
		}

		for _, id := range ids {
			placed[id] = true
		}
	}

	return placed, nil
}

func (q *Queue) sweepOrphans(ctx context.Context, ids []any) ([]string, error) {
	reply, err := q.scripts.orphans.run(ctx, q.client, q.keys, ids...)
	if err != nil {
		return nil, err
	}

	return texts(reply), nil
}

// eachJobID calls fn for each hash that may be a job's, maybe twice.
func (q *Queue) eachJobID(ctx context.Context, fn func(id string) error) error {
	var cursor uint64

	match := escapeGlob(q.keys.base) + "*"

	for {
		names, next, err := q.scan(ctx, cursor, match)
		if err != nil {
			return err
		}

		for _, name := range names {
			if id := strings.TrimPrefix(name, q.keys.base); mayBeJobID(id) {
				if err := fn(id); err != nil {
					return err
				}
			}
		}

		if next == 0 {
			return nil
		}

		cursor = next
	}
}

func (q *Queue) scan(ctx context.Context, cursor uint64, match string) ([]string, uint64, error) {
	c := q.client.get()

	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		return c.ScanType(ctx, cursor, match, scanStep, "hash").Result()
	}

	node, err := cluster.MasterForKey(ctx, q.keys.of(keyMeta))
	if err != nil {
		return nil, 0, err
	}

	return node.ScanType(ctx, cursor, match, scanStep, "hash").Result()
}

// mayBeJobID tells jobs from the queue's other hashes: meta, metrics:…, dn:…, a scheduler's repeat:<id>, and a job's own :processed and
// :failed. Iterations of schedulers, repeat:<id>:<ms>, are left alone, since a scheduler's id may look like one.
func mayBeJobID(id string) bool {
	return !strings.Contains(id, ":") && !slices.Contains(reservedIDs, id)
}

var globSigns = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`)

func escapeGlob(s string) string { return globSigns.Replace(s) }

// texts are the strings of a reply.
func texts(reply any) []string {
	raw, _ := reply.([]any)
	list := make([]string, 0, len(raw))

	for _, v := range raw {
		if s, ok := v.(string); ok {
			list = append(list, s)
		}
	}

	return list
}
