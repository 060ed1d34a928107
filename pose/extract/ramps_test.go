package extract

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/posefleet/posefleet/pose"
)

func TestRampsAreFoundWhereSpeedChangesForGood(t *testing.T) {
	t.Parallel()
	run := func(n int, step float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = step
		}
		return out
	}
	join := func(parts ...[]float64) (out []float64) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	jitter := run(60, 33)
	for i := range jitter {
		jitter[i] += float64(i%3) * 3
	}
	tests := []struct {
		name  string
		steps []float64
		want  []pose.Ramp
	}{
		{"a constant rate", run(100, 20), nil},
		{"a jittery one", jitter, nil},
		{"dropped frames", join(run(30, 20), []float64{60}, run(30, 20), []float64{40, 20, 40}, run(30, 20)), nil},
		{"slow motion in the middle", join(run(30, 20), run(40, 100), run(30, 20)), []pose.Ramp{{T: 600, From: 50, To: 10}, {T: 4600, From: 10, To: 50}}},
		{"a gradual change", join(run(30, 10), []float64{15, 20, 25, 30}, run(30, 40)), []pose.Ramp{{T: 300, From: 100, To: 25}}},
		{"too short to be sure", join(run(30, 20), run(5, 100), run(30, 20)), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r rampFinder
			var got []pose.Ramp
			at := 0.0
			for i := range len(tt.steps) + 1 {
				if i > 0 {
					at += tt.steps[i-1]
				}
				if ramp, ok := r.add(at); ok {
					got = append(got, ramp)
				}
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 1e-6)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
