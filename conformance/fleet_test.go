package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol/webhook"
)

const (
	// fleetIdle is the cool-down of the test's fleet.
	fleetIdle = 2 * time.Second
	// wakeBar is what the fleet may add to a worker's own start until the first job starts.
	wakeBar = time.Second
)

// fleetSystem is a system whose control plane starts and ends its workers itself.
type fleetSystem struct {
	*system

	journal string
	workDir string
	// added is what the fleet added to each worker's start.
	added []time.Duration
}

func newFleetSystem(t *testing.T) *fleetSystem {
	t.Helper()

	s := &fleetSystem{system: newQueueOnly(t), journal: filepath.Join(t.TempDir(), "journal"), workDir: t.TempDir()}
	s.dir, s.workerSecret = t.TempDir(), webhook.Generate()
	s.controlURL = "http://" + address(t)
	s.api = &operator.Client{Base: s.controlURL, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	s.launch()

	return s
}

// launch starts the control plane, with no worker beside it.
func (s *fleetSystem) launch() {
	s.t.Helper()

	s.control = startProcess(s.t, "control", map[string]string{
		"POSEFLEET_LISTEN":           strings.TrimPrefix(s.controlURL, "http://"),
		"POSEFLEET_REDIS_URL":        s.redis.URL,
		"POSEFLEET_QUEUE":            queueName,
		"POSEFLEET_DATABASE_URL":     "sqlite:" + filepath.Join(s.dir, "posefleet.db"),
		"POSEFLEET_STORAGE_URL":      "file:" + filepath.Join(s.dir, "storage"),
		"POSEFLEET_WORKER_SECRET":    s.workerSecret,
		"POSEFLEET_FLEET":            "local",
		"POSEFLEET_FLEET_MAX":        "2",
		"POSEFLEET_FLEET_INTERVAL":   fleetIdle.String(),
		"POSEFLEET_EXTRACTOR":        stopwatch{work: 1500 * time.Millisecond, journal: s.journal}.command(),
		"POSEFLEET_WORK_DIR":         s.workDir,
		"POSEFLEET_LOCK_DURATION":    "2s",
		"POSEFLEET_STALLED_INTERVAL": "1s",
		"POSEFLEET_DRAIN_TIMEOUT":    "5s",
	}, posefleet(s.t), "control")
	s.logs = append(s.logs, s.control.log)
	awaitHTTP(s.t, s.control, s.controlURL+"/healthz")
}

// order uploads a clip and lets the control plane do the rest.
func (s *fleetSystem) order(id string) {
	s.t.Helper()
	s.upload(id, s.textClip(), nil)

	if err := s.api.Submit(s.t.Context(), id, operator.DispatchQueue); err != nil {
		s.t.Fatal(err)
	}
}

// fleetState is what GET /v1/fleet says.
type fleetState struct{ Desired, Running, Ready int }

func (s *fleetSystem) fleet() (f fleetState) {
	s.t.Helper()
	s.get("/v1/fleet", &f)

	return f
}

func (s *fleetSystem) get(path string, v any) {
	s.t.Helper()

	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.controlURL+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}

	response, err := s.api.HTTP.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()

	if err := json.NewDecoder(response.Body).Decode(v); err != nil {
		s.t.Fatal(err)
	}
}

func (s *fleetSystem) awaitStatus(id, status string) {
	s.t.Helper()
	wait.For(s.t, jobLimit, func() bool { return s.status(id) == status }, "%s does not become %s", id, status)
}

// awaitZero waits until there is no worker, by the control plane's word and by the kernel's.
func (s *fleetSystem) awaitZero() {
	s.t.Helper()
	wait.For(s.t, startLimit, func() bool { return s.fleet() == fleetState{} }, "the fleet does not go back to zero: %+v", s.fleet())

	if left := descendants(s.control.Pid()); len(left) > 0 {
		s.t.Errorf("a fleet of zero, and processes %v", left)
	}
}

