package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/wait"
)

// Node's client of major 6 does not find the pending iteration of a paused queue, and makes a second one.
func TestUpsertWhilePaused(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	s := &scene{kit: k, q: k.queue("q")}
	ctx := t.Context()
	k.must(s.q.Pause(ctx))

	first := s.schedule("s", Repeat{Every: 20 * time.Second}, templateA)
	second := s.schedule("s", Repeat{Every: 20 * time.Second}, NewJob{Name: "n", Data: json.RawMessage(`{"v":2}`)})

	if first.JobID != second.JobID {
		t.Errorf("iterations %s and %s, want the same slot", first.JobID, second.JobID)
	}

	c, err := s.q.Counts(ctx)
	if err != nil || c.Waiting != 1 || c.Delayed != 0 {
		t.Errorf("%+v, %v", c, err)
	}

	if j, err := s.q.Job(ctx, second.JobID); err != nil || string(j.Data) != `{"v":2}` {
		t.Errorf("%+v, %v", j, err)
	}
}

// Repeatable jobs of old BullMQ have a definition without data; their jobs' data must live on.
func TestLegacyRepeatableKeepsItsData(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q, w := k.queue("q"), k.worker("q")
	ctx := t.Context()

	for member, hash := range map[string][]string{
		"2de99c4afb4e0b2f2c7e33f49c3bc5ee": {"name", "rep", "every", "60000"},
		"rep::::0 0 1 1 *":                 {"name", "rep", "pattern", "0 0 1 1 *", "tz", "UTC"},
	} {
		ms := time.Now().UnixMilli()
		id := fmt.Sprintf("repeat:%s:%d", member, ms)
		opts := fmt.Sprintf(`{"attempts":0,"delay":0,"jobId":%q,"prevMillis":%d,"repeat":{"count":1,%q:%q},"timestamp":%d}`,
			id, ms, hash[2], hash[3], ms)
		opts = strings.Replace(opts, `"60000"`, `60000`, 1)

		k.must(k.r.HSet(ctx, "bull:q:repeat:"+member, hash).Err())
		k.must(k.r.ZAdd(ctx, "bull:q:repeat", redis.Z{Score: float64(ms), Member: member}).Err())
		k.must(k.r.HSet(ctx, "bull:q:"+id, "name", "rep", "data", `{"x":1}`, "opts", opts, "timestamp", ms, "delay", 0, "priority", 0,
			"rjk", member).Err())
		k.must(k.r.LPush(ctx, "bull:q:wait", id).Err())

		w.continueSchedule(k.take(w, "t"))

		scheduler, err := q.Scheduler(ctx, member)
		k.must(err)

		next, err := q.Job(ctx, fmt.Sprintf("repeat:%s:%d", member, scheduler.Next.UnixMilli()))
		if err != nil || string(next.Data) != `{"x":1}` || next.Delay <= 0 || scheduler.Iterations != 1 {
			t.Errorf("%s: %+v, %+v, %v", member, scheduler, next, err)
		}
	}
}

func TestReadSchedulers(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	s := &scene{kit: k, q: k.queue("q")}
	ctx := t.Context()
	end := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	template := NewJob{Name: "n", Data: json.RawMessage(`{"a":[]}`), Opts: JobOptions{Attempts: 2, RemoveOnComplete: &Keep{Count: 3}}}
	r := Repeat{Every: time.Minute, Limit: 5, StartDate: time.Now().Add(time.Minute).Truncate(time.Millisecond), EndDate: end}
	s.schedule("a:b:c", r, template)
	s.schedule("first", Repeat{Pattern: "*/5 * * * * *", TZ: "Europe/Berlin"}, NewJob{})

	got, err := s.q.Scheduler(ctx, "a:b:c")
	k.must(err)

	r.Offset = time.Duration(r.StartDate.UnixMilli()%60000) * time.Millisecond
	want := Scheduler{ID: "a:b:c", Repeat: r, Next: r.StartDate, Iterations: 1, Template: template}

	if d := cmp.Diff(want, got, cmp.AllowUnexported(Keep{})); d != "" {
		t.Error(d)
	}

	all, err := s.q.Schedulers(ctx, 0, 10)
	if err != nil || len(all) != 2 || all[0].ID != "first" || all[0].Repeat.TZ != "Europe/Berlin" || all[1].ID != "a:b:c" {
		t.Errorf("%+v, %v", all, err)
	}

	if n, err := s.q.SchedulerCount(ctx); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}

	if _, err := s.q.Scheduler(ctx, "none"); !errors.Is(err, ErrSchedulerNotFound) {
		t.Error(err)
	}

	for _, want := range []bool{true, false} {
		if removed, err := s.q.RemoveScheduler(ctx, "first"); err != nil || removed != want {
			t.Errorf("removed %v, %v", removed, err)
		}
	}
}

