package queuetest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/queue"
)

// serverName and url name the server in memory. It is an address so that nobody looks a name up, which no bubble allows.
const (
	serverName = "127.0.0.1:6379"
	url        = "redis://" + serverName
)

// settleTime bounds how long Go waits at the test's end.
const settleTime = time.Minute

// Redis is a Redis server in memory. It is safe for concurrent use.
type Redis struct {
	srv    *server
	client *redis.Client
	once   sync.Once
}

// New makes a Redis that ends with the test. Inside of a bubble give it the bubble's t.
func New(t testing.TB) *Redis {
	t.Helper()

	r, err := Start()
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(r.Close)

	return r
}

// Start makes a Redis that lives until Close, for examples and demonstrations.
func Start() (*Redis, error) {
	s, err := newServer()
	if err != nil {
		return nil, fmt.Errorf("queuetest: %w", err)
	}

	return &Redis{srv: s, client: redis.NewClient(&redis.Options{
		Addr: serverName, Dialer: s.dial, PoolSize: 1000, MaxIdleConns: 4, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true,
	})}, nil
}

// Close ends all connections and waits until the server's goroutines are gone. Further calls do nothing.
func (r *Redis) Close() {
	r.once.Do(func() {
		_ = r.client.Close() // connections in memory
		r.srv.close()
	})
}

// Options are those of a queue on this Redis.
func (r *Redis) Options(name string) queue.Options {
	return queue.Options{RedisURL: url, Name: name, Dialer: r.srv.dial}
}

// WorkerOptions are queue.DefaultWorkerOptions on this Redis.
func (r *Redis) WorkerOptions(name string) queue.WorkerOptions {
	o := queue.DefaultWorkerOptions()
	o.RedisURL, o.Name, o.Dialer = url, name, r.srv.dial

	return o
}

// FlowOptions are those of flows on this Redis.
func (r *Redis) FlowOptions() queue.FlowOptions {
	return queue.FlowOptions{RedisURL: url, Dialer: r.srv.dial}
}

// Client is a client of the server, for what the package queue has no call for. It is closed with the server.
func (r *Redis) Client() *redis.Client { return r.client }

// Down ends all connections and refuses new ones until Up, as a server does that restarts. Its data stays.
func (r *Redis) Down() { r.srv.setDown(true) }

// Up ends Down.
func (r *Redis) Up() { r.srv.setDown(false) }

// Commands is how many commands have come in so far, those of scripts not counted.
func (r *Redis) Commands() int64 { return r.srv.commands.Load() }

// Queue opens a queue that is closed with the test.
func (r *Redis) Queue(t testing.TB, name string) *queue.Queue {
	t.Helper()

	q, err := queue.NewQueue(r.Options(name))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = q.Close() }) // a second Close is no fault

	return q
}

// Flows opens flows that are closed with the test.
func (r *Redis) Flows(t testing.TB) *queue.Flows {
	t.Helper()

	f, err := queue.NewFlows(r.FlowOptions())
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = f.Close() }) // a second Close is no fault

	return f
}

// Work runs a worker until the test ends, or until it is drained. What it logs at level warn and above is in the test's log, unless o
// has a Logger.
func (r *Redis) Work(t testing.TB, o queue.WorkerOptions, h queue.Handler) *queue.Worker {
	t.Helper()

	if o.Logger == nil {
		o.Logger = testLogger(t)
	}

	w, err := queue.NewWorker(o, h)
	if err != nil {
		t.Fatal(err)
	}

	r.Go(t, w.Run)

	return w
}

// Go runs something until the test ends – the Run of a worker, of events or results, a loop of the test's own – and waits for it then. A
// run that goes on for a minute after its context has ended is a failure.
func (*Redis) Go(t testing.TB, run func(context.Context) error) {
	t.Helper()

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})

	go func() { // ends with the test: see Cleanup
		defer close(ended)

		_ = run(ctx) // the end of ctx; whoever wants to know of another error looks in run
	}()

	t.Cleanup(func() {
		cancel()

		limit := time.NewTimer(settleTime)
		defer limit.Stop()

		select {
		case <-ended:
		case <-limit.C:
			t.Errorf("queuetest: what the test runs did not end within %v of the end of its context", settleTime)
		}
	})
}

// Advance lets d pass in the bubble and returns when all that is due by then has been done. It costs no time, but the work that falls
// into it. Outside of a bubble there is no clock to be moved, and it panics.
func Advance(d time.Duration) {
	synctest.Wait()
	time.Sleep(d) //nolint:forbidigo // the bubble's time, which costs none
	synctest.Wait()
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(&testWriter{t: t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type testWriter struct{ t testing.TB }

// Write implements io.Writer.
func (w *testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil { // afterwards the test has no log
		w.t.Log(string(p[:len(p)-1]))
	}

	return len(p), nil
}
