package worker_test

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/nettest"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// goesOnWithin is the longest time from the end of a fault of Redis to the next job that a worker starts: a few seconds (the figures are
// logged), and more where everything waits for a core.
const goesOnWithin = 30 * time.Second

var totalOutage = flag.Duration("outage.total", 6*time.Second, "how long TestTotalOutage lasts")

// outage is one fault of Redis or of the way to it.
type outage struct {
	name   string
	redis  []string      // arguments of redis-server
	lasts  time.Duration // from strike to heal
	strike func(s *scene)
	heal   func(s *scene) // returns when the fault is over; nil: it is over by itself
	env    []string       // of the workers
	again  bool           // work that ran is done again, since its lock is gone
}

func outages() []outage {
	const short = 1500 * time.Millisecond
	kept := []string{"--appendonly", "yes", "--appendfsync", "always"}
	return []outage{
		{name: "stopped", redis: kept, lasts: short, strike: (*scene).kill, heal: (*scene).restart},
		{
			name: "stopped for longer than a lock", redis: kept, lasts: 3 * time.Second, strike: (*scene).kill, heal: (*scene).restart,
			env: []string{"LOCK_DURATION", "2s", "LOCK_RENEW_TIME", "500ms"}, again: true,
		},
		{name: "restarted", redis: kept, strike: (*scene).restart},
		{name: "frozen", lasts: short, strike: func(s *scene) { s.b.redis.Pause() }, heal: func(s *scene) { s.b.redis.Resume() }},
		{name: "half open", lasts: short, strike: each((*nettest.Proxy).Mute), heal: each((*nettest.Proxy).Heal)},
		{name: "cut off", lasts: short, strike: each((*nettest.Proxy).Cut), heal: each((*nettest.Proxy).Heal)},
		{name: "slow", lasts: short, strike: each(func(p *nettest.Proxy) { p.Delay(400 * time.Millisecond) }), heal: each((*nettest.Proxy).Heal)},
		{name: "answers lost", strike: each(func(p *nettest.Proxy) {
			p.LoseAnswers(3, func(request []byte) bool { return bytes.Contains(bytes.ToLower(request), []byte("evalsha")) })
		})},
		{name: "unblocked by force", strike: (*scene).unblock},
		{name: "connections killed", strike: (*scene).killClients},
		{name: "READONLY", lasts: short, strike: (*scene).demote, heal: (*scene).promote},
		{
			name: "LOADING", redis: []string{"--key-load-delay", "400", "--loading-process-events-interval-bytes", "1024"},
			strike: (*scene).load, heal: (*scene).loaded,
		},
		{name: "OOM", lasts: short, strike: (*scene).fill, heal: (*scene).empty},
		{name: "scripts flushed", strike: func(s *scene) { s.must(s.redis().ScriptFlush(s.b.t.Context()).Err()) }},
		{name: "locks evicted", strike: (*scene).evict, again: true},
	}
}

// TestOutages: after each fault of Redis a worker takes the next job within seconds by itself, wherever the fault met it: idle, in the
// middle of a job, with a result on its way, and before its first connection. What ran goes on and is done once, unless its lock is gone.
func TestOutages(t *testing.T) {
	t.Parallel()
	for _, o := range outages() {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, redistest.Start(t, o.redis...))
			s.play(o)
		})
	}
}

// TestFailoverOfTheMaster is the same for a master that dies, from the moment in which all sentinels know the new one.
func TestFailoverOfTheMaster(t *testing.T) {
	t.Parallel()
	r := redistest.StartReplicated(t, 1)
	s := newScene(t, r.Master())
	s.sets = r
	s.play(outage{name: "failover", strike: (*scene).kill, heal: (*scene).elected, env: []string{"REDIS_URL", r.URL}})
}

// TestTotalOutage: master, replica and all sentinels are gone for longer than any number of tries that somebody may count; whoever comes
// back first, work goes on.
func TestTotalOutage(t *testing.T) {
	t.Parallel()
	kept := []string{"--appendonly", "yes", "--appendfsync", "always"}
	for name, sentinelsFirst := range map[string]bool{"sentinels come back first": true, "servers come back first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.StartReplicated(t, 1, kept...)
			s := newScene(t, r.Master())
			s.sets = r
			groups := [][]*redistest.Server{r.Sentinels, r.Servers}
			if !sentinelsFirst {
				slices.Reverse(groups)
			}
			s.play(outage{
				// A request that is held for long is given up by itself.
				name: name, lasts: *totalOutage, again: *totalOutage > 10*time.Second, env: []string{"REDIS_URL", r.URL, "LOCK_DURATION", (4 * *totalOutage).String()},
				strike: func(*scene) {
					for _, server := range slices.Concat(groups...) {
						server.Kill()
					}
				},
				heal: func(s *scene) {
					for _, server := range slices.Concat(groups...) {
						server.Restart()
					}
					wait.For(t, long, func() bool { return r.Master().Client().Set(t.Context(), "beat", 1, 0).Err() == nil }, "no master")
				},
			})
		})
	}
}

