package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/posefleet/posefleet/control/fleet"
	"github.com/posefleet/posefleet/control/fleet/ecs"
	"github.com/posefleet/posefleet/control/fleet/local"
	"github.com/posefleet/posefleet/control/pipeline"
	"github.com/posefleet/posefleet/internal/envconfig"
)

// localGrace is what a worker of this machine gets beyond its drain before it is killed, localDrain its drain if nobody set another.
const (
	localGrace = 30 * time.Second
	localDrain = 85 * time.Second
)

// shared are the variables that a control plane and its workers both read; it keeps all others of its own to itself.
func shared() []string {
	return []string{"REDIS_URL", "PREFIX", "QUEUE", "WORKER_SECRET", "DOOR_SECRET", "LOG_FORMAT", "LOG_LEVEL"}
}

// Environment is the whole environment of a process by the variables' full names. No way of printing it shows it.
type Environment map[string]string

// String returns a placeholder.
func (Environment) String() string { return "[redacted]" }

// GoString returns a placeholder.
func (Environment) GoString() string { return "[redacted]" }

// LogValue returns a placeholder.
func (Environment) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// workerEnviron is what a worker of this machine may know of the control plane's environment: where things are, and its own settings. What
// only the control plane reads, its tokens and the way to the database above all, stays here.
func workerEnviron(environ map[string]string) Environment {
	system := []string{
		"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "GOMEMLIMIT", "GOMAXPROCS", "GOCOVERDIR",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY",
	}
	out := maps.Clone(Environment(environ))
	maps.DeleteFunc(out, func(name, value string) bool {
		known := slices.Contains(system, name) || strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, EnvPrefix)

		return !known || value == ""
	})
	for _, v := range Variables() {
		if !slices.Contains(shared(), strings.TrimPrefix(v.Name, EnvPrefix)) {
			delete(out, v.Name)
		}
	}

	return out
}

// validateFleet checks what says how many workers there are.
func (c *Config) validateFleet() error {
	target, err := fleet.ParseTarget(c.Fleet)
	if err != nil {
		return envconfig.Fault("FLEET", "%v", err)
	}
	if c.Fleet == "" {
		return nil // made by a program, not from variables: the sizes do not matter
	}
	sizes := c.fleetConfig()
	bounds := sizes.Validate()
	var errs []error
	for _, b := range []struct {
		name string
		err  error
	}{{"FLEET_MAX", fleet.ErrMax}, {"FLEET_MIN", fleet.ErrMin}, {"FLEET_SLOTS", fleet.ErrSlots}, {"FLEET_INTERVAL", fleet.ErrInterval}} {
		if errors.Is(bounds, b.err) {
			errs = append(errs, envconfig.Fault(b.name, "%v", b.err))
		}
	}
	if rollout, err := pipeline.ParseRollout(c.Dispatch); err == nil && rollout.All() && target.Kind == fleet.Local {
		errs = append(errs, envconfig.Fault("FLEET", "can't be local where all analyses go by HTTP (%sDISPATCH): the workers that it starts have no door at a fixed address", EnvPrefix))
	}
	// A worker that can't reach the clips would be started in vain again and again.
	if target.Kind == fleet.Local && !strings.HasPrefix(c.StorageURL, "file:") && c.WorkerEnv[EnvPrefix+"STORAGE_HOSTS"] == "" {
		errs = append(errs, envconfig.Fault("STORAGE_HOSTS", "is required for workers of this machine (%sFLEET) where storage is not a folder", EnvPrefix))
	}

	return errors.Join(errs...)
}

func (c *Config) fleetConfig() fleet.Config {
	return fleet.Config{Min: c.FleetMin, Max: c.FleetMax, Slots: c.FleetSlots, Interval: c.FleetInterval, Now: c.Now}
}

