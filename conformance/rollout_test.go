package conformance

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/internal/wait"
)

// TestRollout sends half of the analyses to the worker's door and half to the queue, as the flag says, and every one of them to the other
// side as well: each is delivered once, by one execution that counts, and there is never more work at once than the worker has slots.
func TestRollout(t *testing.T) {
	t.Parallel()

	const (
		analyses = 16
		slots    = 2
	)

	s := newSystem(t, posefleet(t))
	journal := filepath.Join(t.TempDir(), "journal")
	w := s.startWorker("worker", extra{
		"POSEFLEET_SLOTS": "2", "POSEFLEET_EXTRACTOR": stopwatch{work: 50 * time.Millisecond, journal: journal}.command(),
	})

	// The flag comes with the next start, while the worker runs on.
	s.control.Kill()
	s.controlEnv = extra{"POSEFLEET_DISPATCH": "http:50%", "POSEFLEET_DOOR_URL": w.door + "/v1/jobs", "POSEFLEET_DOOR_SECRET": s.doorSecret}
	s.startControl(posefleet(t))

	ways := map[bool]int{}

	for i := range analyses {
		id := fmt.Sprintf("an_%d", i)
		s.upload(id, s.textClip(), nil)

		if err := s.api.Submit(t.Context(), id, operator.DispatchQueue); err != nil {
			t.Fatal(err)
		}

		s.add(id, 20) // the other side, or the same once more
	}

	for i := range analyses {
		id := fmt.Sprintf("an_%d", i)
		wait.For(t, jobLimit, func() bool { return s.status(id) == "delivered" }, "%s is not delivered", id)
	}

	s.checkQuiet(w) // the workers have had their answers, too

	for i := range analyses {
		id := fmt.Sprintf("an_%d", i)
		s.checkDeliveredOnce(t, id)
		ways[s.wentByHTTP(id)]++

		if n := starts(journal, id); n != 1 {
			t.Errorf("%s was worked on %d times", id, n)
		}
	}

	if ways[true] == 0 || ways[false] == 0 {
		t.Errorf("by HTTP %d, by the queue %d: the flag does nothing", ways[true], ways[false])
	}

	if got := (&race{system: s}).mostAtOnce(); got > slots || got == 0 {
		t.Errorf("%d analyses at once in %d slots", got, slots)
	}
}

// wentByHTTP tells whether the control plane posted the analysis to the door, whatever that answered: the other side's job may have the slot.
func (s *system) wentByHTTP(id string) bool {
	return s.control.log.has(`"dispatched to the door"`, fmt.Sprintf("%q", id))
}
