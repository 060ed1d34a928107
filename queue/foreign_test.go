package queue

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// foreign is a queue with jobs in all places, of which a key holds something else, and a worker whose calls a test makes one by one.
type foreign struct {
	*kit
	q   *Queue
	w   *Worker
	now int64
}

// foreignStep is a step of a worker or a producer.
type foreignStep func(*foreign) error

// foreignKeys are the keys of a queue.
var foreignKeys = []string{
	"id", "meta", "wait", "active", "prioritized", "pc", "delayed", "completed", "failed", "marker", "stalled", "limiter", "events",
	"metrics:completed", "metrics:completed:data", "metrics:failed", "metrics:failed:data",
}

func newForeign(t *testing.T) *foreign {
	t.Helper()

	f := &foreign{kit: newKit(t), now: 1_800_000_000_000}
	f.q, f.w = f.queue("q"), f.worker("q")

	return f
}

func (f *foreign) call(s *script, args ...any) error {
	_, err := s.run(f.t.Context(), f.w.client, f.w.keys, args...)

	return err
}

// fill makes jobs 1 to 12 active, three of them as by a worker that has died, lets 13 to 24 wait, and puts others elsewhere.
func (f *foreign) fill() {
	f.t.Helper()

	ctx := f.t.Context()
	f.must(f.r.FlushDB(ctx).Err())
	f.plainJobs(f.q, 24)
	f.must(f.takeMany("", 12)(f))

	for i := range 3 {
		f.add(f.q, "n", nil, JobOptions{JobID: "urgent" + strconv.Itoa(i), Priority: 5})
		f.add(f.q, "n", nil, JobOptions{JobID: "later" + strconv.Itoa(i), Delay: 1e17})
	}

	f.must(f.r.SAdd(ctx, "bull:q:stalled", "10", "11", "12").Err())
	f.must(f.r.Del(ctx, "bull:q:10:lock", "bull:q:11:lock", "bull:q:12:lock").Err())
	f.must(f.r.ZAdd(ctx, "bull:q:failed", z(1, "old")).Err())
}

func (*foreign) takeMany(limit string, n int) foreignStep {
	return func(f *foreign) error { return f.call(f.w.scripts.take, f.now, "t", 30_000, "w", limit, "60000", n) }
}

// finishMany ends jobs by the token of fill.
func (*foreign) finishMany(args ...any) foreignStep {
	return func(f *foreign) error {
		return f.call(f.w.scripts.finish, append([]any{5, 0, f.now, "t", 30_000, "w", "", ""}, args...)...)
	}
}

func (*foreign) addOne(o JobOptions) foreignStep {
	return func(f *foreign) error {
		_, err := f.q.Add(f.t.Context(), "n", nil, o)

		return err
	}
}

// steps are those that write to keys of the queue.
func (f *foreign) steps() map[string]foreignStep {
	at := f.now + 1
	steps := map[string]foreignStep{
		"take one":           f.takeMany("", 1),
		"take many":          f.takeMany("", 8),
		"take within limits": f.takeMany("50", 8),
		"finish one alike":   f.finishMany("=", "t", at, "1", 1, "1"),
		"finish alike":       f.finishMany("=", "t", at, "1", 3, "1", "2", "3"),
		"finish one":         f.finishMany("@", "t", at, "-", "2", "1"),
		"finish some":        f.finishMany("@", "t", at, "-", "2", "1", "-", "3", "1", "c 1 9 9 0 0", "4", "1"),
		"fail":               f.finishMany("@", "t", at, "f 5 - - 1 2", "2", "boom", "failedReason", "boom"),
		"retry":              func(f *foreign) error { return f.call(f.w.scripts.retry, "2", f.now, "t", "") },
		"put off": func(f *foreign) error {
			return f.call(f.w.scripts.delay, "2", f.now, "t", 5000, "", "", "", "", "", "")
		},
		"put back":           func(f *foreign) error { return f.call(f.w.scripts.putback, "2", "t", "1") },
		"look for lost ones": func(f *foreign) error { return f.call(f.w.scripts.stalled, f.now, 1000, 1, "") },
		"retry failed ones":  func(f *foreign) error { return f.call(f.w.scripts.requeue, "delayed", "+inf", 10) },
		"promote":            func(f *foreign) error { return f.call(f.w.scripts.promote, "later1") },
		"add":                f.addOne(JobOptions{}),
		"add by an id":       f.addOne(JobOptions{JobID: "own"}),
		"add urgent":         f.addOne(JobOptions{Priority: 1}),
		"add late":           f.addOne(JobOptions{Delay: 1e12}),
		"add unique":         f.addOne(JobOptions{Deduplication: &Deduplication{ID: "d"}}),
		"add lifo":           f.addOne(JobOptions{LIFO: true}),
	}

	eight := []any{"@", "t", at}
	for i := range 8 {
		eight = append(eight, "-", strconv.Itoa(i+1), "1")
	}

	steps["finish eight"] = f.finishMany(eight...)

	return steps
}

