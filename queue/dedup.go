package queue

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

const keyDedup = "de:" // + deduplication id

// DeduplicationOwner is the id of the job that owns a deduplication id, so that others with it are refused; "" if none does. The job
// itself may be gone already, if the deduplication has a TTL.
func (q *Queue) DeduplicationOwner(ctx context.Context, id string) (string, error) {
	owner, err := q.client.get().Get(ctx, q.keys.of(keyDedup+id)).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}

	return owner, wrap("read owner of deduplication "+id, err)
}

// EndDeduplication lets the next job with that deduplication id be added, whatever becomes of its owner. False if it had none.
func (q *Queue) EndDeduplication(ctx context.Context, id string) (bool, error) {
	n, err := q.client.get().Del(ctx, q.keys.of(keyDedup+id)).Result()

	return n > 0, wrap("end deduplication "+id, err)
}