// scene is a Redis with one worker for each point at which a fault can meet it, each with a queue and a line of its own.
type scene struct {
	b      *bench
	sets   *redistest.Replicated // nil: a single server
	places []*place
	pass   chan struct{} // closed: what is held goes on
}

// place is a worker at a point of its work.
type place struct {
	name string // of the queue as well
	held string // the operation of the control plane at which its job is held, "" if it is idle
	late bool   // started after the fault has begun
	line *nettest.Proxy
	*running
}

func newScene(t *testing.T, server *redistest.Server) *scene {
	t.Helper()
	b := newBench(t, false)
	b.redis = server
	s := &scene{b: b, pass: make(chan struct{}), places: []*place{
		{name: "idle"}, {name: "mid-job", held: "artifact"}, {name: "mid-callback", held: "result"}, {name: "new", late: true},
	}}
	for _, p := range s.places {
		p.line = nettest.Start(t, server.Addr)
		if p.held != "" {
			b.plane.Fault(p.held, s.hold(p))
		}
	}
	return s
}

// hold holds the first job of a place until the scene goes on.
func (s *scene) hold(p *place) func(http.ResponseWriter, *http.Request) bool {
	var once sync.Once
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if r.PathValue("id") == p.first() {
			once.Do(func() {
				select {
				case <-s.pass:
				case <-r.Context().Done(): // the worker has given up
				}
			})
		}
		return false
	}
}

func (p *place) first() string { return "first-" + p.name }

func (p *place) next() string { return "next-" + p.name }

// play lets the fault happen and looks at what becomes of each worker.
func (s *scene) play(o outage) {
	s.begin(o)
	o.strike(s)
	for _, p := range s.places {
		if p.late {
			p.running = s.launch(p, o.env)
		}
	}
	after := time.NewTimer(o.lasts)
	defer after.Stop()
	select {
	case <-after.C: // the fault itself
	case <-s.b.t.Context().Done():
	}
	if o.heal != nil {
		o.heal(s)
	}
	healed := time.Now()
	close(s.pass)
	for _, p := range s.places {
		s.add(p, p.next())
	}
	var figures []string
	for _, p := range s.places {
		took := s.awaitStart(p.next()).Sub(healed)
		figures = append(figures, fmt.Sprintf("%s %v", p.name, took.Round(10*time.Millisecond)))
		if took > goesOnWithin {
			s.b.t.Errorf("%s: the next job began %v after the fault was over, want %v", p.name, took, goesOnWithin)
		}
	}
	s.b.t.Logf("from the end of the fault to the next job: %s", strings.Join(figures, ", "))
	s.check(o)
}

// begin brings each worker to its point.
func (s *scene) begin(o outage) {
	for _, p := range s.places {
		if p.late {
			continue
		}
		p.running = s.b.awaitReady(s.launch(p, o.env))
		if p.held != "" {
			s.add(p, p.first())
			s.awaitStart(p.first())
		}
	}
	for _, p := range s.places {
		if p.held == "" {
			continue
		}
		before := map[string]string{"artifact": "get", "result": "put"}[p.held]
		wait.For(s.b.t, long, func() bool { return len(s.b.plane.Calls(before, p.first())) > 0 }, "%s does not come to its point", p.name)
	}
	wait.For(s.b.t, long, func() bool { return s.blockedClients() > 0 }, "nobody waits for a job")
}

func (s *scene) launch(p *place, env []string) *running {
	pairs := append([]string{"QUEUE", p.name, "LOCK_DURATION", "2m", "LOCK_RENEW_TIME", "1s", "STALLED_INTERVAL", "1s", "REDIS_URL", "redis://" + p.line.Addr()}, env...)
	return s.b.launch(pairs...)
}

// add adds a job straight to Redis, whatever the lines are like.
func (s *scene) add(p *place, id string) {
	s.b.t.Helper()
	s.b.plane.Add(id, "ok")
	q := s.queue(p)
	defer q.Close()
	_, err := q.Add(s.b.t.Context(), protocol.JobName, protocol.NewJobData(id), queue.JobOptions{JobID: id, Attempts: 3})
	s.must(err)
}

func (s *scene) queue(p *place) *queue.Queue {
	s.b.t.Helper()
	url := s.b.redis.URL
	if s.sets != nil {
		url = s.sets.URL
	}
	q, err := queue.NewQueue(queue.Options{RedisURL: url, Name: p.name})
	s.must(err)
	return q
}

// awaitStart is when the control plane was first asked for the job's claim.
func (s *scene) awaitStart(id string) time.Time {
	s.b.t.Helper()
	var at time.Time
	wait.For(s.b.t, long, func() bool {
		calls := s.b.plane.Calls("redeem", id)
		if len(calls) > 0 {
			at = calls[0].At
		}
		return len(calls) > 0
	}, "%s does not start", id)
	return at
}