// spoil makes the key something else, and answers what brings it back.
func (f *foreign) spoil(key string) (mend func()) {
	f.t.Helper()

	ctx := f.t.Context()
	was, none := f.r.Dump(ctx, key).Result()
	f.must(f.r.Del(ctx, key).Err())

	if slices.Contains([]string{"id", "pc", "limiter"}, strings.TrimPrefix(key, "bull:q:")) {
		f.must(f.r.LPush(ctx, key, "something").Err())
	} else {
		f.must(f.r.Set(ctx, key, "something", 0).Err())
	}

	return func() {
		f.must(f.r.Del(ctx, key).Err())

		if none == nil {
			f.must(f.r.Restore(ctx, key, 0, was).Err())
		}
	}
}

// places answers where each job is that has a hash, and each id that is anywhere.
func (f *foreign) places() map[string][]string {
	f.t.Helper()

	ctx, places := f.t.Context(), map[string][]string{"old": nil}
	f.must(f.r.HSet(ctx, "bull:q:old", "name", "n").Err())

	for _, key := range f.r.Keys(ctx, "bull:q:*").Val() {
		if f.r.HExists(ctx, key, "data").Val() {
			places[strings.TrimPrefix(key, "bull:q:")] = nil
		}
	}

	for _, key := range []string{"wait", "active"} {
		for _, id := range f.r.LRange(ctx, "bull:q:"+key, 0, -1).Val() {
			places[id] = append(places[id], key)
		}
	}

	for _, key := range []string{"prioritized", "delayed", "completed", "failed"} {
		for _, id := range f.r.ZRange(ctx, "bull:q:"+key, 0, -1).Val() {
			places[id] = append(places[id], key)
		}
	}

	return places
}

// written is what a step has written, but for numbers that were given away.
func (f *foreign) written(before dump) string {
	after := f.dump()

	for _, d := range []dump{before, after} {
		for key, v := range d {
			v.ttl = 0
			d[key] = v
		}

		delete(d, "bull:q:id")
	}

	return gocmp.Diff(before, after, gocmp.AllowUnexported(dumped{}))
}

// A key of the queue that holds something else fails what can't do without it, which has written nothing then, and so can be done again
// when the key is mended. All else goes on.
func TestForeignKeys(t *testing.T) {
	t.Parallel()

	f := newForeign(t)
	steps, failed := f.steps(), map[string]bool{}

	for _, name := range slices.Sorted(maps.Keys(steps)) {
		for _, key := range foreignKeys {
			f.fill()

			mend := f.spoil("bull:q:" + key)
			before := f.dump()

			if err := steps[name](f); err != nil {
				failed[key] = true

				if d := f.written(before); d != "" || !errors.Is(err, ErrForeignKey) {
					t.Errorf("%s, %s: %v; written:\n%s", name, key, err, d)
				}
			}

			mend()

			for id, at := range f.places() {
				if len(at) != 1 {
					t.Errorf("%s, %s: job %s is in %q", name, key, id, at)
				}
			}
		}
	}

	for _, key := range foreignKeys {
		if failed[key] == slices.Contains([]string{"marker"}, key) {
			t.Errorf("%s has failed something: %v", key, failed[key])
		}
	}
}