// openFleet makes what decides about the workers; nothing is started or asked for yet.
func (s *Server) openFleet(ctx context.Context) error {
	target, err := fleet.ParseTarget(s.cfg.Fleet)
	if err != nil {
		return err
	}
	cfg := s.cfg.fleetConfig()
	cfg.Owner = s.fleetOwner()
	var driver fleet.Driver
	switch target.Kind {
	case fleet.None:
		cfg = fleet.Config{Max: 1, Slots: 1, Interval: fleet.MinInterval, Now: s.cfg.Now} // they do not matter
	case fleet.Local:
		driver, err = s.localFleet()
	case fleet.ECS:
		driver, err = ecs.New(ctx, ecs.Config{Cluster: target.Cluster, Service: target.Service})
	}
	if err != nil {
		return err
	}
	if s.workers, err = fleet.New(cfg, s.store, driver, s.log); err != nil {
		return err
	}
	if s.cfg.Waker == nil {
		s.cfg.Waker = s.workers
	}

	return nil
}

// fleetOwner names this process, and another one only when this one is gone: who listens at the same address of the same machine.
func (s *Server) fleetOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "control"
	}

	return host + " " + s.Addr()
}

func (s *Server) localFleet() (fleet.Driver, error) {
	command := s.cfg.WorkerCommand
	if len(command) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("local fleet: %w", err)
		}
		command = []string{exe, "worker"}
	}
	env, err := s.cfg.localEnviron(s.Addr(), s.base)
	if err != nil {
		return nil, err
	}
	drain := localDrain
	if d, err := time.ParseDuration(env[EnvPrefix+"DRAIN_TIMEOUT"]); err == nil {
		drain = d
	}
	pairs := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		pairs = append(pairs, name+"="+env[name])
	}

	return local.New(local.Config{Command: command, Env: pairs, Grace: drain + localGrace, Log: s.log})
}

// LocalWorker is the whole environment of the workers that a fleet of this machine starts, as far as it is known before the control plane
// listens: for a look whether such a worker can start at all.
func (c *Config) LocalWorker() (Environment, error) {
	return c.localEnviron(c.Listen, cmp.Or(c.PublicURL, "http://127.0.0.1"))
}

// localEnviron is the whole environment of a worker of this machine: what was given, and for the rest what fits a control plane that listens
// there and hands out URLs of that base.
func (c *Config) localEnviron(addr, base string) (Environment, error) {
	env := maps.Clone(c.WorkerEnv)
	if env == nil {
		env = Environment{}
	}
	set := func(name, value string) {
		if env[EnvPrefix+name] == "" {
			env[EnvPrefix+name] = value
		}
	}
	env[EnvPrefix+"LOG_FORMAT"] = "json" // its lines go through our own log
	set("REDIS_URL", c.RedisURL)
	set("PREFIX", c.Prefix)
	set("QUEUE", c.Queue)
	set("SLOTS", strconv.Itoa(c.FleetSlots))
	set("TASK_PROTECTION", "off")
	if env[EnvPrefix+"DOOR_SECRET"] == "" {
		set("HTTP_ENABLED", "false")
	}
	own, err := loopbackURL(addr)
	if err != nil {
		return nil, err
	}
	public, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	set("CONTROL_URL", own)
	// Callbacks and clips have the public base, whatever way the worker comes itself.
	set("CALLBACK_HOSTS", public.Host)
	set("STORAGE_HOSTS", public.Host)
	set("ALLOW_INSECURE", "true") // this machine's own http

	return env, nil
}

// loopbackURL is where this machine's processes reach a listener.
func loopbackURL(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}

	return "http://" + net.JoinHostPort(host, port), nil
}

// runFleet lets the fleet be decided about until ctx ends or end is called, which waits until workers of this machine are gone.
func (s *Server) runFleet(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with end
		defer close(done)
		s.workers.Run(ctx)
	}()

	return func() {
		cancel()
		<-done
	}
}

// FleetStatus reads how many workers there are and have been since a time, at most limit changes.
func (s *Server) FleetStatus(ctx context.Context, since time.Time, limit int) (fleet.Status, error) {
	return s.workers.Status(ctx, since, limit)
}
