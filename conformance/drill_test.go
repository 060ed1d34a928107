package conformance

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/nettest"
	"github.com/posefleet/posefleet/internal/wait"
)

// The drill: a fleet of three worker processes, a real Redis that keeps its data, a real control plane and its storage, under load and under a
// schedule of faults that its seed decides. `go run ./cmd/dev drill` runs a long one.
var (
	drillSeed = flag.Int64("drill.seed", 0, "seed of the drill's jobs and faults; 0 means a short drill of seed 1")
	drillJobs = flag.Int("drill.jobs", 10000, "how many jobs a long drill has")
	drillReal = flag.Bool("drill.real", false, "a long drill with the real extractor on a real clip")
	drillOut  = flag.String("drill.out", "", "folder for the ledger and the picture of a long drill")
)

// drillConfig is the size of a drill.
type drillConfig struct {
	seed    int64
	jobs    int
	backlog int // jobs that are in the fleet at the same time
	events  int
	gap     time.Duration // mean time between the faults
	slots   int
	work    time.Duration // unit of a job's length
	lock    time.Duration
	stalled time.Duration
	drain   time.Duration
	door    bool          // whether some jobs come by the HTTP doors
	settle  time.Duration // how long the fleet may need after the last fault
	recover time.Duration // longest time from a fault's end to the next job of whoever was hit
	probe   time.Duration // how long a probe may take (invariant 4); two in a row have to be late, since the machine is shared with the drill itself
	slack   time.Duration // what a loaded machine may add to the bound of invariant 3
}

// shortDrill is one of the tests, and has the machine with others: what it measures is the long drill's affair.
func shortDrill() drillConfig {
	return drillConfig{
		seed: 1, jobs: 150, backlog: 40, events: len(troubles()), gap: 250 * time.Millisecond, slots: 2, work: 400 * time.Millisecond,
		lock: time.Second, stalled: 500 * time.Millisecond, drain: 3 * time.Second, settle: 2 * time.Minute, recover: time.Minute,
		probe: 10 * time.Second, slack: 20 * time.Second,
	}
}

// longDrill goes on with its faults until every job was handed over. Doors: a worker that dies with a job of its HTTP door leaves it to the
// control plane, which waits for the lease's end first; hence the long time to settle.
func longDrill() drillConfig {
	cfg := drillConfig{
		seed: *drillSeed, jobs: *drillJobs, backlog: 120, events: 100000, gap: 3 * time.Second, slots: 3, work: 500 * time.Millisecond,
		lock: 3 * time.Second, stalled: 1500 * time.Millisecond, drain: 5 * time.Second, door: true, settle: 5 * time.Minute,
		recover: 35 * time.Second, // slots may all be waiting with results that were refused; such a wait has at most 30 s
		probe:   time.Second, slack: 2 * time.Second,
	}
	if *drillReal {
		// A job takes seconds of the whole machine: the faults are to find the fleet at work, and not each job several times.
		cfg.backlog, cfg.slots, cfg.gap, cfg.recover = 6, 1, 8*time.Second, 2*time.Minute
	}

	return cfg
}

// drill is one run.
type drill struct {
	t       *testing.T
	cfg     drillConfig
	sys     *system
	redis   *redis.Client
	film    clip
	clip    []byte // the film's content
	journal string
	members []*member
	watch   *watch
	load    *load
	begin   time.Time
	past    []*event
	// redisDown: killed and not yet started again.
	redisDown bool
}

// TestDrill runs the drill and holds its ledger against what the fleet promises: nothing lost, nothing delivered twice, nothing stuck.
func TestDrill(t *testing.T) {
	cfg := shortDrill()

	if *drillSeed != 0 {
		cfg = longDrill()
	} else {
		t.Parallel()
	}

	d := newDrill(t, cfg)
	d.run()

	l := d.ledger()
	t.Log("\n" + l.String())

	if *drillOut != "" {
		d.write(l)
	}

	for _, w := range l.wrong {
		t.Error(w)
	}
}

func newDrill(t *testing.T, cfg drillConfig) *drill {
	t.Helper()

	d := &drill{t: t, cfg: cfg, journal: filepath.Join(t.TempDir(), "journal")}
	d.sys = newSystem(t, posefleet(t), "--appendonly", "yes", "--appendfsync", "everysec")
	d.redis = d.sys.redis.Client()

	w, err := newWatch(d)
	if err != nil {
		t.Fatal(err)
	}

	d.watch = w
	d.sys.front.intercept(d.before, nil)

	for i := range 3 {
		d.members = append(d.members, newMember(d, fmt.Sprintf("worker %c", 'A'+i)))
	}

	for _, m := range d.members {
		awaitHTTP(t, m.worker.process, m.worker.admin+"/readyz")
	}

	return d
}

// before sees each message that comes to the front.
func (d *drill) before(_ context.Context, m *message) bool {
	d.watch.arrived(m)

	return true
}

// run goes through the schedule until the load is in, and waits until the fleet has done it all.
func (d *drill) run() {
	ctx, stop := context.WithCancel(d.t.Context())
	defer stop()

	film := d.sys.textClip()
	if *drillReal {
		realExtractor(d.t)

		film = clip{"phone.mov", need.Media(d.t, "videos/decord_phone_rot90.mov")}
	}

	content, err := os.ReadFile(film.path)
	if err != nil {
		d.t.Fatal(err)
	}

	d.film, d.clip, d.begin = film, content, time.Now()
	d.watch.start(ctx)
	d.load = startLoad(ctx, d, film)

	d.play(schedule(d.cfg.seed, d.cfg, len(d.members)))
	d.load.all.Wait()
	d.settle()
	stop()
	d.watch.all.Wait()
}

