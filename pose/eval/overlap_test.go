package eval

import (
	"testing"

	"github.com/posefleet/posefleet/pose/synth"
)

// Who is half behind somebody is looked for with the one in front painted over: without that 9 of these 50 frames lack one person.
func TestWhoIsHalfHiddenIsFound(t *testing.T) {
	t.Parallel()
	r := testRunner(t, "full")
	for _, m := range synth.Meetings(480, 270) {
		if m.Name != "leaving" {
			continue
		}
		m.Seconds = 2
		path, truth, err := drawMeeting(t.Context(), r.scratch, m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.meeting(t.Context(), path, variant{name: asDrawn, scale: 1}, truth)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", got)
		if got.twice > 0 || got.extra > 0 || got.right < got.frames*88/100 {
			t.Errorf("%s; want nobody twice, no skeleton of nobody's, and 88 %% of the frames right", got)
		}
	}
}
