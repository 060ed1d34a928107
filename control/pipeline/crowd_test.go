package pipeline_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// crowd is many analyses at once on control planes that share a Postgres.
type crowd struct {
	server   *pgtest.Server
	database string
	queue    string
	customer *customer
	planes   []*plane
	players  []*player
}

// plane is one control plane, a process of its own.
type plane struct {
	url  string
	env  []string
	proc *child.Process
}

// takeover is how long a control plane of these tests must be gone before another one goes on with its runs.
const takeover = 1500 * time.Millisecond

var awayTime = 10 * time.Second // XXX
func init() {
	if os.Getenv("NOAWAY") != "" {
		awayTime = 0
	}
}

// crowdLimit is what a test of a crowd may take at most on a machine that does much else.
const crowdLimit = 100 * time.Second

// gather starts the control planes.
func gather(t *testing.T, server *pgtest.Server, redis *redistest.Server, planes, analyses int) *crowd {
	t.Helper()
	c := &crowd{server: server, database: server.Database(), customer: newCustomer()}
	c.queue = "q" + strings.ToLower(rand.Text()[:8])
	receiver := httptest.NewServer(c.customer)
	t.Cleanup(receiver.Close)
	secret := webhook.Generate()
	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		t.Fatal(err)
	}
	env := []string{
		childVar + "=1", "PATH=" + os.Getenv("PATH"), "POSEFLEET_WORKER_SECRET=" + secret, "POSEFLEET_REDIS_URL=" + redis.URL,
		"POSEFLEET_DATABASE_URL=" + c.database, "POSEFLEET_STORAGE_URL=file:" + t.TempDir(), "POSEFLEET_NOTICE_URL=" + receiver.URL,
		"POSEFLEET_NOTICE_SECRET=" + secret, "POSEFLEET_QUEUE=" + c.queue, fmt.Sprintf("%s=%d", goneVar, takeover.Milliseconds()),
	}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		env = append(env, "GOCOVERDIR="+dir)
	}
	for range planes {
		port, err := freeport.Find()
		if err != nil {
			t.Fatal(err)
		}
		c.planes = append(c.planes, &plane{
			url: fmt.Sprintf("http://127.0.0.1:%d", port), env: append(slices.Clone(env), fmt.Sprintf("POSEFLEET_LISTEN=127.0.0.1:%d", port)),
		})
	}
	for i := range analyses {
		c.players = append(c.players, &player{
			id: fmt.Sprintf("an_%d", i), queue: c.queue, redis: redis, signer: webhook.NewSigner(secrets), call: c.from(i),
		})
	}

	return c
}

// start starts a control plane, which ends with the test, and waits until it answers.
func (c *crowd) start(t *testing.T, i int, more ...string) {
	t.Helper()
	p := c.planes[i]
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.Clone(p.env), more...)
	var err error
	if p.proc, err = child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	proc := p.proc
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("control plane %d, process %d:\n%s", i, proc.Pid(), proc.Output())
		}
		proc.Kill()
	})
	wait.For(t, crowdLimit/2, func() bool {
		final, err := try(t.Context(), p.url, http.MethodGet, "/healthz", nil, nil, nil)

		return final && err == nil
	}, "control plane %d does not answer", i)
}

// from sends requests to one control plane, and to the next one when that has no answer.
func (c *crowd) from(first int) func(context.Context, string, string, http.Header, []byte, any) error {
	return func(ctx context.Context, method, path string, header http.Header, body []byte, answer any) error {
		for _, p := range c.planes {
			path = strings.TrimPrefix(path, p.url)
		}
		last := errNotSent
		for i := first; ctx.Err() == nil; i++ {
			var final bool
			if final, last = c.try(ctx, c.planes[i%len(c.planes)], method, path, header, body, answer); final {
				return last
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}

		return fmt.Errorf("%s %s: %w", method, path, last)
	}
}

// try gives up a control plane that takes a connection and stands still.
func (c *crowd) try(ctx context.Context, p *plane, method, path string, header http.Header, body []byte, answer any) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	return try(ctx, p.url, method, path, header, body, answer)
}