func TestBadSchedulersAreRefused(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	ok := Repeat{Every: time.Second}

	for name, tt := range map[string]struct {
		id       string
		r        Repeat
		template NewJob
	}{
		"no id":             {"", ok, NewJob{}},
		"neither":           {"s", Repeat{}, NewJob{}},
		"both":              {"s", Repeat{Every: time.Second, Pattern: "* * * * *"}, NewJob{}},
		"fraction":          {"s", Repeat{Every: time.Microsecond}, NewJob{}},
		"offset of pattern": {"s", Repeat{Pattern: "* * * * *", Offset: time.Second}, NewJob{}},
		"over":              {"s", Repeat{Every: time.Second, EndDate: time.Now().Add(-time.Second)}, NewJob{}},
		"never in time":     {"s", Repeat{Pattern: "0 0 1 1 *", EndDate: time.Now().Add(time.Millisecond)}, NewJob{}},
		"two starts":        {"s", Repeat{Pattern: "* * * * *", Immediately: true, StartDate: time.Now()}, NewJob{}},
		"pattern":           {"s", Repeat{Pattern: "x"}, NewJob{}},
		"zone":              {"s", Repeat{Pattern: "* * * * *", TZ: "Mars/Olympus"}, NewJob{}},
		"own id":            {"s", ok, NewJob{Opts: JobOptions{JobID: "x"}}},
		"priority":          {"s", ok, NewJob{Opts: JobOptions{Priority: -1}}},
	} {
		if _, err := q.UpsertScheduler(t.Context(), tt.id, tt.r, tt.template); !errors.Is(err, ErrBadOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}

	if left := k.dump(); len(left) != 0 {
		t.Errorf("something was written: %v", left)
	}
}

// A job in the way of the next iteration: a slot further for every; refused for a pattern, whose pending iteration stays then.
func TestUpsertMeetsOtherJobs(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	s := &scene{kit: k, q: k.queue("q"), w: k.worker("q")}
	ctx := t.Context()
	start := time.Now().Add(time.Hour).Truncate(time.Millisecond)

	for i := range 40 {
		at := start.Add(time.Duration(i) * time.Minute).UnixMilli()
		if i != 3 {
			k.must(k.r.HSet(ctx, fmt.Sprintf("bull:q:repeat:e:%d", at), "name", "old").Err())
		}
	}

	if made := s.schedule("e", Repeat{Every: time.Minute, StartDate: start}, NewJob{}); !strings.HasSuffix(made.JobID,
		strconv.FormatInt(start.Add(3*time.Minute).UnixMilli(), 10)) {
		t.Errorf("made %+v, want the first free slot", made)
	}

	k.must(k.r.HSet(ctx, fmt.Sprintf("bull:q:repeat:f:%d", start.UnixMilli()), "name", "old").Err())

	for i := range 40 {
		k.must(k.r.HSet(ctx, fmt.Sprintf("bull:q:repeat:f:%d", start.Add(time.Duration(i)*time.Minute).UnixMilli()), "name", "old").Err())
	}

	if _, err := s.q.UpsertScheduler(ctx, "f", Repeat{Every: time.Minute, StartDate: start}, NewJob{}); !errors.Is(err, ErrSlotsBusy) {
		t.Errorf("40 busy slots: %v", err)
	}

	// A scheduler that is there keeps its pending iteration when there is no place for another one.
	later := start.Add(-time.Minute)
	g := s.schedule("g", Repeat{Every: 2 * time.Minute, StartDate: later}, NewJob{})

	for i := range 40 {
		k.must(k.r.HSet(ctx, fmt.Sprintf("bull:q:repeat:g:%d", start.Add(time.Duration(i)*time.Minute).UnixMilli()), "name", "old").Err())
	}

	if _, err := s.q.UpsertScheduler(ctx, "g", Repeat{Every: time.Minute, StartDate: start}, NewJob{}); !errors.Is(err, ErrSlotsBusy) {
		t.Errorf("40 busy slots: %v", err)
	}

	if state, err := s.q.State(ctx, g.JobID); err != nil || state != StateDelayed {
		t.Errorf("the pending iteration is %s, %v", state, err)
	}

	yearly := Repeat{Pattern: "0 0 1 1 *", TZ: "UTC"}
	made := s.schedule("p", yearly, NewJob{})
	before := k.dump()
	k.must(s.q.Promote(ctx, made.JobID))
	h := s.take("t")

	if _, err := s.q.UpsertScheduler(ctx, "p", yearly, NewJob{}); !errors.Is(err, ErrIterationExists) {
		t.Errorf("the iteration runs: %v", err)
	}

	if after := k.dump(); !slices.Equal(slices.Sorted(maps.Keys(before["bull:q:repeat"].value.(map[string]float64))),
		slices.Sorted(maps.Keys(after["bull:q:repeat"].value.(map[string]float64)))) {
		t.Error("the scheduler was changed")
	}

	k.expect(s.w.complete(h, 1), OutcomeCompleted)
}

var (
	milliseconds = regexp.MustCompile(`\d{13}`)
	uuids        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
)

// scheduleStep is an upsert that both libraries do.
type scheduleStep struct {
	name   string
	id     string
	repeat map[string]any
	r      Repeat
	job    NewJob
}

// scheduleSteps have a pattern whose moment is many days away: it does not come between the two libraries.
func scheduleSteps(now time.Time) []scheduleStep {
	monthly := fmt.Sprintf("0 0 %d * *", (now.Day()+13)%28+1)

	return []scheduleStep{
		{"every", "a", map[string]any{"every": 60000}, Repeat{Every: time.Minute}, templateA},
		{"the same again", "a", map[string]any{"every": 60000}, Repeat{Every: time.Minute}, templateA},
		{"another every", "a", map[string]any{"every": 90000}, Repeat{Every: 90 * time.Second}, NewJob{Name: "m"}},
		{"an offset", "a", map[string]any{"every": 90000, "offset": 1000, "limit": 7}, Repeat{Every: 90 * time.Second, Offset: time.Second, Limit: 7}, templateA},
		{"a pattern", "a", map[string]any{"pattern": monthly, "tz": "Asia/Tokyo"}, Repeat{Pattern: monthly, TZ: "Asia/Tokyo"}, templateA},
		{
			"the pattern again", "a",
			map[string]any{"pattern": monthly, "tz": "Asia/Tokyo"},
			Repeat{Pattern: monthly, TZ: "Asia/Tokyo"},
			NewJob{Name: "n", Opts: JobOptions{Priority: 2, Attempts: 4, Backoff: &Backoff{Type: "fixed", Delay: time.Second}}},
		},
		{
			"immediately", "b",
			map[string]any{"pattern": monthly, "tz": "UTC", "immediately": true},
			Repeat{Pattern: monthly, TZ: "UTC", Immediately: true},
			NewJob{Name: "n", Opts: JobOptions{LIFO: true}},
		},
	}
}

// Each step leaves the same in Redis whichever library does it.
func TestUpsertAsNode(t *testing.T) {
	t.Parallel()

	kn := newKit(t)
	kg := newKit(t)
	node, q := kn.startNode("6"), kg.queue("q")

	kg.must(kg.r.HSet(t.Context(), "bull:q:meta", "opts.maxLenEvents", "10000").Err())

	node.ask(nil, map[string]any{"op": "counts"}) // it is up

	began := time.Now()

	for _, step := range scheduleSteps(began) {
		opts, err := encodeOptions(&step.job.Opts)
		kn.must(err)

		var long map[string]any
		kn.must(json.Unmarshal(opts, &long))

		if step.job.Opts.Attempts == 0 {
			delete(long, "attempts")
		}

		template := map[string]any{"name": step.job.Name, "opts": long}
		if step.job.Data != nil {
			template["data"] = step.job.Data
		}

		node.ask(nil, map[string]any{"op": "upsert", "id": step.id, "repeat": step.repeat, "template": template})

		_, err = q.UpsertScheduler(t.Context(), step.id, step.r, step.job)
		kg.must(err)

		if d := cmp.Diff(nearDump(kn, began), nearDump(kg, began)); d != "" {
			t.Errorf("%s: node - go +\n%s", step.name, d)
		}
	}
}

// nearDump is the key space in which times are told in steps of half a minute since the beginning, and far ones as they are. What is a
// multiple of half a minute away may come almost as much later than on the other side.
func nearDump(k *kit, began time.Time) map[string]string {
	near := func(text string) string {
		text = uuids.ReplaceAllString(text, "<uuid>")

		return milliseconds.ReplaceAllStringFunc(text, func(ms string) string {
			since := time.UnixMilli(int64(number(ms))).Sub(began)
			if since.Abs() > 10*time.Minute {
				return ms
			}

			return fmt.Sprintf("<now+%v>", (since + time.Second).Truncate(30*time.Second))
		})
	}

	all := map[string]string{}

	for key, d := range k.dump() {
		text := fmt.Sprint(d.value)

		switch value := d.value.(type) {
		case map[string]string:
			text = fmt.Sprint(normalFields(k, value))
		case map[string]float64:
			scores := map[string]string{}
			for member, score := range value {
				if score > 1e15 {
					score = math.Floor(score / 4096)
				}

				scores[member] = plain(math.Floor(score))
			}

			text = fmt.Sprint(scores)
		}

		all[near(key)] = d.kind + " " + near(text)
	}

	return all
}

// normalFields leaves out what runs with the clock, and writes JSON in one order.
func normalFields(k *kit, h map[string]string) map[string]string {
	delete(h, "version")
	delete(h, "delay")

	if h["every"] != "" && h["offset"] != "1000" {
		delete(h, "offset") // from the start
	}

	for field, text := range h {
		var parsed map[string]any
		if json.Unmarshal([]byte(text), &parsed) == nil {
			delete(parsed, "delay")

			sorted, err := json.Marshal(parsed)
			k.must(err)

			h[field] = string(sorted)
		}
	}

	return h
}

// A schedule of Node goes on in Go, and one of Go in Node, on the same slots and with the same data.
func TestSchedulesGoOnInTheOtherLibrary(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		ctx := t.Context()
		q := k.queue("q")

		n.ask(nil, map[string]any{
			"op": "upsert", "id": "node", "repeat": map[string]any{"every": 300},
			"template": map[string]any{"name": "e", "data": map[string]any{"n": 1}},
		})
		n.ask(nil, map[string]any{
			"op": "upsert", "id": "node-cron", "repeat": map[string]any{"pattern": "* * * * * *", "tz": "Asia/Kathmandu"},
			"template": map[string]any{"name": "c", "data": map[string]any{"n": 2}},
		})

		iterations := func(id string) int {
			s, err := q.Scheduler(ctx, id)
			k.must(err)

			return s.Iterations
		}

		_, stop := k.run(k.workerOptions("q"), func(context.Context, *Job) (any, error) { return nil, nil })
		wait.For(t, testTimeout, func() bool { return iterations("node") >= 4 && iterations("node-cron") >= 3 })
		stop()

		byGo := iterations("node-cron")

		for _, s := range []struct {
			id string
			r  Repeat
		}{{"go", Repeat{Every: 300 * time.Millisecond}}, {"go-cron", Repeat{Pattern: "* * * * * *", TZ: "Asia/Kathmandu"}}} {
			_, err := q.UpsertScheduler(ctx, s.id, s.r, NewJob{Name: "g", Data: map[string]int{"n": 3}})
			k.must(err)
		}

		n.ask(nil, map[string]any{"op": "work"})
		wait.For(t, testTimeout, func() bool {
			return iterations("go") >= 4 && iterations("go-cron") >= 3 && iterations("node-cron") >= byGo+2
		})

		checkIterations(ctx, t, q)
	})
}

