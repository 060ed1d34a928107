package queue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/redistest"
)

// testTimeout is for what takes milliseconds on an idle machine, and may take a while where everything waits for a core.
const testTimeout = 2 * time.Minute

// soon is how long something may take that happens at once when it works, and else never. Where it would happen all the same when a wait
// ends, that wait has the longest time there is, and justBefore is the limit.
const (
	soon       = 30 * time.Second
	longSleep  = 10 * time.Second
	justBefore = 9 * time.Second
)

// kit is one test's Redis with queues on it.
type kit struct {
	t   *testing.T
	srv *redistest.Server
	r   *redis.Client
	url string
}

// newKit starts a Redis of the test's own.
func newKit(t *testing.T, args ...string) *kit {
	t.Helper()

	srv := redistest.Start(t, args...)

	return &kit{t: t, srv: srv, r: srv.Client(), url: srv.URL}
}

func (k *kit) options(name string) Options {
	return Options{RedisURL: k.url, Name: name, Logger: testLogger(k.t)}
}

func (k *kit) queue(name string) *Queue {
	k.t.Helper()

	q, err := NewQueue(k.options(name))
	if err != nil {
		k.t.Fatal(err)
	}

	k.t.Cleanup(func() { _ = q.Close() }) // a second Close is no fault

	return q
}

func (k *kit) workerOptions(name string) WorkerOptions {
	o := DefaultWorkerOptions()
	o.Options = k.options(name)

	return o
}

// worker makes a worker that is not run: the test calls its steps.
func (k *kit) worker(name string, change ...func(*WorkerOptions)) *Worker {
	k.t.Helper()

	o := k.workerOptions(name)
	for _, c := range change {
		c(&o)
	}

	w, err := NewWorker(o, func(context.Context, *Job) (any, error) { return nil, nil })
	if err != nil {
		k.t.Fatal(err)
	}

	k.t.Cleanup(w.disconnect)

	return w
}

// run runs a worker until the test's end or the returned stop, which waits for it.
func (k *kit) run(o WorkerOptions, h Handler) (w *Worker, stop func()) {
	k.t.Helper()

	w, err := NewWorker(o, h)
	if err != nil {
		k.t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())

	var wg sync.WaitGroup

	wg.Go(func() { _ = w.Run(ctx) })

	stop = func() {
		w.Drain()
		cancel()
		wg.Wait()
	}
	k.t.Cleanup(stop)

	return w, stop
}

func (k *kit) add(q *Queue, name string, data any, o JobOptions) string {
	k.t.Helper()

	added, err := q.Add(k.t.Context(), name, data, o)
	if err != nil {
		k.t.Fatal(err)
	}

	return added.ID
}

// take takes the next job under the token; nil if there is none.
func (k *kit) take(w *Worker, token string) *hold {
	k.t.Helper()

	reply, err := newFetcher(w).take(k.t.Context(), token, 1)
	if err != nil {
		k.t.Fatal(err)
	}

	if len(reply.jobs) == 0 {
		return nil
	}

	h, err := w.holdTaken(context.Background(), &reply.jobs[0], token, time.Now())
	k.t.Cleanup(func() { w.held.drop(h) })
	k.must(err)

	return h
}

func (k *kit) must(err error) {
	k.t.Helper()

	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) expect(got, want Outcome) {
	k.t.Helper()

	if got != want {
		k.t.Fatalf("outcome %q, want %q", got, want)
	}
}

// testLogger writes to the test's log until the test is over.
func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(&testWriter{t: t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

type testWriter struct{ t *testing.T }

// Write implements io.Writer.
func (w *testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimSuffix(string(p), "\n"))
	}

	return len(p), nil
}

// dump is the whole key space but for the event streams, in a form that golden files have too.
type dump map[string]dumped

type dumped struct {
	kind  string
	value any // string, []string, map[string]string or map[string]float64
	ttl   time.Duration
}

func (k *kit) dump() dump {
	k.t.Helper()

	ctx := k.t.Context()

	names, err := k.r.Keys(ctx, "*").Result()
	k.must(err)

	all := dump{}

	for _, key := range names {
		kind := k.r.Type(ctx, key).Val()
		d := dumped{kind: kind, ttl: max(k.r.PTTL(ctx, key).Val(), 0)}

		switch kind {
		case "string":
			d.value = k.r.Get(ctx, key).Val()
		case "hash":
			d.value = k.r.HGetAll(ctx, key).Val()
		case "list":
			d.value = k.r.LRange(ctx, key, 0, -1).Val()
		case "set":
			members := k.r.SMembers(ctx, key).Val()
			slices.Sort(members)
			d.value = members
		case "zset":
			scores := map[string]float64{}
			for _, z := range k.r.ZRangeWithScores(ctx, key, 0, -1).Val() {
				scores[fmt.Sprint(z.Member)] = z.Score
			}

			d.value = scores
		case "stream":
			continue
		}

		all[key] = d
	}

	return all
}

// events are a queue's events, written like those of the golden files.
func (k *kit) events(key string) []string {
	k.t.Helper()

	raw, err := k.r.Do(k.t.Context(), "XRANGE", key, "-", "+").Slice()
	k.must(err)

	var lines []string

	for _, entry := range raw {
		parts := entry.([]any)
		fields := parts[1].([]any)

		var line []string
		for i := 0; i < len(fields); i += 2 {
			line = append(line, fmt.Sprintf("%v=%v", fields[i], fields[i+1]))
		}

		lines = append(lines, strings.Join(line, " | "))
	}

	return lines
}
