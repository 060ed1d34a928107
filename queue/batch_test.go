package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
)

// batchWay is one of two ways to the same end: all in one call, or each finish and each take by a call of its own.
type batchWay struct {
	*kit
	w      *Worker
	whole  bool
	max    string // of the limiter
	points int    // of metrics
	now    int64
}

// compare does the same both ways.
func compareWays(t *testing.T, events int, play func(*batchWay)) {
	t.Helper()

	var got [2]dump

	var told [2][]string

	for i, whole := range []bool{false, true} {
		b := &batchWay{kit: newKit(t), whole: whole, now: 1_800_000_000_000}
		b.w = b.worker("q")
		play(b)

		got[i], told[i] = b.dump(), b.events("bull:q:events")
		for key, d := range got[i] {
			d.ttl = 0
			got[i][key] = d
		}
	}

	if diff := gocmp.Diff(got[0], got[1], gocmp.AllowUnexported(dumped{})); diff != "" {
		t.Errorf("keys (- singles, + batch):\n%s", diff)
	}

	if diff := gocmp.Diff(told[0], told[1]); diff != "" {
		t.Errorf("events (- singles, + batch):\n%s", diff)
	}

	if len(told[0]) < events {
		t.Errorf("only %d events", len(told[0]))
	}
}

// Many finishes and takes in one call leave the same bytes and the same events as one after the other.
func TestBatchEqualsSingles(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		name   string
		change func(*batchWay)
	}{
		{"plain", func(*batchWay) {}},
		{"metrics", func(b *batchWay) { b.points = 5 }},
		{"rate limit", func(b *batchWay) { b.max = "17" }},
		{"global concurrency", func(b *batchWay) { b.must(b.r.HSet(b.t.Context(), "bull:q:meta", "concurrency", 20).Err()) }},
		{"long active list", func(b *batchWay) { b.others(b.r.LPush, 200) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			compareWays(t, 80, func(b *batchWay) {
				test.change(b)
				b.play()
			})
		})
	}
}

// Jobs that end in the common way do so in one go, unless something is special about one of them.
func TestAlikeEqualsSingles(t *testing.T) {
	t.Parallel()

	const key = "bull:q:j5" // one that is about to end

	for _, test := range []struct {
		name   string
		change func(*batchWay)
	}{
		{"as taken", func(*batchWay) {}},
		{"metrics", func(b *batchWay) { b.points = 5 }},
		{"no events yet", func(b *batchWay) { b.must(b.r.Del(b.t.Context(), "bull:q:events").Err()) }},
		{"not the oldest", func(b *batchWay) { b.must(b.r.RPush(b.t.Context(), "bull:q:active", "old", "older").Err()) }},
		{"deep in a long list", func(b *batchWay) { b.others(b.r.RPush, 200) }},
		{"active twice", func(b *batchWay) { b.must(b.r.LPush(b.t.Context(), "bull:q:active", "j5").Err()) }},
		{"not active", func(b *batchWay) { b.must(b.r.LRem(b.t.Context(), "bull:q:active", 0, "j5").Err()) }},
		{"no lock", func(b *batchWay) { b.must(b.r.Del(b.t.Context(), key+":lock").Err()) }},
		{"another's lock", func(b *batchWay) { b.must(b.r.Set(b.t.Context(), key+":lock", "x", 0).Err()) }},
		{"no such job", func(b *batchWay) { b.must(b.r.Del(b.t.Context(), key).Err()) }},
		{"no hash", func(b *batchWay) {
			b.must(b.r.Del(b.t.Context(), key).Err())
			b.must(b.r.Set(b.t.Context(), key, "x", 0).Err())
		}},
		{"pending child", func(b *batchWay) { b.must(b.r.SAdd(b.t.Context(), key+":dependencies", "bull:q:c").Err()) }},
		{"failed child", func(b *batchWay) { b.must(b.r.ZAdd(b.t.Context(), key+":unsuccessful", z(1, "bull:q:c")).Err()) }},
		{"adopted", func(b *batchWay) {
			b.must(b.r.HSet(b.t.Context(), "bull:q:p", "name", "p").Err())
			b.must(b.r.SAdd(b.t.Context(), "bull:q:p:dependencies", key).Err())
			b.must(b.r.HSet(b.t.Context(), key, "parentKey", "bull:q:p", "parent", `{"id":"p","queueKey":"bull:q"}`).Err())
		}},
		{"progress", func(b *batchWay) { b.must(b.r.HSet(b.t.Context(), key, "progress", "5").Err()) }},
		{"stalled", func(b *batchWay) { b.must(b.r.SAdd(b.t.Context(), "bull:q:stalled", "j4", "j5", "x").Err()) }},
	} {
		for order, step := range map[string]int{"as taken": 1, "in any order": 5} {
			t.Run(test.name+", "+order, func(t *testing.T) {
				t.Parallel()
				compareWays(t, 20, func(b *batchWay) {
					b.playAlike(test.change, step)
				})
			})
		}
	}
}