// checkIterations: each finished iteration has spent one attempt, with the data of its scheduler, and each second has
// one. It may have been started twice: a worker that is told to stop gives back what it has just fetched.
func checkIterations(ctx context.Context, t *testing.T, q *Queue) {
	t.Helper()

	ids, err := q.IDs(ctx, StateCompleted, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]string{"node": "1", "node-cron": "2", "go": "3", "go-cron": "3"}
	seen := map[string]int{}

	for _, id := range ids {
		j, err := q.Job(ctx, id)
		if err != nil || string(j.Data) != `{"n":`+want[j.SchedulerID]+`}` || j.AttemptsMade != 1 || j.StalledCount != 0 {
			t.Errorf("job %s: %+v, %v", id, j, err)
			continue
		}

		seen[j.SchedulerID]++

		if strings.HasSuffix(j.SchedulerID, "cron") && !strings.HasSuffix(id, "000") {
			t.Errorf("iteration %s of a cron pattern is not on a second", id)
		}
	}

	for id := range want {
		if seen[id] < 1 {
			t.Errorf("scheduler %s has no finished job", id)
		}
	}

	if failed, err := q.IDs(ctx, StateFailed, 0, 10); err != nil || len(failed) > 0 {
		t.Errorf("failed: %v, %v", failed, err)
	}
}
