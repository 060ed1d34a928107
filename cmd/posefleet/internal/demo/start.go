package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
)

// idleTime is how long the demo's fleet may have nothing to do before its worker ends: long enough to be seen, and not waited for.
const idleTime = 3 * time.Second

// start starts Redis and the control plane, which starts a worker when there is work.
func (d *demo) start(ctx context.Context) error {
	secrets := map[string]string{"POSEFLEET_WORKER_SECRET": webhook.Generate(), "POSEFLEET_DOOR_SECRET": webhook.Generate()}

	if err := d.startRedis(ctx); err != nil {
		return err
	}

	return d.startControl(ctx, secrets)
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

// startControl starts the control plane, after a look whether a worker of it could work at all.
func (d *demo) startControl(ctx context.Context, secrets map[string]string) error {
	address, err := freeAddress(d.Listen)
	if err != nil {
		return err
	}

	host, _, _ := net.SplitHostPort(address)
	env := d.environ(secrets, d.settings(ctx, address, reachable(host)))

	slots, extractor, err := d.tryWorker(ctx, env)
	if err != nil {
		return err
	}

	maps.Copy(env, map[string]string{
		"POSEFLEET_FLEET": "local", "POSEFLEET_FLEET_INTERVAL": idleTime.String(), "POSEFLEET_FLEET_SLOTS": strconv.Itoa(slots),
	})

	d.plane = newPlane(d.stack, address, env, d.Err)
	d.api, d.fleet = d.plane.api, &fleetWatcher{status: d.plane.api.Fleet, term: d.term, since: time.Now()}
	d.stack.onStop(d.plane.stop)

	if err := d.plane.start(ctx); err != nil {
		return err
	}

	d.term.line("control", "control plane at %s (process %d, SQLite, file storage)", d.api.Base, d.plane.proc.Pid())
	d.term.line("fleet", "no worker runs; the first analysis starts one (%d slot(s), extractor %s)", slots, extractor)

	return nil
}

// settings are the run's own for control plane and workers.
func (d *demo) settings(ctx context.Context, address, host string) map[string]string {
	s := map[string]string{
		"POSEFLEET_LISTEN":          address,
		"POSEFLEET_DATABASE_URL":    "sqlite:" + filepath.Join(d.dir, "posefleet.db"),
		"POSEFLEET_STORAGE_URL":     "file:" + filepath.Join(d.dir, "storage"),
		"POSEFLEET_STORAGE_HOSTS":   host,
		"POSEFLEET_ALLOW_INSECURE":  "true",
		"POSEFLEET_WORK_DIR":        filepath.Join(d.dir, "work"),
		"POSEFLEET_TASK_PROTECTION": "off",
		"POSEFLEET_DRAIN_TIMEOUT":   "1s",
		"POSEFLEET_LOG_FORMAT":      "text",
		"POSEFLEET_LOG_LEVEL":       d.level(ctx).String(),
	}
	if d.kills() {
		// The job of a killed worker waits for its lock: less than the half minute of a deployment.
		s["POSEFLEET_LOCK_DURATION"], s["POSEFLEET_STALLED_INTERVAL"], s["POSEFLEET_MAX_STALLED_COUNT"] = "5s", "1s", "3"
	}

	return s
}

// level is what the parts log.
func (d *demo) level(ctx context.Context) slog.Level {
	if d.Log.Enabled(ctx, slog.LevelInfo) {
		return slog.LevelInfo
	}

	return slog.LevelWarn
}

// reachable is the host that a worker of this machine finds the control plane at.
func reachable(host string) string {
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return "127.0.0.1"
	}

	return host
}

// tryWorker checks the configuration of the workers to come, and that their extractor starts: a worker would try again and again.
func (d *demo) tryWorker(ctx context.Context, env map[string]string) (slots int, extractor string, err error) {
	own := maps.Clone(env)
	own["POSEFLEET_CONTROL_URL"] = "http://127.0.0.1" // of no matter here
	own["POSEFLEET_LISTEN"], own["POSEFLEET_ADMIN_LISTEN"] = "127.0.0.1:0", "127.0.0.1:0"

	config, err := worker.LoadConfig(own)
	if err != nil {
		return 0, "", err
	}

	return config.Slots, filepath.Base(config.ExtractorCommand[0]), tryExtractor(ctx, config.ExtractorCommand, config.ExtractorEnv, d.dir)
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
