package claimcheck

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// backoff is the full-jitter wait before try n+1: anything from 0 to base·2ⁿ, at most limit.
func backoff(n int, base, limit time.Duration) time.Duration {
	ceiling := limit
	if n < 32 && base<<n > 0 && base<<n < limit {
		ceiling = base << n
	}
	return time.Duration(rand.Int64N(int64(ceiling) + 1))
}

// waitAfter is the wait before the next try. What the peer asked for is the least, and up to half of it comes on
// top, so that those who were sent away together do not come back together.
func waitAfter(asked time.Duration, n int, base, limit time.Duration) time.Duration {
	jitter := backoff(n, base, limit)
	if asked <= 0 {
		return jitter
	}
	return max(jitter, asked+time.Duration(rand.Int64N(int64(asked)/2+1)))
}

// sleep waits for d or until ctx ends; it tells whether d passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// outlasts tells whether a wait of d would not end before ctx's deadline, so that waiting is of no use.
func outlasts(ctx context.Context, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= d
}

// retryAfter reads a Retry-After header, in seconds or as an HTTP date, at most limit. Anything else (negative, a
// fraction, text, a date in the past, several lines) is 0: as if nothing had been said.
func retryAfter(h http.Header, now time.Time, limit time.Duration) time.Duration {
	values := h.Values("Retry-After")
	if len(values) != 1 {
		return 0
	}
	text := strings.TrimSpace(values[0])
	if isDigits(text) {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(limit/time.Second) {
			return limit // more digits than fit are a very long time, too
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), limit)
}

func isDigits(text string) bool {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return text != ""
}