// play begins and heals the faults in time. A schedule may be longer than the load.
func (d *drill) play(events []*event) {
	var open []*event

	for len(events) > 0 || len(open) > 0 {
		slices.SortFunc(open, func(a, b *event) int { return int(a.at + a.lasts - b.at - b.lasts) })

		switch {
		case len(open) > 0 && (len(events) == 0 || open[0].at+open[0].lasts <= events[0].at):
			d.heal(open[0])
			open = open[1:]
		case d.load.allIn() && d.cfg.events > len(troubles()):
			events = nil // the long drill ends with its load
		default:
			e := events[0]
			events = events[1:]
			d.strike(e)
			open = append(open, e)
		}
	}
}

// strike begins a fault at its time, or as soon after as the one before allows.
func (d *drill) strike(e *event) {
	pause(d.t.Context(), time.Until(d.begin.Add(e.at)))

	e.at, e.began = time.Since(d.begin), time.Now()
	e.hit = e.trouble.hits(d, e)
	e.trouble.begin(d, e)
	d.past = append(d.past, e)
}

func (d *drill) heal(e *event) {
	pause(d.t.Context(), time.Until(d.begin.Add(e.at+e.lasts)))

	if e.trouble.end != nil {
		e.trouble.end(d, e)
	}

	e.healed = time.Now()
}

// settle waits until every analysis is decided and no job is open.
func (d *drill) settle() {
	open := -1

	done := wait.Until(d.t, d.cfg.settle, func() bool {
		c, err := d.sys.queue.Counts(d.t.Context())
		if err != nil || c.Waiting+c.Active+c.Delayed > 0 {
			return false
		}

		open = len(d.undecided())

		return open == 0
	})
	if !done {
		d.watch.fault("I1: not settled after %v: %d analyses undecided", d.cfg.settle, open)
	}

	for _, m := range d.members {
		d.sys.checkQuiet(m.worker)
	}
}

// able is how many workers can take work now.
func (d *drill) able() int {
	n := 0

	for _, m := range d.members {
		if m.able() {
			n++
		}
	}

	return n
}

// leak names what a text must not show, "" if it shows nothing.
func (d *drill) leak(text string) string {
	for name, secret := range map[string]string{"the worker's secret": d.sys.workerSecret, "the door's secret": d.sys.doorSecret} {
		if strings.Contains(text, secret) || strings.Contains(text, strings.TrimPrefix(secret, "whsec_")) {
			return name
		}
	}

	if strings.Contains(text, "X-Pf-Signature=") || strings.Contains(text, "\"v1,") {
		return "a signature"
	}

	return ""
}

// State of a member as the drill has made it.
type memberState string

const (
	memberUp       memberState = "up"
	memberDown     memberState = "down"
	memberFrozen   memberState = "frozen"
	memberDraining memberState = "draining"
)

// turn is one change of a member's state.
type turn struct {
	at    time.Time
	state memberState
}

// member is one place in the fleet: workers come and go in it, with the same settings, scratch space and line to Redis.
type member struct {
	drill  *drill
	name   string
	line   *nettest.Proxy
	worker *worker
	admin  string

	mu    sync.Mutex
	state memberState
	cut   bool
	pids  []int // of all workers so far
	turns []turn
}

func newMember(d *drill, name string) *member {
	m := &member{drill: d, name: name, line: nettest.Start(d.t, d.sys.redis.Addr)}
	settings := extra{
		"POSEFLEET_REDIS_URL":        "redis://" + m.line.Addr(),
		"POSEFLEET_SLOTS":            strconv.Itoa(d.cfg.slots),
		"POSEFLEET_LOCK_DURATION":    d.cfg.lock.String(),
		"POSEFLEET_STALLED_INTERVAL": d.cfg.stalled.String(),
		"POSEFLEET_DRAIN_TIMEOUT":    d.cfg.drain.String(),
		"POSEFLEET_JOB_TIMEOUT":      "1m",
		"POSEFLEET_LOG_LEVEL":        "info",
	}
	if !*drillReal {
		settings["POSEFLEET_EXTRACTOR"] = stopwatch{work: d.cfg.work, mixed: true, journal: d.journal}.command()
	}

	m.worker = d.sys.launchWorker(name, settings)
	m.admin = m.worker.admin
	m.note(memberUp)

	return m
}

// launch starts the next worker of this place; it is not waited for.
func (m *member) launch() {
	if !ended(m.worker.Process) {
		return
	}

	m.drill.sys.runWorker(m.worker, m.name)
	m.note(memberUp)
}

func (m *member) kill() {
	m.set(memberDown)
	m.worker.Kill()
}

func (m *member) note(s memberState) {
	m.mu.Lock()
	m.pids = append(m.pids, m.worker.Pid())
	m.mu.Unlock()
	m.set(s)
}

func (m *member) set(s memberState) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.state = s
	m.turns = append(m.turns, turn{time.Now(), s})
}

func (m *member) is(s memberState) bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.state == s
}

func (m *member) setCut(cut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.cut = cut
}

func (m *member) able() bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.state == memberUp && !m.cut
}

// answering tells whether the worker's admin port has to answer: not in its first moments, when it does not listen yet.
func (m *member) answering() bool { return m.answeringSince(time.Now().Add(-time.Second)) }

func (m *member) answeringSince(begin time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.state == memberUp && m.turns[len(m.turns)-1].at.Before(begin)
}

// allPids are the processes that have worked here.
func (m *member) allPids() []int {
	m.mu.Lock()
	defer m.mu.Unlock()

	return slices.Clone(m.pids)
}
