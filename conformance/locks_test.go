package conformance

import (
	"flag"
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/wait"
)

var (
	fullLock  = flag.Duration("full.lock", 12*time.Second, "lock time of TestLocksUnderFullLoad")
	fullLocks = flag.Int("full.locks", 2, "how many lock times the load of TestLocksUnderFullLoad lasts")
)

// TestLocksUnderFullLoad: worker and extractors share one core, all slots burn it, and no lock is ever down to half of its time.
func TestLocksUnderFullLoad(t *testing.T) {
	t.Parallel()

	const slots = 4

	s := newSystem(t, posefleet(t))
	work := *fullLock * time.Duration(*fullLocks)
	w := s.startWorker("worker", extra{
		"POSEFLEET_SLOTS": strconv.Itoa(slots), "GOMAXPROCS": "1", "POSEFLEET_LOCK_DURATION": fullLock.String(),
		"POSEFLEET_JOB_TIMEOUT": "10m", "POSEFLEET_EXTRACTOR": stopwatch{work: work, burn: true}.command(),
	})

	// Threads that are started later inherit it.
	for _, pid := range append(descendants(w.Pid()), w.Pid()) {
		out, err := exec.CommandContext(t.Context(), need.Program(t, "taskset"), "-a", "-c", "-p", "0", strconv.Itoa(pid)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}

	ids := make([]string, slots)
	for i := range ids {
		ids[i] = fmt.Sprintf("an_full%d", i)
		s.prepare(ids[i], s.textClip(), nil)
		s.add(ids[i], 1)
	}

	client, least, samples := s.redis.Client(), *fullLock, 0

	done := wait.Until(t, 2*work*slots+jobLimit, func() bool {
		open := 0

		for _, id := range ids {
			if left := client.PTTL(t.Context(), "bull:"+queueName+":"+id+":lock").Val(); left > 0 {
				least = min(least, left)
				open++
				samples++
			}
		}

		return open == 0 && samples > 0
	})

	t.Logf("at least %v of %v left in %d looks", least, *fullLock, samples)

	if !done || samples < 100 || least < *fullLock/2 {
		t.Errorf("least time left of a lock: %v of %v in %d looks", least, *fullLock, samples)
	}

	for _, id := range ids {
		if job := s.awaitJob(id); job.FailedReason != "" || job.AttemptsStarted != 1 {
			t.Errorf("%s: %q after %d starts", id, job.FailedReason, job.AttemptsStarted)
		}
	}
}
