//go:build unguarded

package pipeline_test

import "testing"

// Without the guards the executions that end late win: a delivered result is demoted and refunded, or delivered more than once.
func TestNoGuardFiveExecutions(t *testing.T) {
	t.Parallel()
	got := replayIncident(t)
	if got.status != "delivered" || got.delivered != 1 || got.refunds != 0 {
		t.Logf("%+v", got)
	} else {
		t.Errorf("%+v: the guards seem to be there still", got)
	}
}
