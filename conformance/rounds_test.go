package conformance

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

var (
	termRounds = flag.Int("term.rounds", 10, "rounds of TestTermAtCompletion")
	flatJobs   = flag.Int("flat.jobs", 160, "jobs of TestFlat")
)

// TestTermAtCompletion: SIGTERM in the moments in which a job ends: when its result is on its way, when it was stored, when the answer has
// just left, and a little after. Each round ends clean: exit 0, the analysis delivered once, the job completed, nothing left.
func TestTermAtCompletion(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	settings := quickLocks(stopwatch{work: 20 * time.Millisecond})
	w := s.launchWorker("worker", settings)

	for round := range *termRounds {
		id := fmt.Sprintf("an_round%d", round)
		s.termRound(t, w, id, round%4)

		if code := w.awaitExit(t, 20*time.Second); code != 0 {
			t.Errorf("round %d: exit code %d", round, code)
		}

		if files := leftovers(w.workDir); len(files) > 0 {
			t.Errorf("round %d: left in scratch space: %v", round, files)
		}

		s.runWorker(w, "worker") // the next round's; it finishes what was given back
		s.checkCompleted(t, id)
	}

	s.checkQuiet(w)
}

// termRound lets one job come to its end and stops the worker at one of four moments of it.
func (s *system) termRound(t *testing.T, w *worker, id string, moment int) {
	t.Helper()

	var told atomic.Bool

	reached := make(chan struct{})
	stop := func(m *message) {
		if m.is("result", id) && told.CompareAndSwap(false, true) {
			w.terminate(t)
			close(reached)
		}
	}

	s.front.intercept(func(_ context.Context, m *message) bool {
		if moment == 0 { // the result is on its way
			stop(m)
		}

		return true
	}, func(ctx context.Context, m *message) bool {
		switch moment {
		case 1: // it is stored, its answer lost
			lost := m.is("result", id) && !told.Load()
			stop(m)

			return !lost
		case 2: // the answer leaves
			stop(m)
		case 3: // the job is being finished
			if m.is("result", id) {
				time.AfterFunc(time.Duration(rand.IntN(6000))*time.Microsecond, func() { stop(m) })
			}
		}

		return true
	})

	s.prepare(id, s.textClip(), nil)
	s.add(id, 3)
	awaitClosed(t, reached, "the end of "+id)
}

// checkCompleted checks that an analysis was delivered once and its job completed without a spent attempt.
func (s *system) checkCompleted(t *testing.T, id string) {
	t.Helper()

	job := s.awaitJob(id)
	s.awaitState(id, queue.StateCompleted)

	if job.FailedReason != "" || job.AttemptsMade > 1 {
		t.Errorf("%s: reason %q, %d attempts", id, job.FailedReason, job.AttemptsMade)
	}

	s.checkDeliveredOnce(t, id)
}

// usage is what a process and its children hold.
type usage struct {
	rss     int64 // kB, of the worker itself
	fds     int
	threads int
	kids    int
	files   int // in scratch space
}

func (w *worker) usage(t *testing.T) usage {
	t.Helper()

	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.Pid()))
	if err != nil {
		t.Fatal(err)
	}

	return usage{
		rss: procStatus(t, w.Pid(), "VmRSS:"), threads: int(procStatus(t, w.Pid(), "Threads:")), fds: len(fds),
		kids: len(descendants(w.Pid())), files: len(leftovers(w.workDir)),
	}
}

// procStatus is a number of the kernel's about a process.
func procStatus(t *testing.T, pid int, name string) int64 {
	t.Helper()

	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}

	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}

			return n
		}
	}

	t.Fatalf("no %s of process %d", name, pid)

	return 0
}

// TestFlat: after many jobs of all kinds, among them broken clips and extractors that die, the worker holds what it held after the first
// of them: memory, open files, threads, children, temporary files.
func TestFlat(t *testing.T) {
	t.Parallel()

	s := newSystem(t, posefleet(t))
	dir := t.TempDir()

	const slots = 2

	settings := extra{
		"POSEFLEET_SLOTS": strconv.Itoa(slots), "POSEFLEET_LOG_LEVEL": "info",
		"POSEFLEET_EXTRACTOR": stopwatch{work: 10 * time.Millisecond, mixed: true, journal: filepath.Join(dir, "journal")}.command(),
	}
	w := s.startWorker("worker", settings)
	warm := max(*flatJobs/4, 40)

	s.mixed(t, 0, warm)
	s.checkQuiet(w)

	before := w.usage(t)
	wait.For(t, time.Minute, func() bool { // one that has just died may not be back yet
		before = w.usage(t)

		return before.kids == slots
	}, "%d extractors", before.kids)

	s.mixed(t, warm, *flatJobs)
	s.checkQuiet(w)

	var after usage
	// Idle threads and connections go by and by.
	if !wait.Until(t, time.Minute, func() bool {
		after = w.usage(t)

		return after.fds <= before.fds+6 && after.kids == before.kids && after.files == 0
	}) {
		t.Errorf("not flat: %+v after %d jobs, %+v after %d", before, warm, after, *flatJobs)
	}

	if after.threads > before.threads+6 || float64(after.rss) > 1.15*float64(before.rss)+4096 {
		t.Errorf("not flat: %+v after %d jobs, %+v after %d", before, warm, after, *flatJobs)
	}

	t.Logf("after %d jobs %+v, after %d %+v", warm, before, *flatJobs, after)
}

// mixed has the jobs from a number to another done.
func (s *system) mixed(t *testing.T, from, to int) {
	t.Helper()

	c := s.textClip()

	for n := from; n < to; n++ {
		id := jobID(7, n, false)
		s.prepare(id, c, nil)
		s.add(id, 3)
	}

	for n := from; n < to; n++ {
		s.awaitJob(jobID(7, n, false))
	}
}

// TestOverhead: what the fleet adds to the extractor's own time on a clip of 30 s: claim, transfer of 24 MB, upload, report. Five per cent
// of the clip's length are allowed. The best counts, of three or of as many as a machine with other work needs.
func TestOverhead(t *testing.T) {
	t.Parallel()

	const (
		clipLength = 30 * time.Second
		work       = time.Second
		tries      = 3
		atMost     = 15
	)

	s := newSystem(t, posefleet(t))
	s.startWorker("worker", extra{"POSEFLEET_EXTRACTOR": stopwatch{work: work}.command()})

	film := filepath.Join(t.TempDir(), "film.mp4")
	if err := os.WriteFile(film, make([]byte, 24<<20), 0o600); err != nil {
		t.Fatal(err)
	}

	best := time.Hour

	for n := 0; n < tries || best > clipLength/20 && n < atMost; n++ {
		id := fmt.Sprintf("an_long%d", n)
		s.prepare(id, clip{"film.mp4", film}, &protocol.Params{Model: "lite"})

		begin := time.Now()

		s.add(id, 1)

		job := s.awaitJob(id)
		best = min(best, job.FinishedOn.Sub(begin)-work)
	}

	t.Logf("%v beside the extractor's own time, %.1f %% of %v", best, 100*best.Seconds()/clipLength.Seconds(), clipLength)

	if best > clipLength/20 {
		t.Errorf("the fleet adds %v to a clip of %v", best, clipLength)
	}

	if *overheadReal != "" {
		realOverhead(t, *overheadReal)
	}
}