// since returns the time from the submission of an analysis to the first start of its work, by the control plane's own timeline.
func (s *fleetSystem) since(id string) time.Duration {
	s.t.Helper()

	var a struct {
		Timeline []struct {
			At   time.Time
			Kind string
		}
	}
	s.get("/v1/analyses/"+id, &a)

	at := map[string]time.Time{}
	for _, e := range slices.Backward(a.Timeline) {
		at[e.Kind] = e.At
	}

	return at["redeemed"].Sub(at["submitted"])
}

// startOfWorker is how long the last worker that became ready needed for itself, by its own word.
func (s *fleetSystem) startOfWorker() time.Duration {
	s.t.Helper()

	var took time.Duration

	for line := range strings.Lines(s.control.log.String()) {
		var entry struct {
			Msg        string
			DurationMs int64 `json:"duration_ms"`
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "worker is ready" && entry.DurationMs > 0 {
			took = time.Duration(entry.DurationMs) * time.Millisecond
		}
	}

	if took == 0 {
		s.t.Error("no worker became ready")
	}

	return took
}

// wake takes one analysis from zero to its delivery and back to zero.
func (s *fleetSystem) wake(id string) {
	s.t.Helper()
	s.awaitZero()
	s.order(id)
	s.awaitStatus(id, "delivered")

	whole, own := s.since(id), s.startOfWorker()
	s.added = append(s.added, whole-own)
	s.t.Logf("%s: first job %v after the wake, of which the worker's own start is %v: the fleet adds %v", id, whole, own, whole-own)
}

// TestFleetFromZero: no worker until there is work; within a second more than a worker needs for itself it is begun, and delivered; then
// there is none again. A control plane that is killed leaves no process behind, and its next start ends what was begun.
func TestFleetFromZero(t *testing.T) {
	t.Parallel()

	s := newFleetSystem(t)
	for n := range 2 {
		s.wake(fmt.Sprintf("an_wake_%d", n))
	}

	// The machine is busy with other tests: the better one is the fleet's.
	if best := slices.Min(s.added); best > wakeBar {
		t.Errorf("the fleet adds at least %v, want at most %v", best, wakeBar)
	}

	s.awaitZero()
	s.killInTheMiddle()

	// Two at once are two workers.
	s.order("an_two_1")
	s.order("an_two_2")
	wait.For(t, startLimit, func() bool { return s.fleet().Running == 2 }, "two analyses, and %+v", s.fleet())
	s.awaitStatus("an_two_1", "delivered")
	s.awaitStatus("an_two_2", "delivered")
	s.order("an_last")
	wait.For(t, startLimit, func() bool { return starts(s.journal, "an_last") == 1 }, "never begun")

	// An orderly end lets the worker deliver what it has.
	children := descendants(s.control.Pid())
	s.control.terminate(t)

	if code := s.control.awaitExit(t, startLimit); code != 0 {
		t.Errorf("exit code %d", code)
	}

	awaitGone(t, children)
	s.launch()

	if got := s.status("an_last"); got != "delivered" {
		t.Errorf("%s: its worker was to deliver it before the end", got)
	}

	s.awaitZero()

	if n := starts(s.journal, "an_last"); n != 1 {
		t.Errorf("begun %d times", n)
	}
}

// killInTheMiddle kills the control plane while a worker works.
func (s *fleetSystem) killInTheMiddle() {
	s.t.Helper()

	const id = "an_killed"

	s.order(id)
	wait.For(s.t, startLimit, func() bool { return starts(s.journal, id) == 1 }, "never begun")

	children := descendants(s.control.Pid())
	if len(children) < 2 {
		s.t.Errorf("children %v: a worker and its extractor were expected", children)
	}

	if err := syscall.Kill(s.control.Pid(), syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}

	<-s.control.Done()
	awaitGone(s.t, children)
	s.launch()
	s.awaitStatus(id, "delivered")

	if n := starts(s.journal, id); n != 2 {
		s.t.Errorf("begun %d times", n)
	}

	s.awaitZero()
}

func awaitGone(t testing.TB, pids []int) {
	t.Helper()

	for _, pid := range pids {
		wait.For(t, time.Minute, func() bool { return !alive(pid) }, "process %d lives on", pid)
	}
}