// playAlike ends 12 of 24 jobs, of which nothing is known but what the change does.
func (b *batchWay) playAlike(change func(*batchWay), step int) {
	b.t.Helper()

	q := b.queue("q")
	for i := range 40 {
		b.add(q, "n", i, JobOptions{JobID: "j" + strconv.Itoa(i), Timestamp: time.UnixMilli(b.now)})
	}

	b.take("t", 24)
	change(b)

	ops := make([][]any, 12)
	for i := range ops {
		value := []string{"null", "7"}[i/6]
		ops[i] = []any{"j" + strconv.Itoa(i*step%len(ops)), "t", b.now + int64(i/4), value, ""}
	}

	b.finish(ops)
}

// others makes n jobs active that are not of the queue.
func (b *batchWay) others(push func(context.Context, string, ...any) *redis.IntCmd, n int) {
	b.t.Helper()

	for i := range n {
		b.must(push(b.t.Context(), "bull:q:active", "other"+strconv.Itoa(i)).Err())
	}
}

// play works on a queue with jobs of all kinds.
func (b *batchWay) play() {
	b.t.Helper()

	b.fill()
	b.take("t", 16)

	ids := b.r.LRange(b.t.Context(), "bull:q:active", 0, 15).Val() // the newest first
	ops := make([][]any, 0, len(ids))

	for i, id := range ids {
		op := []any{id, "t", b.now + int64(i), `"r` + id + `"`, ""}

		switch i {
		case 2:
			op[4] = "c 0 - - 0 0"
		case 4:
			op[3], op[4] = "boom", "f - - - 0 2"
			op = append(op, "failedReason", "boom")
		case 5:
			op[1] = "another's"
		case 7:
			op[4] = "c 3 - - 0 0"
		case 9:
			op[3], op[4] = "bang", "f 1 - - 3 0"
		}

		ops = append(ops, op)
	}

	ops = append(ops, []any{"absent", "t", b.now, "1", ""})
	b.must(b.r.SAdd(b.t.Context(), "bull:q:"+ids[3]+":dependencies", "bull:q:x").Err())
	b.must(b.r.Del(b.t.Context(), "bull:q:"+ids[6]+":lock").Err())
	b.must(b.r.LRem(b.t.Context(), "bull:q:active", 1, ids[8]).Err())
	b.finish(ops)
}

func (b *batchWay) fill() {
	b.t.Helper()

	q, at := b.queue("q"), time.UnixMilli(b.now)
	add := func(o JobOptions) {
		o.Timestamp = at
		b.add(q, "n", nil, o)
	}

	add(JobOptions{JobID: "parent", Delay: time.Hour})

	for i := range 40 {
		o := JobOptions{JobID: fmt.Sprintf("j%d", i)}

		switch i % 10 {
		case 1:
			o.Priority = 3
		case 3:
			o.Deduplication = &Deduplication{ID: o.JobID}
		case 5:
			o.Parent = &ParentRef{ID: "parent", Queue: "bull:q"}
		case 6:
			o.LIFO = true
		case 7:
			o.Parent, o.FailParentOnFailure = &ParentRef{ID: "parent", Queue: "bull:q"}, true
		case 8:
			o.Attempts = 2
		}

		add(o)
	}

	for _, id := range []string{"0:0", "ghost"} { // a marker of old majors and an id without a hash, to be taken early
		b.must(b.r.RPush(b.t.Context(), "bull:q:wait", id).Err())
	}
}

func (b *batchWay) take(token string, n int) {
	b.t.Helper()

	calls, most := n, 1
	if b.whole {
		calls, most = 1, n
	}

	for range calls {
		_, err := b.w.scripts.take.run(b.t.Context(), b.w.claims, b.w.keys, b.now, token, 30_000, "w", b.max, "60000", most)
		b.must(err)
	}
}

// finish ends the jobs and takes as many as have ended.
func (b *batchWay) finish(ops [][]any) {
	b.t.Helper()

	slices.SortStableFunc(ops, func(x, y []any) int { return cmp.Compare(min(len(x[4].(string)), 1), min(len(y[4].(string)), 1)) })

	run := func(most int, ops ...[]any) (ended int) {
		batch := make([]*final, len(ops))

		for i, op := range ops { // id, token, now, value, rule, fields
			batch[i] = &final{
				h: &hold{job: &Job{ID: op[0].(string)}, token: op[1].(string)}, now: op[2].(int64), value: []byte(op[3].(string)),
				rule: op[4].(string), fields: op[5:],
			}
			if !b.whole {
				batch[i].rule = cmp.Or(batch[i].rule, "-") // the same without the short cut
			}
		}

		args := []any{b.points, most, b.now, "t2", 30_000, "w", b.max, "60000"}
		args = appendFinals(args, batch)

		reply, err := b.w.scripts.finish.run(b.t.Context(), b.w.client, b.w.keys, args...)
		if !b.whole && err != nil && strings.Contains(err.Error(), "WRONGTYPE") {
			return 0
		}

		b.must(err)

		answers, _, err := parseFinished(reply, len(ops))
		b.must(err)

		if len(answers) == 0 {
			return len(ops)
		}

		for _, a := range answers {
			if a == int64(0) {
				ended++
			}
		}

		return ended
	}

	if b.whole {
		if n := run(len(ops), ops...); n < 8 {
			b.t.Errorf("%d jobs ended", n)
		}

		return
	}

	ended := 0
	for _, op := range ops {
		ended += run(0, op)
	}

	b.take("t2", ended)
}
