package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
)

// readyLimit is how long the extractor may take to load its models; it needs about a second.
const readyLimit = time.Minute

// errNotReady points to the log, which has the extractor's own words.
var errNotReady = errors.New("the worker is not ready after a minute: the extractor does not start (see the lines above; run posefleet-extract --help)")

// start starts Redis, control plane and worker, each once the one before it answers.
func (d *demo) start(ctx context.Context) error {
	secrets := map[string]string{"POSEFLEET_WORKER_SECRET": webhook.Generate(), "POSEFLEET_DOOR_SECRET": webhook.Generate()}

	if err := d.startRedis(ctx); err != nil {
		return err
	}

	server, err := d.startControl(ctx, secrets)
	if err != nil {
		return err
	}

	return d.startWorker(ctx, server, secrets)
}

// startRedis starts a server or makes room in the given one: a queue with a name of its own, which is cleared away at the end.
func (d *demo) startRedis(ctx context.Context) error {
	d.queue = queue.Options{RedisURL: d.RedisURL, Prefix: queue.DefaultPrefix, Name: "demo-" + strings.ToLower(rand.Text()[:8]), Logger: d.Log}

	if d.RedisURL == "" {
		dir := filepath.Join(d.dir, "redis")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("demo: %w", err)
		}

		server, err := startRedis(ctx, dir)
		if err != nil {
			return err
		}

		d.stack.onStop(server.stop)
		d.queue.RedisURL = server.url
		d.term.line("redis", "redis-server child on %s", server.address)
	}

	jobs, err := queue.NewQueue(d.queue)
	if err != nil {
		return err
	}

	d.jobs = jobs

	if d.RedisURL != "" {
		d.stack.onStop(func() error { return clearQueue(d.queue) })
		d.term.line("redis", "as given, queue %s", d.queue.Name)
	}

	d.stack.onStop(jobs.Close)

	return jobs.Ping(ctx)
}

func (d *demo) startControl(ctx context.Context, secrets map[string]string) (*control.Server, error) {
	config, err := control.LoadConfig(d.environ(secrets, map[string]string{
		"POSEFLEET_LISTEN":       d.Listen,
		"POSEFLEET_DATABASE_URL": "sqlite:" + filepath.Join(d.dir, "posefleet.db"),
		"POSEFLEET_STORAGE_URL":  "file:" + filepath.Join(d.dir, "storage"),
	}))
	if err != nil {
		return nil, err
	}

	server, err := control.New(ctx, config, d.Log)
	if err != nil {
		return nil, err
	}

	d.stack.run(ctx, "control plane", server.Run)

	d.api = &operator.Client{Base: "http://" + server.Addr()}
	d.term.line("control", "control plane at %s (SQLite, file storage)", d.api.Base)

	return server, nil
}

func (d *demo) startWorker(ctx context.Context, server *control.Server, secrets map[string]string) error {
	host, _, err := net.SplitHostPort(server.Addr())
	if err != nil {
		return fmt.Errorf("control plane's address: %w", err)
	}

	config, err := worker.LoadConfig(d.environ(secrets, map[string]string{
		"POSEFLEET_CONTROL_URL":     d.api.Base,
		"POSEFLEET_STORAGE_HOSTS":   host,
		"POSEFLEET_ALLOW_INSECURE":  "true",
		"POSEFLEET_LISTEN":          "127.0.0.1:0",
		"POSEFLEET_ADMIN_LISTEN":    "127.0.0.1:0",
		"POSEFLEET_WORK_DIR":        filepath.Join(d.dir, "work"),
		"POSEFLEET_TASK_PROTECTION": "off",
		"POSEFLEET_DRAIN_TIMEOUT":   "1s",
	}))
	if err != nil {
		return err
	}

	if err := tryExtractor(ctx, config.ExtractorCommand, config.ExtractorEnv, d.dir); err != nil {
		return err
	}

	w, err := worker.New(config, d.Log)
	if err != nil {
		return err
	}

	// Drained, not cancelled: a worker that has nothing to do ends at once and in silence.
	d.stack.run(ctx, "worker", func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, w.Drain)
		defer stop()

		return w.Run(context.WithoutCancel(ctx))
	})

	select {
	case <-w.Ready():
	case <-time.After(readyLimit):
		return errNotReady
	case <-d.stack.died:
		return d.stack.err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}

	d.term.line("worker", "%d slot(s), extractor %s", config.Slots, filepath.Base(config.ExtractorCommand[0]))

	return nil
}

// environ is the whole configuration of a part: the run's own settings, and of the real environment only where things are.
func (d *demo) environ(parts ...map[string]string) map[string]string {
	env := map[string]string{
		"POSEFLEET_REDIS_URL": d.queue.RedisURL, "POSEFLEET_PREFIX": d.queue.Prefix, "POSEFLEET_QUEUE": d.queue.Name,
	}

	for _, name := range []string{"PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "POSEFLEET_ASSETS", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}

	for _, part := range parts {
		maps.Copy(env, part)
	}

	return env
}
