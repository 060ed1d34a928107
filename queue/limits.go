package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// manualLimit is what a limiter holds that forbids every start: the largest whole number of JavaScript.
const manualLimit = "9007199254740991"

// SetGlobalConcurrency bounds how many jobs of the queue run at once, in all workers together. Workers that are idle learn of a higher
// bound with the next job, at the latest when their block ends.
func (q *Queue) SetGlobalConcurrency(ctx context.Context, n int) error {
	if n < 1 {
		return fmt.Errorf("set global concurrency: %w: %d is below 1", ErrBadOptions, n)
	}

	return wrap("set global concurrency", q.client.get().HSet(ctx, q.keys.of(keyMeta), "concurrency", n).Err())
}

// RemoveGlobalConcurrency takes the bound away.
func (q *Queue) RemoveGlobalConcurrency(ctx context.Context) error {
	return wrap("remove global concurrency", q.client.get().HDel(ctx, q.keys.of(keyMeta), "concurrency").Err())
}

// GlobalConcurrency is the bound; 0: none is set.
func (q *Queue) GlobalConcurrency(ctx context.Context) (int, error) {
	text, err := q.client.get().HGet(ctx, q.keys.of(keyMeta), "concurrency").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, wrap("read global concurrency", err)
	}

	return count(text), nil
}

// SetGlobalRateLimit bounds the starts of all workers together. Its Max goes before that of a worker's own Limiter, whose Duration goes
// before this one.
func (q *Queue) SetGlobalRateLimit(ctx context.Context, l Limiter) error {
	if l.Max < 1 || l.Duration < time.Millisecond {
		return fmt.Errorf("set global rate limit: %w: it needs a max and a duration", ErrBadOptions)
	}

	err := q.client.get().HSet(ctx, q.keys.of(keyMeta), "max", l.Max, "duration", l.Duration.Milliseconds()).Err()

	return wrap("set global rate limit", err)
}

// RemoveGlobalRateLimit takes the bound away. The window that runs goes on for workers with a Limiter; see RemoveRateLimit.
func (q *Queue) RemoveGlobalRateLimit(ctx context.Context) error {
	return wrap("remove global rate limit", q.client.get().HDel(ctx, q.keys.of(keyMeta), "max", "duration").Err())
}

// GlobalRateLimit is the bound; the zero Limiter: none is set.
func (q *Queue) GlobalRateLimit(ctx context.Context) (Limiter, error) {
	values, err := q.client.get().HMGet(ctx, q.keys.of(keyMeta), "max", "duration").Result()
	if err != nil || len(values) < 2 {
		return Limiter{}, wrap("read global rate limit", err)
	}

	most, _ := values[0].(string)
	ms, _ := values[1].(string)

	return Limiter{Max: count(most), Duration: duration(number(ms))}, nil
}

// RateLimit forbids all starts for d. It binds workers that have a Limiter, and all of them if there is a global rate limit.
func (q *Queue) RateLimit(ctx context.Context, d time.Duration) error {
	return wrap("rate limit", q.client.get().Set(ctx, q.keys.of(keyLimiter), manualLimit, max(d, time.Millisecond)).Err())
}

// RemoveRateLimit ends the window that runs: starts are counted from 0.
func (q *Queue) RemoveRateLimit(ctx context.Context) error {
	return wrap("remove rate limit", q.client.get().Del(ctx, q.keys.of(keyLimiter)).Err())
}

// RateLimitTTL is how long starts are forbidden; 0: they are not. most is the Max of the worker's Limiter; 0: the global rate
// limit's. Without any bound it is the rest of the window, whether used up or not.
func (q *Queue) RateLimitTTL(ctx context.Context, most int) (time.Duration, error) {
	global, err := q.GlobalRateLimit(ctx)
	if err != nil {
		return 0, err
	}

	if global.Max > 0 && most <= 0 {
		most = global.Max
	}

	pipe := q.client.get().Pipeline()
	used := pipe.Get(ctx, q.keys.of(keyLimiter))
	left := pipe.PTTL(ctx, q.keys.of(keyLimiter))

	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, wrap("read rate limit", err)
	}

	n, notNumber := strconv.ParseFloat(used.Val(), 64)
	if notNumber != nil || most > 0 && n < float64(most) {
		return 0, nil //nolint:nilerr // no window runs, or there is room in it
	}

	return max(left.Val(), 0), nil
}

// Maxed reports whether as many jobs run as the global concurrency allows.
func (q *Queue) Maxed(ctx context.Context) (bool, error) {
	pipe := q.client.get().Pipeline()
	most := pipe.HGet(ctx, q.keys.of(keyMeta), "concurrency")
	active := pipe.LLen(ctx, q.keys.of(keyActive))

	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return false, wrap("read global concurrency", err)
	}

	return most.Val() != "" && active.Val() >= int64(count(most.Val())), nil
}
