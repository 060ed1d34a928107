package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// scanStep is how many keys Redis looks at in one call; it answers others in between.
const scanStep = 1000

// Sighting is a queue that is there in Redis, whoever made it.
type Sighting struct {
	Prefix, Name string
	// Version is what the Node library that opened the queue last wrote there, such as bullmq:6.7.0; "" if none did.
	Version string
	// Meta: the queue has BullMQ's meta hash. One with jobs and no meta was made by Bull, BullMQ's predecessor, whose keys are others.
	Meta   bool
	Counts Counts
	// Moved is how many of the waiting jobs lie in the list to which a major 5 client moves the jobs of a queue that it pauses. If the
	// queue is not paused nobody takes them; Resume brings them back.
	Moved int64
}

// Pending is how many jobs have work left to do.
func (s *Sighting) Pending() int64 {
	c := s.Counts

	return c.Waiting + c.Active + c.Delayed + c.Prioritized + c.WaitingChildren
}

// Jobs is how many jobs there are, finished ones included.
func (s *Sighting) Jobs() int64 { return s.Pending() + s.Counts.Completed + s.Counts.Failed }

// SightBounds bound a search through all keys of a Redis.
type SightBounds struct {
	// Keys is how many keys are looked at, 0: 1,000,000. Time is how long the search goes on, 0: 2 s. Queues is how many are
	// described, 0: 100.
	Keys, Queues int
	Time         time.Duration
}

// Sight describes this queue.
func (q *Queue) Sight(ctx context.Context) (Sighting, error) {
	s := Sighting{Prefix: q.keys.prefix, Name: q.keys.name}

	counts, err := q.Counts(ctx)
	if err != nil {
		return s, err
	}

	pipe := q.client.get().Pipeline()
	version := pipe.HGet(ctx, q.keys.of(keyMeta), "version")
	meta := pipe.Exists(ctx, q.keys.of(keyMeta))
	moved := pipe.LLen(ctx, q.keys.of(keyPaused))

	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return s, fmt.Errorf("look at queue: %w", err)
	}

	s.Counts, s.Version, s.Meta, s.Moved = counts, version.Val(), meta.Val() == 1, moved.Val()

	return s, nil
}

// Others looks for other queues in the same Redis database, under any prefix. complete is false if a bound was reached before all keys
// had been seen. It reads only, in small steps, and needs the right to SCAN; queues that the user may not read are left out.
func (q *Queue) Others(ctx context.Context, b SightBounds) (found []Sighting, complete bool, err error) {
	names, complete, err := q.scanQueues(ctx, b)
	if err != nil {
		return nil, false, fmt.Errorf("look for queues: %w", err)
	}

	for _, k := range names {
		if k == q.keys {
			continue
		}

		if len(found) == orDefault(b.Queues, 100) {
			return found, false, nil
		}

		other := &Queue{keys: k, client: q.client, scripts: q.scripts}

		s, err := other.Sight(ctx)
		switch {
		case err == nil:
			found = append(found, s)
		case !isReply(err): // WRONGTYPE is no queue, NOPERM none of ours
			return found, false, err
		}
	}

	return found, complete, nil
}

// scanQueues finds the queues by two keys of which each has at least one: meta and id.
func (q *Queue) scanQueues(ctx context.Context, b SightBounds) (found []keys, complete bool, err error) {
	maxKeys, till := orDefault(b.Keys, 1_000_000), time.Now().Add(orDefault(b.Time, 2*time.Second))
	seen := 0
	complete = true

	err = eachMaster(ctx, q.client.get(), func(ctx context.Context, c redis.Cmdable) error {
		for cursor := uint64(0); ; {
			names, next, err := c.Scan(ctx, cursor, "*:*:[mi][ed]*", scanStep).Result()
			if err != nil {
				return err
			}

			for _, name := range names {
				if k, ok := queueOf(name); ok {
					found = append(found, k)
				}
			}

			seen += scanStep
			cursor = next

			if cursor == 0 {
				return nil
			}

			if seen >= maxKeys || time.Now().After(till) {
				complete = false

				return nil
			}
		}
	})

	slices.SortFunc(found, func(a, b keys) int { return strings.Compare(a.base, b.base) })

	return slices.Compact(found), complete, err // SCAN may name a key twice
}

// queueOf is the queue of a key that ends in meta or id. A queue's name has no colon, a prefix may have some.
func queueOf(key string) (keys, bool) {
	base, ok := strings.CutSuffix(key, ":"+keyMeta)
	if !ok {
		base, ok = strings.CutSuffix(key, ":id")
	}

	i := strings.LastIndexByte(base, ':')
	if !ok || i < 1 {
		return keys{}, false
	}

	k, err := newKeys(base[:i], base[i+1:])

	return k, err == nil
}

func orDefault[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}

	return v
}
