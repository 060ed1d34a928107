// Package wait polls for a condition with a deadline, so that no test has to sleep for a fixed time.
package wait

import (
	"fmt"
	"testing"
	"time"
)

// Interval is the pause between two looks at the condition.
const Interval = 5 * time.Millisecond

// For polls cond until it holds and ends the test with the message when timeout has passed first. It gives up early when the
// test's context ends. msg is a format and its arguments; it may be left out.
func For(t testing.TB, timeout time.Duration, cond func() bool, msg ...any) {
	t.Helper()

	if !Until(t, timeout, cond) {
		t.Fatalf("waited %v in vain%s", timeout, describe(msg))
	}
}

// Until is For for callers that want to say themselves what went wrong: it reports whether cond held within timeout.
func Until(t testing.TB, timeout time.Duration, cond func() bool) bool {
	t.Helper()

	deadline := time.NewTimer(timeout)
	defer deadline.Stop()

	tick := time.NewTicker(Interval)
	defer tick.Stop()

	for {
		if cond() {
			return true
		}

		select {
		case <-tick.C:
		case <-deadline.C:
			return cond()
		case <-t.Context().Done():
			return cond()
		}
	}
}

func describe(msg []any) string {
	if len(msg) == 0 {
		return ""
	}

	if format, ok := msg[0].(string); ok {
		return ": " + fmt.Sprintf(format, msg[1:]...)
	}

	return ": " + fmt.Sprint(msg...)
}
