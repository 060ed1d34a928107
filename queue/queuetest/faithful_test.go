package queuetest_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/queue/queuetest"
)

// scene is a piece of a queue's life whose traces in Redis have to be the same in memory and on a real server. Nothing runs
// beside it, so that both runs do the same steps.
type scene struct {
	name string
	play func(*stage)
}

// stage is where a scene is played.
type stage struct {
	t *testing.T
	q *queue.Queue
	f *queue.Flows
	p *queue.Puller
}

func (s *stage) must(err error) {
	s.t.Helper()

	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) add(name string, data any, o queue.JobOptions) string {
	s.t.Helper()
	s.tick()

	added, err := s.q.Add(s.t.Context(), name, data, o)
	s.must(err)

	return added.ID
}

// tick gives each step a millisecond of its own, so that what is sorted by time has one order.
func (*stage) tick() { <-time.After(2 * time.Millisecond) }

// next takes a job.
func (s *stage) next() *queue.Claim {
	s.t.Helper()
	s.tick()

	c, err := s.p.Next(s.t.Context(), false)
	s.must(err)

	if c == nil {
		s.t.Fatal("no job")
	}

	return c
}

func (s *stage) nothing() {
	s.t.Helper()

	c, err := s.p.Next(s.t.Context(), false)
	s.must(err)

	if c != nil {
		s.t.Fatalf("took job %s, want none", c.Job.ID)
	}
}

func scenes() []scene {
	return []scene{
		{"add", playAdd},
		{"bulk", playBulk},
		{"order", playOrder},
		{"outcomes", playOutcomes},
		{"retries", playRetries},
		{"deduplication", playDeduplication},
		{"flow", playFlow},
		{"failed child", playFailedChild},
		{"schedulers", playSchedulers(farPattern(time.Now()))},
		{"keep", playKeep},
		{"limiter", playLimiter},
		{"steering", playSteering},
		{"metrics", playMetrics},
		{"progress and log", playProgress},
		{"large", playLarge},
	}
}

func playAdd(s *stage) {
	s.add("plain", nil, queue.JobOptions{})
	s.add("own id", map[string]any{"ä": []int{1, 2}, "half": 0.5, "big": 1e21}, queue.JobOptions{JobID: "own"})
	s.add("again", nil, queue.JobOptions{JobID: "own"})
	s.add("late", nil, queue.JobOptions{Delay: time.Hour, Priority: 3})
	s.add("late", nil, queue.JobOptions{Delay: time.Hour})
	s.add("first", "text", queue.JobOptions{LIFO: true, Attempts: 3, Backoff: &queue.Backoff{Type: "exponential", Delay: time.Second, Jitter: 0.5}})
	s.add("important", nil, queue.JobOptions{Priority: 7, KeepLogs: 4, RemoveOnFail: &queue.Keep{Age: time.Hour, Count: 3}})
	s.add("unimportant", nil, queue.JobOptions{Priority: queue.MaxPriority, RemoveOnComplete: &queue.Keep{Now: true}})
}

func playBulk(s *stage) {
	jobs := make([]queue.NewJob, 1100) // more than one round trip
	for i := range jobs {
		jobs[i] = queue.NewJob{Name: "n", Data: i, Opts: queue.JobOptions{Priority: i % 3}}
	}

	_, err := s.q.AddBulk(s.t.Context(), jobs)
	s.must(err)

	for range 5 {
		s.next().Finish("done")
	}
}

func playOrder(s *stage) {
	s.add("a", nil, queue.JobOptions{})
	s.add("b", nil, queue.JobOptions{Priority: 2})
	s.add("c", nil, queue.JobOptions{Priority: 1})
	s.add("d", nil, queue.JobOptions{LIFO: true})

	for range 4 {
		s.next().Finish(map[string]any{"ok": true})
	}

	s.nothing()
}

func playOutcomes(s *stage) {
	for i := range 8 {
		s.add(fmt.Sprint("job", i), nil, queue.JobOptions{Attempts: 2})
	}

	s.next().Finish(nil)
	s.next().Fail(errors.New("once\nmore"))
	s.next().Fail(queue.Unrecoverable(errors.New("never")))
	s.next().Fail(queue.DelayFor(time.Hour, errors.New("later")))
	s.next().Fail(queue.PutBack(errors.New("not me")))
	s.next().Finish("the one that was put back")
	s.next().Fail(queue.RateLimitFor(time.Hour, errors.New("too fast")))
}

func playRetries(s *stage) {
	s.add("fixed", nil, queue.JobOptions{Attempts: 3, Backoff: &queue.Backoff{Type: "fixed", Delay: time.Hour}})
	s.add("at once", nil, queue.JobOptions{Attempts: 2})
	s.next().Fail(errors.New("1"))
	s.next().Fail(errors.New("2"))
	s.next().Fail(errors.New("3"))
	s.must(s.q.Promote(s.t.Context(), "1"))
	s.next().Finish(1)

	_, err := s.q.RetryAll(s.t.Context(), queue.StateFailed, time.Time{})
	s.must(err)
}

