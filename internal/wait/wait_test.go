package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
)

func TestUntil(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name         string
		holdsAfter   time.Duration
		timeout      time.Duration
		want         bool
		wantAtMost   time.Duration
		wantNotUnder time.Duration
	}{
		{"at once", 0, time.Minute, true, 0, 0},
		{"later", time.Second, time.Minute, true, time.Second + wait.Interval, time.Second},
		{"never", time.Hour, time.Minute, false, time.Minute, time.Minute},
		{"at the last moment", time.Minute, time.Minute, true, time.Minute, time.Minute},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				got := wait.Until(t, tt.timeout, func() bool { return time.Since(start) >= tt.holdsAfter })

				if took := time.Since(start); got != tt.want || took > tt.wantAtMost || took < tt.wantNotUnder {
					t.Errorf("got %v after %v", got, took)
				}
			})
		})
	}
}
