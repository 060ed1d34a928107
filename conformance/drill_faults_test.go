package conformance

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// trouble is one kind of fault. begin does it, end heals it; both run on the drill's goroutine.
type trouble struct {
	name string
	// worst and least time between begin and end, in hundredths of the lock time; 0, 0: over at once.
	least, most int
	begin, end  func(d *drill, e *event)
	// hits are the members whose next job shows that the fault is over.
	hits func(d *drill, e *event) []*member
}

// event is one trouble of the schedule and what became of it.
type event struct {
	trouble *trouble
	target  int           // member
	at      time.Duration // since the drill's begin
	lasts   time.Duration
	pick    int // for what is to be chosen at the moment itself

	began, healed time.Time
	hit           []*member
	note          string
}

func troubles() []*trouble {
	one := func(d *drill, e *event) []*member { return d.members[e.target : e.target+1] }
	all := func(d *drill, _ *event) []*member { return d.members }

	return []*trouble{
		{"worker killed", 10, 150, (*drill).killWorker, (*drill).startWorkerAgain, one},
		{"worker deployed", 0, 0, (*drill).deployWorker, nil, one},
		{"worker told twice to stop", 0, 0, (*drill).hurryWorker, nil, one},
		{"worker frozen", 130, 250, (*drill).freezeWorker, (*drill).thawWorker, one},
		{"worker cut off Redis", 30, 250, (*drill).cutLine, (*drill).healLine, one},
		{"line to Redis falls silent", 30, 250, (*drill).muteLine, (*drill).healLine, one},
		{"line to Redis slow", 100, 200, (*drill).slowLine, (*drill).healLine, one},
		{"answers of Redis lost", 0, 0, (*drill).loseAnswers, nil, one},
		{"extractor killed", 0, 0, (*drill).killExtractor, nil, one},
		{"Redis restarted", 20, 150, (*drill).killRedis, (*drill).startRedisAgain, all},
		{"Redis frozen", 30, 200, (*drill).freezeRedis, (*drill).thawRedis, all},
		{"lock evicted", 0, 0, (*drill).evictLock, nil, all},
		{"control plane killed", 20, 100, (*drill).killControl, (*drill).startControlAgain, all},
		{"receiver fails", 50, 200, (*drill).failReceiver, (*drill).healFront, all},
		{"receiver's answers lost", 50, 150, (*drill).loseReceiver, (*drill).healFront, all},
		{"receiver slow", 100, 200, (*drill).slowReceiver, (*drill).healFront, all},
		{"storage fails", 0, 0, (*drill).failStorage, nil, all},
	}
}

// schedule is the same for the same seed: each round brings every trouble once, in a new order.
func schedule(seed int64, cfg drillConfig, members int) []*event {
	rng := rand.New(rand.NewPCG(uint64(seed), 0x706f7365)) //nolint:gosec // a schedule, no secret

	var events []*event

	at := cfg.gap

	for len(events) < cfg.events {
		kinds := troubles()
		rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })

		for _, k := range kinds {
			e := &event{trouble: k, target: rng.IntN(members), at: at, pick: rng.IntN(1 << 20)}
			e.lasts = cfg.lock * time.Duration(k.least+rng.IntN(k.most-k.least+1)) / 100
			events = append(events, e)

			at += time.Duration(float64(cfg.gap) * (0.5 + rng.Float64()))
			if rng.IntN(4) > 0 { // one in four begins before the last one is over
				at += e.lasts
			}
		}
	}

	return events[:cfg.events]
}

func (d *drill) killWorker(e *event) { d.members[e.target].kill() }

func (d *drill) startWorkerAgain(e *event) { d.members[e.target].launch() }

// deployWorker is a deploy: the old worker ends in order, a new one takes its place.
func (d *drill) deployWorker(e *event) { d.replace(e, 1) }

func (d *drill) hurryWorker(e *event) { d.replace(e, 2) }