func playDeduplication(s *stage) {
	keep := &queue.Deduplication{ID: "d", KeepLastIfActive: true}
	s.add("a", 1, queue.JobOptions{Deduplication: keep})
	c := s.next()
	s.add("a", 2, queue.JobOptions{Deduplication: keep})
	s.add("a", 3, queue.JobOptions{Deduplication: keep, Priority: 4})
	c.Finish(nil)

	s.add("b", 1, queue.JobOptions{Delay: time.Hour, Deduplication: &queue.Deduplication{ID: "e", TTL: time.Hour, Replace: true}})
	s.add("b", 2, queue.JobOptions{Delay: time.Hour, Deduplication: &queue.Deduplication{ID: "e", TTL: time.Hour, Replace: true}})
	s.add("c", 1, queue.JobOptions{Deduplication: &queue.Deduplication{ID: "f", TTL: time.Hour, Extend: true}})
	s.add("c", 2, queue.JobOptions{Deduplication: &queue.Deduplication{ID: "f", TTL: 2 * time.Hour, Extend: true}})
}

func playFlow(s *stage) {
	_, err := s.f.Add(s.t.Context(), queue.FlowJob{
		Queue: "scene", Name: "parent", Opts: queue.JobOptions{JobID: "parent"}, Children: []queue.FlowJob{
			{Queue: "scene", Name: "child", Opts: queue.JobOptions{JobID: "one"}},
			{Queue: "scene", Name: "child", Opts: queue.JobOptions{JobID: "two", IgnoreDependencyOnFailure: true}},
			{Queue: "other", Name: "child", Opts: queue.JobOptions{JobID: "three"}},
		},
	})
	s.must(err)
	s.next().Finish("of one")
	s.next().Fail(errors.New("of two"))
	s.must(s.q.Remove(s.t.Context(), "one"))
}

func playFailedChild(s *stage) {
	_, err := s.f.Add(s.t.Context(), queue.FlowJob{
		Queue: "scene", Name: "parent", Opts: queue.JobOptions{JobID: "parent"}, Children: []queue.FlowJob{
			{Queue: "scene", Name: "child", Opts: queue.JobOptions{JobID: "one", FailParentOnFailure: true}},
		},
	})
	s.must(err)
	s.next().Fail(errors.New("broken"))
	s.nothing() // the parent is failed by who takes it
}

// farPattern is a pattern whose next moment is months away at the real time and at that of the bubble, a first of January: moment tells
// what is that far alike.
func farPattern(now time.Time) string { return fmt.Sprintf("0 0 1 %d *", (now.UTC().Month()+5)%12+1) }

func playSchedulers(pattern string) func(s *stage) {
	return func(s *stage) {
		ctx := s.t.Context()

		_, err := s.q.UpsertScheduler(ctx, "yearly", queue.Repeat{Pattern: pattern, TZ: "Europe/Berlin"}, queue.NewJob{Data: 1})
		s.must(err)
		_, err = s.q.UpsertScheduler(ctx, "now", queue.Repeat{Every: 24 * time.Hour, Limit: 3}, queue.NewJob{Name: "tick"})
		s.must(err)
		s.next().Finish(nil)
		_, err = s.q.RemoveScheduler(ctx, "yearly")
		s.must(err)
	}
}

func playKeep(s *stage) {
	for range 6 {
		s.add("n", nil, queue.JobOptions{RemoveOnComplete: &queue.Keep{Count: 2}})
	}

	for range 5 {
		s.next().Finish(nil)
	}
}

func playLimiter(s *stage) {
	s.must(s.q.SetGlobalRateLimit(s.t.Context(), queue.Limiter{Max: 2, Duration: time.Hour}))
	s.must(s.q.SetGlobalConcurrency(s.t.Context(), 5))

	for range 3 {
		s.add("n", nil, queue.JobOptions{})
	}

	s.next()
	s.next()
	s.nothing()
}

func playSteering(s *stage) {
	ctx := s.t.Context()
	s.add("a", nil, queue.JobOptions{})
	s.add("b", nil, queue.JobOptions{})
	s.add("c", nil, queue.JobOptions{Delay: time.Hour})
	s.must(s.q.Pause(ctx))
	s.nothing()
	s.must(s.q.ChangePriority(ctx, "1", 5, false))
	s.must(s.q.ChangeDelay(ctx, "3", 2*time.Hour))
	s.must(s.q.UpdateData(ctx, "2", []string{"x"}))
	s.must(s.q.Resume(ctx))
	s.next().Finish(nil)

	_, err := s.q.Clean(ctx, 0, 10, queue.StateCompleted)
	s.must(err)
	_, err = s.q.Drain(ctx, true)
	s.must(err)
}

func playMetrics(s *stage) {
	// The numbers of each minute are kept apart.
	if now := time.Now(); now.Second() >= 50 {
		<-time.After(now.Truncate(time.Minute).Add(time.Minute).Sub(now))
	}

	for range 3 {
		s.add("n", nil, queue.JobOptions{})
	}

	s.next().Finish(nil)
	s.next().Finish(nil)
	s.next().Fail(errors.New("no"))
}

