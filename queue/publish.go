package queue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// defaultCustomEvents is the length to which the stream is cut back on a custom event; BullMQ's default is much shorter than that of its
// own events.
const defaultCustomEvents = 1000

// PublishEvent writes an event of your own to the queue's stream; fields are names and values in turn. most is the length to which the
// stream is cut back about, 0: 1000, as in BullMQ.
func (q *Queue) PublishEvent(ctx context.Context, name string, most int64, fields ...string) error {
	if name == "" || len(fields)%2 != 0 {
		return fmt.Errorf("publish event %q: %w: it needs a name, and fields in pairs", name, ErrBadOptions)
	}

	if most <= 0 {
		most = defaultCustomEvents
	}

	err := q.client.get().XAdd(ctx, &redis.XAddArgs{
		Stream: q.keys.of(keyEvents), MaxLen: most, Approx: true, Values: append([]string{"event", name}, fields...),
	}).Err()

	return wrap("publish event", err)
}

// SetMaxEvents bounds the length of the event stream, about; BullMQ's default is 10,000. Node's Queue object overwrites it with its own
// option whenever it is opened.
func (q *Queue) SetMaxEvents(ctx context.Context, n int) error {
	if n < 0 {
		return fmt.Errorf("set max events: %w: negative", ErrBadOptions)
	}

	return wrap("set max events", q.client.get().HSet(ctx, q.keys.of(keyMeta), "opts.maxLenEvents", n).Err())
}

// TrimEvents cuts the event stream back to about its newest n events and answers how many went.
func (q *Queue) TrimEvents(ctx context.Context, n int64) (int64, error) {
	gone, err := q.client.get().XTrimMaxLenApprox(ctx, q.keys.of(keyEvents), max(n, 0), 0).Result()

	return gone, wrap("trim events", err)
}