// An id whose key is no job costs nobody else anything: it is thrown away, wherever it is found, and the key stays as it is.
func TestForeignJobs(t *testing.T) {
	t.Parallel()

	for _, limited := range []bool{false, true} {
		f := newForeign(t)
		ctx := t.Context()
		f.fill()

		for _, id := range []string{"10", "13", "20", "urgent1", "later1"} {
			f.must(f.r.Del(ctx, "bull:q:"+id).Err())
			f.must(f.r.LPush(ctx, "bull:q:"+id, "something").Err())
		}

		f.must(f.r.ZAdd(ctx, "bull:q:delayed", z(1, "later0"), z(2, "later1"), z(3, "later2")).Err())
		f.must(f.call(f.w.scripts.stalled, f.now, 1000, 1, ""))

		limit := ""
		if limited {
			limit = "50"
		}

		for range 4 {
			f.must(f.takeMany(limit, 8)(f))
		}

		for key, n := range map[string]int64{"active": 9 + 2 + 10 + 2 + 2, "wait": 0, "prioritized": 0, "delayed": 0} {
			got, err := f.r.LLen(ctx, "bull:q:"+key).Result()
			if err != nil {
				got = f.r.ZCard(ctx, "bull:q:"+key).Val()
			}

			if got != n {
				t.Errorf("limited: %v: %d ids in %s, want %d", limited, got, key, n)
			}
		}

		for _, id := range []string{"10", "13", "20", "urgent1", "later1"} {
			if v := f.r.LRange(ctx, "bull:q:"+id, 0, -1).Val(); !slices.Equal(v, []string{"something"}) {
				t.Errorf("%s holds %q", id, v)
			}
		}
	}
}

// A job that becomes something else while it runs is gone for its worker, which goes on.
func TestForeignWhileItRuns(t *testing.T) {
	t.Parallel()

	for _, alike := range []bool{true, false} {
		f := newForeign(t)
		f.plainJobs(f.q, 3)

		batch := make([]*final, 3)
		for i := range batch {
			batch[i] = f.take(f.w, "t").final(keyCompleted, []byte("1"), nil, nil)
			if !alike {
				batch[i].rule = "-"
			}
		}

		f.must(f.r.Set(t.Context(), "bull:q:2", "something", 0).Err())
		f.must(f.w.exchange.call(batch))

		for i, e := range batch {
			if broken := e.h.job.ID == "2"; (e.err != nil) != broken || broken && !errors.Is(e.err, ErrJobNotFound) {
				t.Errorf("alike: %v: outcome %d: %v", alike, i, e.err)
			}
		}
	}
}

// A parent that can't be told of its child's end keeps the child from ending, and is told once it can.
func TestForeignParents(t *testing.T) {
	t.Parallel()

	for _, test := range []struct{ name, key, target, rule, flags string }{
		{"no job", "bull:p:1", keyCompleted, "-", ""},
		{"no values", "bull:p:1:processed", keyCompleted, "-", ""},
		{"no children", "bull:p:1:dependencies", keyCompleted, "-", ""},
		{"no list", "bull:p:wait", keyCompleted, "-", ""},
		{"no events", "bull:p:events", keyCompleted, "-", ""},
		{"no set of parents", "bull:p:waiting-children", keyCompleted, "-", ""},
		{"no job of the failed", "bull:p:1", keyFailed, "f - - - 1 0", `,"fpof":true`},
		{"no failed children", "bull:p:1:unsuccessful", keyFailed, "f - - - 1 0", `,"fpof":true`},
		{"no reasons", "bull:p:1:failed", keyFailed, "f - - - 1 0", `,"idof":true`},
		{"no list, removed", "bull:p:wait", keyCompleted, "c 0 - - 0 0", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			f := newForeign(t)
			ctx := t.Context()
			f.must(f.r.HSet(ctx, "bull:p:1", "name", "p").Err())
			f.must(f.r.ZAdd(ctx, "bull:p:waiting-children", z(1, "1")).Err())
			f.must(f.r.SAdd(ctx, "bull:p:1:dependencies", "bull:q:1").Err())
			f.plainJobs(f.q, 2)
			f.must(f.r.HSet(ctx, "bull:q:1", "parentKey", "bull:p:1", "parent", `{"id":"1","queueKey":"bull:p"`+test.flags+`}`).Err())

			batch := make([]*final, 2)
			for i := range batch {
				batch[i] = f.take(f.w, "t").final(keyCompleted, []byte("1"), nil, nil)
			}

			child := batch[0]
			child.rule = test.rule
			mend := f.spoil(test.key)
			f.must(f.w.exchange.call(batch))

			if !errors.Is(child.err, ErrForeignKey) || f.r.Get(ctx, "bull:q:1:lock").Val() != "t" || f.r.LLen(ctx, "bull:q:active").Val() != 1 {
				t.Errorf("%v, active %v", child.err, f.r.LRange(ctx, "bull:q:active", 0, -1))
			}

			mend()

			child.err = nil
			f.must(f.w.exchange.call([]*final{child}))
			f.must(child.err)

			if at := f.r.LRange(ctx, "bull:p:wait", 0, -1).Val(); !slices.Equal(at, []string{"1"}) || f.r.LLen(ctx, "bull:q:active").Val() != 0 {
				t.Errorf("the parent's list holds %v", at)
			}
		})
	}
}

