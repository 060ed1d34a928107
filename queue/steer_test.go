package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/wait"
)

func describeOptions(o *redis.UniversalOptions) string {
	return fmt.Sprintf("%v %s %s %d %s %v %v", o.Addrs, o.Username, o.Password, o.DB, o.MasterName, o.TLSConfig != nil, o.IsClusterMode)
}

func TestEvents(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.add(q, "before", nil, JobOptions{})

	e, err := NewEvents(k.options("q"))
	k.must(err)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	got := make(chan Event, 100)
	ended := make(chan error, 1)

	go func() {
		ended <- e.Run(ctx, func(ev Event) error { got <- ev; return nil })
	}()

	<-e.Ready()

	id := k.add(q, "n", nil, JobOptions{})
	first := <-got

	if first.Name != "added" || first.JobID != id || first.Fields["name"] != "n" {
		t.Errorf("%+v", first)
	}

	if second := <-got; second.Name != "waiting" {
		t.Errorf("%+v", second)
	}

	_, stop := k.run(k.workerOptions("q"), func(ctx context.Context, j *Job) (any, error) {
		return map[string]int{"n": 1}, j.UpdateProgress(ctx, 0.5)
	})

	for ev := range got {
		if ev.JobID == id && ev.Name == "progress" && string(ev.Progress()) != "0.5" {
			t.Errorf("progress %s", ev.Progress())
		}

		if ev.JobID == id && ev.Name == "completed" {
			if string(ev.ReturnValue()) != `{"n":1}` || ev.Fields["prev"] != "active" {
				t.Errorf("%+v", ev)
			}

			break
		}
	}

	stop()
	cancel()
	k.must(<-ended)

	// From a remembered place: no repeats, no loss.
	again, err := NewEvents(k.options("q"))
	k.must(err)

	err = again.RunFrom(t.Context(), first.ID, func(ev Event) error {
		if ev.Name != "waiting" || ev.JobID != id {
			t.Errorf("first event after %s is %+v", first.ID, ev)
		}

		return errBoom
	})
	if !errors.Is(err, errBoom) {
		t.Errorf("run ended with %v", err)
	}
}

// What a major 5 client moves away when it pauses is served after our resume, and counted and listed meanwhile.
func TestResumeOfAnOldPause(t *testing.T) {
	t.Parallel()

	const jobs = 8000

	k := newKit(t)
	q := k.queue("q")
	ctx := t.Context()

	all := make([]NewJob, jobs)
	added, err := q.AddBulk(ctx, all)
	k.must(err)

	k.must(k.r.Rename(ctx, "bull:q:wait", "bull:q:paused").Err())
	k.must(k.r.HSet(ctx, "bull:q:meta", "paused", 1).Err())
	k.must(k.r.Del(ctx, "bull:q:marker").Err())

	last := k.add(q, "joins the paused ones", nil, JobOptions{})
	k.must(k.r.LPush(ctx, "bull:q:wait", added[0].ID+"x").Err()) // so that resume has to merge

	if c, err := q.Counts(ctx); err != nil || c.Waiting != jobs+2 {
		t.Fatalf("%+v, %v", c, err)
	}

	if state, err := q.State(ctx, last); err != nil || state != StateWaiting {
		t.Errorf("%s, %v", state, err)
	}

	ids, err := q.IDs(ctx, StateWaiting, 0, 3)
	if err != nil || fmt.Sprint(ids) != "[1x 1 2]" {
		t.Errorf("ids %v, %v", ids, err)
	}

	k.must(q.Resume(ctx))

	if c, err := q.Counts(ctx); err != nil || c.Waiting != jobs+2 || c.Paused || k.r.Exists(ctx, "bull:q:paused").Val() != 0 {
		t.Errorf("after resume: %+v, %v", c, err)
	}
}

// serverCPU is how many seconds of CPU the server has used.
func (k *kit) serverCPU() float64 {
	k.t.Helper()

	info := k.r.InfoMap(k.t.Context(), "cpu")
	k.must(info.Err())

	return number(info.Item("CPU", "used_cpu_user")) + number(info.Item("CPU", "used_cpu_sys"))
}

