package queue

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		{"long active list", func(b *batchWay) {
			for i := range 200 {
				b.must(b.r.LPush(b.t.Context(), "bull:q:active", "other"+strconv.Itoa(i)).Err())
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			var got [2]dump

			var events [2][]string

			for i, whole := range []bool{false, true} {
				b := &batchWay{kit: newKit(t), whole: whole, now: 1_800_000_000_000}
				b.w = b.worker("q")
				test.change(b)
				b.play()

				got[i], events[i] = b.dump(), b.events("bull:q:events")
				for key, d := range got[i] {
					d.ttl = 0
					got[i][key] = d
				}
			}

			if diff := cmp.Diff(got[0], got[1], cmp.AllowUnexported(dumped{})); diff != "" {
				t.Errorf("keys (- singles, + batch):\n%s", diff)
			}

			if diff := cmp.Diff(events[0], events[1]); diff != "" {
				t.Errorf("events (- singles, + batch):\n%s", diff)
			}

			if len(events[0]) < 80 {
				t.Errorf("only %d events", len(events[0]))
			}
		})
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

	run := func(most int, ops ...[]any) (ended int) {
		args := []any{b.points, most, b.now, "t2", 30_000, "w", b.max, "60000"}
		for _, op := range ops { // id, token, now, value, rule, fields
			args = append(args, "@", op[1], op[2], op[4], op[0], op[3])
			args = append(args, op[5:]...)
		}

		reply, err := b.w.scripts.finish.run(b.t.Context(), b.w.client, b.w.keys, args...)
		b.must(err)

		answers, _, err := parseFinished(reply, len(ops))
		b.must(err)

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