func playProgress(s *stage) {
	s.add("n", nil, queue.JobOptions{KeepLogs: 2})
	c := s.next()
	s.must(c.Job.UpdateProgress(s.t.Context(), map[string]any{"done": 0.25}))

	for i := range 4 {
		s.must(c.Job.Log(s.t.Context(), fmt.Sprint("row ", i)))
	}

	s.must(c.Extend(s.t.Context()))
	c.Finish(nil)
}

func playLarge(s *stage) {
	s.add("n", strings.Repeat("\x00\r\n\"ü", 10_000), queue.JobOptions{})
	s.next().Finish(strings.Repeat("y", 10_000))
}

// TestFaithful plays the scenes in memory and on a real server.
func TestFaithful(t *testing.T) {
	t.Parallel()

	srv := redistest.Start(t)
	raw := srv.Client()

	for _, sc := range scenes() { // one after the other: each has the server to itself
		t.Run(sc.name, func(t *testing.T) {
			var memory string

			synctest.Test(t, func(t *testing.T) {
				queuetest.Advance(time.Second) // the bubble's clock starts at a round second, which no real clock does
				r := queuetest.New(t)
				memory = traces(t, sc, r.Options("scene"), r.FlowOptions(), r.Client())
			})

			if err := raw.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}

			truth := traces(t, sc, queue.Options{RedisURL: srv.URL, Name: "scene"}, queue.FlowOptions{RedisURL: srv.URL}, raw)
			if diff := cmp.Diff(strings.Split(truth, "\n"), strings.Split(memory, "\n")); diff != "" {
				t.Errorf("redis-server (-) and queuetest (+) differ:\n%s", diff)
			}
		})
	}
}

// traces plays a scene and dumps what it has left behind.
func traces(t *testing.T, sc scene, o queue.Options, fo queue.FlowOptions, raw *redis.Client) string {
	t.Helper()

	wo := queue.DefaultWorkerOptions()
	wo.Options, wo.WorkerName, wo.MetricsPoints = o, "w", 5

	s := &stage{t: t}

	var err error

	s.q, err = queue.NewQueue(o)
	s.must(err)
	s.f, err = queue.NewFlows(fo)
	s.must(err)
	s.p, err = queue.NewPuller(wo)
	s.must(err)

	defer func() { s.must(errors.Join(s.q.Close(), s.f.Close(), s.p.Close())) }()

	began := time.Now().UnixMilli()
	sc.play(s)

	text, err := queuetest.DumpOf(context.WithoutCancel(t.Context()), raw)
	s.must(err)

	return normal(text, began)
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	numbers = regexp.MustCompile(`\b[0-9]{10,17}(\.[0-9]+)?\b`)
	left    = regexp.MustCompile(`  [0-9hms.]+ left`)
	entryID = regexp.MustCompile(`(?m)^    [0-9]+-[0-9]+  `)
	offsets = regexp.MustCompile(`offset = [0-9]+`)
	delays  = regexp.MustCompile(`(delay = |"delay":)([0-9]+)`)
	stacks  = regexp.MustCompile(`(?m)stacktrace = .*$`)
)

// normal replaces what differs between two runs of the same scene: the time, and texts made by chance.
func normal(text string, began int64) string {
	text = uuids.ReplaceAllString(text, "<uuid>")
	text = entryID.ReplaceAllString(text, "    <id>  ")
	text = left.ReplaceAllString(text, "  <left>")
	text = offsets.ReplaceAllString(text, "offset = <offset>") // of the first moment
	text = delays.ReplaceAllStringFunc(text, roundDelay)
	text = stacks.ReplaceAllString(text, "stacktrace = <stack>")

	return numbers.ReplaceAllStringFunc(text, func(s string) string { return moment(s, began) })
}

// roundDelay rounds a delay that was counted from now to a fixed moment.
func roundDelay(s string) string {
	at := strings.IndexAny(s, "0123456789")

	n, err := strconv.ParseInt(s[at:], 10, 64)
	if err != nil {
		return s
	}

	return s[:at] + strconv.FormatInt((n+30_000)/60_000*60_000, 10)
}

// moment writes a long number by what it means: a time, a place in the delayed jobs, or one among the prioritized ones.
func moment(s string, began int64) string {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}

	const (
		priority = 1 << 32
		delayed  = 4096
		step     = 10_000
		soon     = 10 * 24 * 3600 * 1000
	)

	n := int64(f)

	for _, unit := range []int64{1, delayed} {
		if since := n/unit - began; since >= 0 && since < soon {
			return fmt.Sprintf("<now+%ds>*%d", since/step*step/1000, unit)
		}
	}

	if n >= priority && n%priority < 1_000_000 {
		return fmt.Sprintf("<%d*2^32+%d>", n/priority, n%priority)
	}

	return "<far>"
}
