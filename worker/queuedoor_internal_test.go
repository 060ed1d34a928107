package worker

import (
	"testing"
	"time"
)

// TestLostPause: a control plane that takes every claim back is asked ever more rarely.
func TestLostPause(t *testing.T) {
	t.Parallel()
	for starts, want := range map[int]time.Duration{
		0: 5 * time.Second, 1: 5 * time.Second, 2: 10 * time.Second, 5: 80 * time.Second, 7: 5 * time.Minute, 1 << 30: 5 * time.Minute,
	} {
		if got := lostPause(starts); got != want {
			t.Errorf("%d starts: %s, want %s", starts, got, want)
		}
	}
}