// Whatever the keys of some hold, the locks of the others are renewed, and jobs of a claim whose answer was lost are found.
func TestForeignLocks(t *testing.T) {
	t.Parallel()

	f := newForeign(t)
	ctx := t.Context()
	f.plainJobs(f.q, 4)
	f.must(f.takeMany("", 4)(f))

	for _, key := range []string{"1:lock", "2"} {
		f.must(f.r.Del(ctx, "bull:q:"+key).Err())
		f.must(f.r.LPush(ctx, "bull:q:"+key, "something").Err())
	}

	f.must(f.r.Set(ctx, "bull:q:stalled", "something", 0).Err())

	args := []any{testTimeout.Milliseconds()}
	for i := range 4 {
		args = append(args, strconv.Itoa(i+1), "t")
	}

	lost, err := f.w.scripts.extend.run(ctx, f.w.client, f.w.keys, args...)
	if all, _ := lost.([]any); err != nil || len(all) != 1 || all[0] != "1" {
		t.Errorf("lost %v, %v", lost, err)
	}

	for _, id := range []string{"2", "3", "4"} {
		if left := f.r.PTTL(ctx, "bull:q:"+id+":lock").Val(); left < testTimeout/2 {
			t.Errorf("the lock of %s has %v", id, left)
		}
	}

	found, err := newFetcher(f.w).findClaimed(ctx, "t")
	f.must(err)

	if len(found) != 2 || found[0].id != "4" || found[1].id != "3" {
		t.Errorf("found %+v", found)
	}

	f.must(f.r.Del(ctx, "bull:q:stalled").Err())

	h := &hold{job: &Job{ID: "1"}, token: "t", ctx: ctx}
	if err := f.w.runRetry(ctx, h, nil); !errors.Is(err, ErrLockLost) {
		t.Errorf("retry of a job whose lock is something else: %v", err)
	}
}

// A key that only the next take needs does not hide that jobs have ended, nor those that were taken before it was needed.
func TestForeignAfterwards(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		key   string
		taken int
	}{{"wait", 0}, {"prioritized", 2}} {
		f := newForeign(t)
		f.plainJobs(f.q, 5)

		batch := make([]*final, 3)
		for i := range batch {
			h := f.take(f.w, "t")
			h.chained = true
			batch[i] = h.final(keyCompleted, []byte("1"), nil, nil)
		}

		f.spoil("bull:q:" + test.key)
		f.must(f.w.exchange.call(batch))

		taken := 0

		for _, e := range batch {
			if e.err != nil {
				t.Errorf("%s: %v", test.key, e.err)
			}

			if e.h.next != nil {
				taken++
			}
		}

		if done := f.r.ZCard(t.Context(), "bull:q:completed").Val(); done != 3 || taken != test.taken {
			t.Errorf("%s: %d done, %d taken", test.key, done, taken)
		}
	}
}
