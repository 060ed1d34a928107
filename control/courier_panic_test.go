package control_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/wait"
)

// Somebody's function panics over an outcome: the entry is tried again as after an error, and the process with all its other work goes on.
func TestOnSettledPanics(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	b := setup(t, func(c *control.Config) {
		c.Now = nil
		c.OnSettled = func(context.Context, control.Settled) error {
			if calls.Add(1) < 3 {
				panic("a mistake in the code")
			}

			return nil
		}
	})
	b.clock.now = time.Now()
	b.delivered(t, "an_1")
	wait.For(t, time.Minute, func() bool { return calls.Load() == 3 }, "the outcome is not told")
	b.do(t, http.MethodGet, "/healthz", nil, nil).want(t, http.StatusOK, "")
	if !strings.Contains(b.logs.String(), "panic: a mistake in the code") {
		t.Error("the log does not tell of the panic")
	}
}