// Tens of thousands of jobs whose workers are gone are put back in one check that does not hold Redis up.
func TestManyStalled(t *testing.T) {
	t.Parallel()

	const jobs, step = 30000, 2000

	k := newKit(t)
	q := k.queue("q")
	ctx := t.Context()

	for first := 1; first <= jobs; first += step {
		k.must(k.r.Eval(ctx, `for id = tonumber(ARGV[1]), tonumber(ARGV[2]) do
			redis.call("HSET", KEYS[1] .. id, "name", "n", "data", "{}", "opts", "{}", "priority", 0)
			redis.call("LPUSH", KEYS[1] .. "active", id)
		end
		return 1`, []string{"bull:q:"}, first, first+step-1).Err())
	}

	k.must(k.r.LPush(ctx, "bull:q:active", "0:0", "ghost").Err())
	before := k.serverCPU()

	w := k.worker("q")

	for round := range 2 {
		k.must(k.r.Del(ctx, "bull:q:stalled-check").Err())

		began := time.Now()
		_, err := w.checkStalledOnce(ctx)
		k.must(err)

		t.Logf("check %d took %v, %.1f s of the server's CPU so far", round, time.Since(began), k.serverCPU()-before)
	}

	// The server's CPU time, not the clock: the machine may be busy with other things. 15 steps, about 70 ms each.
	if used := k.serverCPU() - before; used > 7.5 {
		t.Errorf("the checks took %.1f s of the server", used)
	}

	c, err := q.Counts(ctx)
	k.must(err)

	if c.Waiting != jobs || c.Active != 0 || k.r.Exists(ctx, "bull:q:ghost").Val() != 0 {
		t.Errorf("%+v", c)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	ctx := t.Context()
	id := k.add(q, "n", nil, JobOptions{})

	if _, err := q.Job(ctx, "none"); !errors.Is(err, ErrJobNotFound) {
		t.Errorf("read: %v", err)
	}

	if err := q.Retry(ctx, "none"); !errors.Is(err, ErrJobNotFound) {
		t.Errorf("retry: %v", err)
	}

	if err := q.Retry(ctx, id); !errors.Is(err, ErrNotInState) {
		t.Errorf("retry of a waiting job: %v", err)
	}

	if _, err := q.Clean(ctx, 0, 0, "strange"); !errors.Is(err, ErrNotInState) {
		t.Errorf("clean: %v", err)
	}

	if _, err := q.IDs(ctx, "strange", 0, 1); !errors.Is(err, ErrNotInState) {
		t.Errorf("list: %v", err)
	}

	if err := (&Job{ID: "x"}).Log(ctx, "row"); !errors.Is(err, ErrClosed) {
		t.Errorf("log of a job that nobody read: %v", err)
	}
}

// A schedule of another library goes on here: each iteration makes the next, and a retried old one makes none.
func TestScheduleGoesOn(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	s := &scene{kit: k, q: k.queue("q"), w: k.worker("q")}
	s.schedule("s", Repeat{Every: 200 * time.Millisecond}, templateA)

	_, stop := k.run(k.workerOptions("q"), func(context.Context, *Job) (any, error) { return nil, nil })
	wait.For(t, testTimeout, func() bool { c, _ := s.q.Counts(t.Context()); return c.Completed >= 4 })
	stop()

	fields := k.r.HGetAll(t.Context(), "bull:q:repeat:s").Val()

	c, err := s.q.Counts(t.Context())
	k.must(err)

	if count(fields["ic"]) != int(c.Completed+c.Delayed+c.Waiting) || c.Delayed+c.Waiting != 1 {
		t.Errorf("%s iterations made, %+v", fields["ic"], c)
	}

	ids, err := s.q.IDs(t.Context(), StateCompleted, 0, 1)
	k.must(err)

	j, err := s.q.Job(t.Context(), ids[0])
	k.must(err)

	if string(j.Data) != `{"a":1}` || !strings.HasPrefix(j.ID, "repeat:s:") || j.SchedulerID != "s" {
		t.Errorf("%+v", j)
	}
}

func TestNextSlot(t *testing.T) {
	t.Parallel()

	for _, test := range []struct{ prev, every, offset, now, want int64 }{
		{1000, 100, 0, 1050, 1100},
		{1000, 100, 0, 1100, 1100},
		{1000, 100, 30, 5000, 5030},
		{1000, 100, 30, 5040, 5130},
		{1000, 100, 0, 5000, 5100},
	} {
		if got := nextSlot(test.prev, test.every, test.offset, test.now); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}
