package pipeline_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/protocol/webhook"
)

var killAll = flag.Bool("kill.all", false, "end the process in every place on Postgres too, not only where an effect was had and not kept")

const (
	patience   = 2 * time.Minute
	atOnce     = 6
	analysisID = "an_1"
)

// scene is one way of a run, with the places that it passes.
type scene struct {
	name string
	// steps and kinds are the steps of the run and the kinds of outbox entries.
	steps, kinds []string
	// refuse fails the precheck; lose removes the first job, so that the run has to send it again.
	refuse, lose bool
}

func scenes() []scene {
	tail := []string{"settled", "notice"}

	return []scene{
		{name: "delivered", steps: []string{"analysing", "wake", "precheck", "dispatch", "await", "persist", "report", "notify"}, kinds: append(tail, "run", "dispatch")},
		{name: "refused", steps: []string{"fail"}, kinds: tail[:1], refuse: true},
		{name: "lost", steps: []string{"retry"}, lose: true},
	}
}

// places are where the process ends: before, in and after each step, and between an effect of the outbox and its being noted.
func (s scene) places() []string {
	var out []string
	for _, step := range s.steps {
		out = append(out, step+":begin", step+":done", step+":kept")
	}
	for _, kind := range s.kinds {
		out = append(out, kind+":carried")
	}

	return out
}

// TestKill: the process of the control plane is killed (SIGKILL) at every boundary of every step and inside of it; the run comes to its
// end after the restart, each effect is had once, and nothing is left.
func TestKill(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	kill(t, redis, func() string { return "sqlite:" + filepath.Join(t.TempDir(), "test.db") }, scene.places)
}

// TestKillPostgres is TestKill on Postgres.
func TestKillPostgres(t *testing.T) {
	t.Parallel()
	redis, server := redistest.Start(t), pgtest.Start(t)
	places := scene.places
	if !*killAll {
		places = func(s scene) []string {
			return slices.DeleteFunc(s.places(), func(p string) bool { return !strings.HasSuffix(p, ":done") })
		}
	}
	var mu sync.Mutex
	kill(t, redis, func() string {
		mu.Lock()
		defer mu.Unlock()

		return server.Database()
	}, places)
}

// kill plays each scene once for each place, several at once: most of the time they wait.
func kill(t *testing.T, redis *redistest.Server, database func() string, places func(scene) []string) {
	t.Helper()
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, s := range scenes() {
		for _, place := range places(s) {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				(&killing{scene: s, place: place}).run(t, redis, database())
			})
		}
	}
	all.Wait()
}

// killing is one scene with an end of the process in one place.
type killing struct {
	scene
	place string
	// twice is an event that is expected to be there twice.
	twice string

	player *player

	env      []string
	url      string
	proc     *child.Process
	customer *customer
	killed   bool
}

func (k *killing) run(t *testing.T, redis *redistest.Server, database string) {
	t.Helper()
	fault := func(format string, args ...any) {
		t.Errorf("%s, killed at %s: %s\n%s", k.name, k.place, fmt.Sprintf(format, args...), k.proc.Output())
	}
	k.customer = newCustomer()
	receiver := httptest.NewServer(k.customer)
	defer receiver.Close()
	if err := k.prepare(t, redis, database, receiver.URL); err != nil {
		t.Error(err)

		return
	}
	if err := k.start(killVar + "=" + k.place); err != nil {
		t.Error(err)

		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := k.player.play(ctx)
	if err == nil {
		err = k.ended(ctx, database)
	}
	if err == nil {
		err = k.check(ctx, database)
	}
	if err != nil {
		fault("%v", err)
	}
	if err := k.proc.Stop(syscall.SIGTERM, patience); err != nil {
		fault("does not end: %v", err)
	}
}

func (k *killing) prepare(t *testing.T, redis *redistest.Server, database, receiver string) error {
	port, err := freeport.Find()
	if err != nil {
		return err
	}
	secret := webhook.Generate()
	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		return err
	}
	k.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	k.player = &player{
		id: analysisID, queue: k.queueName(), redis: redis, signer: webhook.NewSigner(secrets), refuse: k.refuse, lose: k.lose, twice: k.twice, call: k.call,
		revive: func(ctx context.Context) error { return k.call(ctx, http.MethodGet, "/healthz", nil, nil, nil) },
	}
	k.env = []string{
		childVar + "=1", "PATH=" + os.Getenv("PATH"), "POSEFLEET_WORKER_SECRET=" + secret, "POSEFLEET_REDIS_URL=" + redis.URL,
		"POSEFLEET_QUEUE=" + k.queueName(), fmt.Sprintf("POSEFLEET_LISTEN=127.0.0.1:%d", port), "POSEFLEET_DATABASE_URL=" + database,
		"POSEFLEET_STORAGE_URL=file:" + t.TempDir(), "POSEFLEET_NOTICE_URL=" + receiver, "POSEFLEET_NOTICE_SECRET=" + secret,
	}
	if k.refuse {
		k.env = append(k.env, refuseVar+"=1")
	}
	if k.lose {
		k.env = append(k.env, lookVar+"=200")
	}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		k.env = append(k.env, "GOCOVERDIR="+dir)
	}

	return nil
}

// queueName is a queue of its own on the shared Redis.
func (k *killing) queueName() string {
	sum := sha256.Sum256([]byte(k.url + k.name + k.place))

	return "q" + hex.EncodeToString(sum[:6])
}

// start starts the control plane.
func (k *killing) start(more ...string) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.Clone(k.env), more...)
	var err error
	k.proc, err = child.Start(cmd)

	return err
}

// call sends a request until it is answered, over the end of the process, which it starts again.
func (k *killing) call(ctx context.Context, method, path string, header http.Header, body []byte, answer any) error {
	last := errNotSent
	for ctx.Err() == nil {
		select {
		case <-k.proc.Done():
			if err := k.again(); err != nil {
				return err
			}
		default:
		}
		var final bool
		if final, last = try(ctx, k.url, method, path, header, body, answer); final {
			return last
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}

	return fmt.Errorf("%s %s: %w", method, path, last)
}

// again starts the control plane after it was killed, for good.
func (k *killing) again() error {
	if k.killed {
		return fmt.Errorf("the second process ended as well: %w", k.proc.Err())
	}
	k.killed = true

	return k.start()
}

// ended waits until the run is through and the outbox empty, and sees that the process was killed on the way.
func (k *killing) ended(ctx context.Context, database string) error {
	for ctx.Err() == nil {
		if err := k.player.revive(ctx); err != nil {
			return err
		}
		done, err := k.through(ctx, database)
		if err == nil && done && k.killed {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}

	return fmt.Errorf("killed: %v, the run does not end: %w", k.killed, ctx.Err())
}

// through asks the second process: the first may have done everything and die a moment later.
func (k *killing) through(ctx context.Context, database string) (bool, error) {
	if !k.killed {
		return false, nil
	}
	s, err := store.Open(ctx, database, store.Options{})
	if err != nil {
		return false, err
	}
	defer s.Close()
	done, err := k.player.through(ctx, s)
	if err != nil || !done {
		return false, err
	}
	left, err := s.Outbox(ctx, 10)

	return len(left) == 0, err
}

func (k *killing) check(ctx context.Context, database string) error {
	s, err := store.Open(ctx, database, store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()

	return k.player.check(ctx, s, k.customer)
}
