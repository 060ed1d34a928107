package queue

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// backoff is the growing, jittered pause of a loop that can't reach Redis. The bound is short: work has to go on soon after Redis is back.
type backoff struct {
	first, most time.Duration
	next        time.Duration
}

func newBackoff(first, most time.Duration) *backoff { return &backoff{first: first, most: most} }

func (b *backoff) reset() { b.next = 0 }

// pause is the next one: between half and all of the doubled last.
func (b *backoff) pause() time.Duration {
	b.next = min(max(b.next*2, b.first), b.most)

	return b.next/2 + rand.N(b.next/2+1)
}

// wait pauses; false if the context ended first.
func (b *backoff) wait(ctx context.Context) bool { return sleep(ctx, b.pause()) }

// sleep reports whether the whole time has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}

	t := time.NewTimer(d)
	defer t.Stop()

	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryDelay is the pause before the attempt after the attempt-th failed one (counted from 1), as BullMQ computes it: 0 means at once.
// known is false for a type that is neither fixed nor exponential.
func (b *Backoff) retryDelay(attempt int, random func() float64) (d time.Duration, known bool) {
	if b == nil {
		return 0, true
	}

	ms := toMillis(b.Delay)

	switch b.Type {
	case "fixed":
	case "exponential":
		ms = math.Round(math.Pow(2, float64(attempt-1)) * ms)
	default:
		return 0, false
	}

	if b.Jitter > 0 {
		ms = math.Floor(random()*ms*b.Jitter + ms*(1-b.Jitter))
	}

	return duration(ms), true
}