// check: every job ends once, the work that the fault met was done once, and nothing is left.
func (s *scene) check(o outage) {
	s.b.t.Helper()
	for _, p := range s.places {
		q := s.queue(p)
		for _, id := range []string{p.first(), p.next()} {
			if id == p.first() && p.held == "" {
				continue
			}
			var state queue.State
			wait.For(s.b.t, long, func() bool {
				now, err := q.State(s.b.t.Context(), id)
				state = now
				return err == nil && now == queue.StateCompleted
			}, "%s is %s", id, state)
			if got, _ := s.b.plane.State(id); got != "delivered" {
				s.b.t.Errorf("%s is %q at the control plane", id, got)
			}
			if n := len(s.b.plane.Calls("get", id)); n != 1 && !o.again {
				s.b.t.Errorf("%s was downloaded %d times", id, n)
			}
		}
		_ = q.Close()
		wait.For(s.b.t, long, func() bool { return p.metric("posefleet_slots_in_use") == 0 }, "%s has a slot in use", p.name)
		p.GiveBack()
		p.wait()
	}
	c := s.redis()
	if active := c.Keys(s.b.t.Context(), "bull:*:active").Val(); len(active) > 0 {
		s.b.t.Errorf("left in Redis: %v", active)
	}
	if locks := c.Keys(s.b.t.Context(), "bull:*:lock").Val(); len(locks) > 0 {
		s.b.t.Errorf("left in Redis: %v", locks)
	}
}

func (s *scene) must(err error) {
	s.b.t.Helper()
	if err != nil {
		s.b.t.Fatal(err)
	}
}

func (s *scene) redis() *redis.Client {
	s.b.t.Helper()
	if s.sets != nil {
		return s.sets.Master().Client()
	}
	return s.b.redis.Client()
}

func each(do func(*nettest.Proxy)) func(*scene) {
	return func(s *scene) {
		for _, p := range s.places {
			do(p.line)
		}
	}
}

func (s *scene) kill() { s.b.redis.Kill() }

func (s *scene) restart() { s.b.redis.Restart() }

func (s *scene) elected() { s.sets.AwaitMasterAfter(s.b.redis) }

// unblock is what an operator or another client can do to whoever blocks.
func (s *scene) unblock() {
	c := s.redis()
	for line := range strings.Lines(c.ClientList(s.b.t.Context()).Val()) {
		var id int64
		if _, err := fmt.Sscanf(line, "id=%d ", &id); err == nil && strings.Contains(line, "cmd=bzpopmin") {
			s.must(c.ClientUnblockWithError(s.b.t.Context(), id).Err())
		}
	}
}

func (s *scene) killClients() {
	s.must(s.redis().Do(s.b.t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err())
}

func (s *scene) demote() { s.must(s.redis().Do(s.b.t.Context(), "REPLICAOF", "127.0.0.1", "1").Err()) }

func (s *scene) promote() { s.must(s.redis().Do(s.b.t.Context(), "REPLICAOF", "NO", "ONE").Err()) }

// load restarts Redis on a file that takes it seconds to read; it answers LOADING meanwhile.
func (s *scene) load() {
	const keys = 5000
	c, ctx := s.redis(), s.b.t.Context()
	pipe := c.Pipeline()
	for i := range keys {
		pipe.Set(ctx, fmt.Sprintf("ballast:%d", i), strings.Repeat("x", 64), 0)
	}
	_, err := pipe.Exec(ctx)
	s.must(err)
	s.must(c.Do(ctx, "SAVE").Err())
	s.restart()
	if err := s.redis().Ping(ctx).Err(); !redis.IsLoadingError(err) {
		s.b.t.Fatalf("Redis does not load: %v", err)
	}
}

func (s *scene) loaded() {
	c := s.redis()
	wait.For(s.b.t, long, func() bool { return c.Ping(s.b.t.Context()).Err() == nil }, "Redis does not end its loading")
}

func (s *scene) fill() { s.must(s.redis().ConfigSet(s.b.t.Context(), "maxmemory", "1").Err()) }

func (s *scene) empty() { s.must(s.redis().ConfigSet(s.b.t.Context(), "maxmemory", "0").Err()) }

// evict is what a Redis with the wrong policy does when its memory is full.
func (s *scene) evict() {
	c := s.redis()
	locks := c.Keys(s.b.t.Context(), "bull:*:lock").Val()
	if len(locks) != 2 {
		s.b.t.Errorf("locks are %v", locks)
	}
	s.must(c.Del(s.b.t.Context(), locks...).Err())
}

func (s *scene) blockedClients() int {
	n := 0
	for line := range strings.Lines(s.redis().Info(s.b.t.Context(), "clients").Val()) {
		_, _ = fmt.Sscanf(line, "blocked_clients:%d", &n) // other lines do not fit
	}
	return n
}
