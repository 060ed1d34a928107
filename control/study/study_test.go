package study_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control/study"
)

func TestDays(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		model study.Model
		want  study.Day
	}{
		{"failure-free", study.Quiet(), study.Day{
			Deliveries: 8750, Effects: 11250, Sources: []int{},
			Outcomes: []study.Outcome{
				{study.ScopeTracking, 1250, 7500, 1250, 10000, 1250},
				{study.ScopeState, 6250, 2500, 8750, 2500, 6250},
				{study.ScopeEvent, 8750, 0, 11250, 0, 8750},
			},
		}},
		{"failure window", study.Window(), study.Day{
			Deliveries: 11849, Effects: 15251, Sources: []int{1789, 876, 434}, InvoiceLines: 451,
			Outcomes: []study.Outcome{
				{study.ScopeTracking, 1250, 10599, 1250, 14001, 1250},
				{study.ScopeState, 6250, 5599, 8750, 6501, 6250},
				{study.ScopeEvent, 8750, 3099, 11250, 4001, 8750},
			},
		}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.model.Run()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestReport: the command's text has the figures to the digit.
func TestReport(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	r := study.New()
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"8,750 deliveries", "11,250 effects", "11,849 deliveries", "15,251 effects", "451 duplicate invoice lines",
		"sources 1789, 876, 434 (carrier retry 0.20, replay on failover 0.10, redelivery 0.05)",
		"tracking 1250/7500/1250/10000/1250", "tracking+state 6250/2500/8750/2500/6250", "tracking+state+event number 8750/0/11250/0/8750",
		"tracking 1250/10599/1250/14001/1250", "tracking+state 6250/5599/8750/6501/6250", "tracking+state+event number 8750/3099/11250/4001/8750",
		"24 h 72 230.40 23.61 %", "24 h 144 460.80 47.21 %", "72 h 72 691.20 70.82 %", "1 h 72 9.60 0.98 %",
		"97.22 194.44 2.00", "41.67 138.89 3.33", "2.33 1.40", "2 8,002 902", "4 16,004 1,804",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestStopEarly: whoever has seen enough may leave the loop.
func TestStopEarly(t *testing.T) {
	t.Parallel()
	n := 0
	for range study.Window().Deliveries {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d deliveries", n)
	}
}