// each has all players do something at once.
func (c *crowd) each(ctx context.Context, t *testing.T, do func(*player, context.Context) error) {
	t.Helper()
	var all sync.WaitGroup
	for _, p := range c.players {
		all.Go(func() {
			if err := do(p, ctx); err != nil {
				t.Errorf("%s: %v", p.id, err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// settle waits until all runs have ended and holds what came of them against what was to come.
func (c *crowd) settle(ctx context.Context, t *testing.T) {
	t.Helper()
	s, err := store.Open(ctx, c.database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, p := range c.players {
		var last error
		for done := false; !done; {
			if done, last = p.through(ctx, s); ctx.Err() != nil {
				run, err := s.Run(t.Context(), store.RunKey{AnalysisID: p.id})
				t.Fatalf("the run of %s does not end: %+v, %v, %v", p.id, run, last, err)
			}
			if !done {
				pause(ctx, 20*time.Millisecond)
			}
		}
		if err := p.check(ctx, s, c.customer); err != nil {
			t.Error(err)
		}
	}
}

// TestTakenOver: two control planes share a Postgres, and one is gone: killed in some place, or standing still. All runs come to their end in
// the other one, each effect once; nobody starts the first one again.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	server, redis := pgtest.Start(t), redistest.Start(t)
	for _, test := range []struct {
		name, place string
		signal      syscall.Signal
	}{
		{"while all wait", "", syscall.SIGKILL},
		{"in a dispatch", "dispatch:done", 0},
		{"in a notice", "notify:done", 0},
		{"standing still", "", syscall.SIGSTOP},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), crowdLimit)
			defer cancel()
			c := gather(t, server, redis, 2, 10)
			c.start(t, 0, killVar+"="+test.place)
			c.start(t, 1)
			c.each(ctx, t, (*player).submit)
			if test.place == "" {
				c.each(ctx, t, (*player).dispatched)
				if err := c.planes[0].proc.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
			}
			begin := time.Now()
			c.each(ctx, t, (*player).work)
			c.settle(ctx, t)
			if test.signal == 0 {
				select {
				case <-c.planes[0].proc.Done():
				default:
					t.Errorf("no run of the first control plane came to %s", test.place)
				}
			}
			t.Logf("all runs ended %.1f s after the end of the first control plane or the last submission", time.Since(begin).Seconds())
		})
	}
}

// TestPostgresAway: Postgres is killed and comes back, three times at once and then after ten seconds, while runs are in all their stages on
// two control planes. The runs go on, each effect is had once, no run has to begin anew, and no control plane ends.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), crowdLimit)
	defer cancel()
	c := gather(t, pgtest.Start(t), redistest.Start(t), 2, 24)
	c.start(t, 0)
	c.start(t, 1)
	working := make(chan struct{})
	go func() { // ends with the players, which ctx bounds
		defer close(working)
		c.each(ctx, t, (*player).play)
	}()
	for i, away := range []time.Duration{0, 0, 0, 10 * time.Second} {
		c.seen(ctx, t, i*len(c.players)/5)
		c.server.Kill()
		pause(ctx, away)
		c.server.Restart()
	}
	back := time.Now()
	<-working
	c.settle(ctx, t)
	t.Logf("all runs ended %.1f s after Postgres was back", time.Since(back).Seconds())
	if again := c.begunAnew(ctx, t); len(again) > 0 {
		t.Errorf("runs that had to begin anew, or failed: %v", again)
	}
	for i, p := range c.planes {
		select {
		case <-p.proc.Done():
			t.Errorf("control plane %d ended: %v", i, p.proc.Err())
		default:
		}
	}
}

// begunAnew lists what is kept of runs that did not go through at the first beginning.
func (c *crowd) begunAnew(ctx context.Context, t *testing.T) []string {
	t.Helper()
	conn, err := pgx.Connect(ctx, c.database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	const kept = `SELECT workflow_uuid || ' ' || status FROM posefleet_runs.workflow_status WHERE status NOT IN ('SUCCESS', 'PENDING') OR workflow_uuid LIKE '%~%'`
	rows, err := conn.Query(ctx, kept)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}

	return all
}

// seen waits until the customer has heard of so many.
func (c *crowd) seen(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	wait.For(t, crowdLimit, func() bool { return c.customer.all() >= n || ctx.Err() != nil }, "no %d notices", n)
}

// pause is how long something is away.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