func (d *drill) replace(e *event, signals int) {
	d.thawWorker(e) // a frozen machine hears nothing
	m := d.members[e.target]
	m.set(memberDraining)
	begin := time.Now()

	for range signals {
		m.worker.send(d.t, syscall.SIGTERM)
		// The second signal must find the first one heard: two at once are one to the kernel.
		pause(d.t.Context(), d.cfg.lock/20)
	}

	code := m.worker.awaitExit(d.t, d.cfg.drain+30*time.Second)
	if code != 0 {
		d.watch.fault("%s ended with %d after SIGTERM", m.name, code)
	}

	e.note = fmt.Sprintf("ended after %v", time.Since(begin).Round(10*time.Millisecond))

	m.launch()
}

func (d *drill) freezeWorker(e *event) {
	m := d.members[e.target]
	m.set(memberFrozen)
	m.worker.freeze(d.t)
}

func (d *drill) thawWorker(e *event) {
	m := d.members[e.target]
	if m.is(memberFrozen) { // another trouble may have killed it
		m.worker.thaw(d.t)
		m.set(memberUp)
	}
}

func (d *drill) cutLine(e *event) {
	d.members[e.target].line.Cut()
	d.members[e.target].setCut(true)
}

func (d *drill) muteLine(e *event) {
	d.members[e.target].line.Mute()
	d.members[e.target].setCut(true)
}

func (d *drill) slowLine(e *event) {
	d.members[e.target].line.Delay(d.cfg.lock * time.Duration(2+e.pick%6) / 100)
}

func (d *drill) healLine(e *event) {
	d.members[e.target].line.Heal()
	d.members[e.target].setCut(false)
}

// loseAnswers loses the answers of three scripts, whichever they are.
func (d *drill) loseAnswers(e *event) {
	d.members[e.target].line.LoseAnswers(3, func(request []byte) bool { return bytes.Contains(bytes.ToLower(request), []byte("evalsha")) })
}

func (d *drill) killExtractor(e *event) {
	m := d.members[e.target]

	children := descendants(m.worker.Pid())
	if len(children) == 0 {
		return
	}

	slices.Sort(children)
	_ = syscall.Kill(children[e.pick%len(children)], syscall.SIGKILL) // it may just have ended
}

func (d *drill) killRedis(*event) {
	if !d.redisDown {
		d.redisDown = true
		d.sys.redis.Kill()
	}
}

func (d *drill) startRedisAgain(*event) {
	if d.redisDown {
		d.sys.redis.Restart()

		d.redisDown = false
	}
}

func (d *drill) freezeRedis(*event) {
	if !d.redisDown {
		d.sys.redis.Pause()
	}
}

func (d *drill) thawRedis(*event) {
	if !d.redisDown {
		d.sys.redis.Resume()
	}
}

// evictLock is what a Redis with the wrong policy does when its memory is full.
func (d *drill) evictLock(e *event) {
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Second)
	defer cancel()

	active := d.redis.LRange(ctx, "bull:"+queueName+":active", 0, -1).Val()
	if len(active) == 0 {
		return
	}

	slices.Sort(active)
	id := active[e.pick%len(active)]
	d.redis.Del(ctx, "bull:"+queueName+":"+id+":lock")
	e.note = id
}

func (d *drill) killControl(*event) { d.sys.control.Kill() }

func (d *drill) startControlAgain(*event) {
	if ended(d.sys.control.Process) {
		d.sys.launchControl(posefleet(d.t), d.sys.controlURL)
	}
}

func (d *drill) failReceiver(e *event) {
	statuses := []int{http.StatusServiceUnavailable, http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusUnauthorized}
	status := statuses[e.pick%len(statuses)]
	e.note = strconv.Itoa(status)

	d.sys.front.answerInstead(func(m *message) int {
		if isResult(m) {
			return status
		}

		return 0
	})
}

func (d *drill) loseReceiver(*event) {
	d.sys.front.intercept(d.before, func(_ context.Context, m *message) bool { return !isResult(m) })
}

func (d *drill) slowReceiver(e *event) {
	wait := d.cfg.lock * time.Duration(50+e.pick%100) / 100

	d.sys.front.intercept(func(ctx context.Context, m *message) bool {
		if isResult(m) {
			pause(ctx, wait)
		}

		return d.before(ctx, m)
	}, nil)
}

func (d *drill) healFront(*event) {
	d.sys.front.answerInstead(nil)
	d.sys.front.intercept(d.before, nil)
}

func (d *drill) failStorage(*event) { d.sys.front.failStorage(10) }
