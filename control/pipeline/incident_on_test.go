//go:build !unguarded

package pipeline_test

import "testing"

// TestFiveExecutions: one delivered result, one notice, one charge. TestNoGuardFiveExecutions shows what keeps it so.
func TestFiveExecutions(t *testing.T) {
	t.Parallel()
	got := replayIncident(t)
	want := incident{status: "delivered", executions: got.executions, delivered: 1, notices: 1, settled: 1}
	if got != want || got.executions < 2 {
		t.Errorf("%+v", got)
	}
}
