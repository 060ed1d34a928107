package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/shlex"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/internal/envconfig"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker/internal/trace"
)

// EnvPrefix is the prefix of every variable.
const EnvPrefix = envconfig.Prefix

// ConfigError is one fault of the configuration. Its text names the variable and never holds a secret.
type ConfigError = envconfig.Error

// Variable describes one variable, for the command line and its help.
type Variable = envconfig.Variable

// Variables lists the worker's variables in the order of Config.
func Variables() []Variable { return envconfig.Variables[Config]() }

// extractionThreads is how many cores one extraction keeps busy: the decoder and the inference run side by side.
const extractionThreads = 2

// Protection says how the worker uses the scale-in protection of Amazon ECS.
type Protection string

// Values of TaskProtection.
const (
	ProtectionAuto     Protection = "auto"     // protect while busy; go on unprotected if that is refused
	ProtectionRequired Protection = "required" // take no work while protection is refused
	ProtectionOff      Protection = "off"      // never ask
)

// Config is the worker's configuration. The tags name the variable (without EnvPrefix), its default, and what it means; the
// command line and its help are made from them. An empty variable counts as not set.
type Config struct {
	RedisURL string `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379/0" help:"Redis: redis://, rediss://, several comma-separated addresses for a Cluster, redis+sentinel://host:port,host:port/master/db"`
	Prefix   string `env:"PREFIX" envDefault:"bull" help:"BullMQ key prefix; for Redis Cluster with a hash tag, as in {bull}"`
	Queue    string `env:"QUEUE" envDefault:"pose" help:"queue name"`

	// Slots is how many analyses run at once, both doors together; 1 to 256.
	Slots        int  `env:"SLOTS" help:"how many analyses run at once (default: cores by threads of one extraction, at least 1)"`
	QueueEnabled bool `env:"QUEUE_ENABLED" envDefault:"true" help:"take work from the queue"`
	HTTPEnabled  bool `env:"HTTP_ENABLED" envDefault:"true" help:"take work by HTTP"`

	Listen      string `env:"LISTEN" envDefault:":8080" help:"address of the HTTP door"`
	AdminListen string `env:"ADMIN_LISTEN" envDefault:":9090" help:"address of /healthz /readyz /metrics /version"`

	ControlURL string `env:"CONTROL_URL" help:"base URL of the control plane (required)"`
	// WorkerSecrets sign what goes to the control plane, newest first; all of them sign.
	WorkerSecrets []webhook.Secret `env:"WORKER_SECRET" secret:"true" help:"whsec_… that signs worker to control plane; several, comma-separated, newest first (required)"`
	// DoorSecrets verify what comes to the HTTP door; any of them does.
	DoorSecrets []webhook.Secret `env:"DOOR_SECRET" secret:"true" help:"whsec_… that verifies control plane to worker; several: any verifies (required for the HTTP door)"`

	// LockDuration is how long a job's lock lives without a renewal; at least 100 ms.
	LockDuration time.Duration `env:"LOCK_DURATION" envDefault:"30s" help:"as BullMQ's lockDuration"`
	// LockRenewTime is the time between two renewals; shorter than the lock.
	LockRenewTime time.Duration `env:"LOCK_RENEW_TIME" help:"time between lock renewals, shorter than the lock (default: half of it)"`
	// StalledInterval is the time between two looks for jobs whose lock has gone; at least 100 ms.
	StalledInterval time.Duration `env:"STALLED_INTERVAL" envDefault:"30s" help:"as BullMQ's stalledInterval"`
	MaxStalledCount int           `env:"MAX_STALLED_COUNT" envDefault:"1" help:"as BullMQ's maxStalledCount"`

	// JobTimeout is the wall time of one attempt, claim to report.
	JobTimeout time.Duration `env:"JOB_TIMEOUT" envDefault:"30m" help:"wall time of one attempt, claim to report"`
	// DrainTimeout is how long running work may go on after SIGTERM; not longer than JobTimeout.
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" envDefault:"85s" help:"how long running analyses may go on after SIGTERM before they are given back; the job timeout if that is shorter"`

	// Extractor is the command line, split into words as a shell would; ExtractorCommand is the outcome.
	Extractor        string   `env:"EXTRACTOR" help:"the extractor command, split into words as a shell would, run without one (default: posefleet-extract serve beside this program)"`
	ExtractorCommand []string `env:"-"`
	// ExtractorEnv is the whole environment of the extractor: what it may know, and no secret.
	ExtractorEnv []string `env:"-"`

	StorageHosts  []string `env:"STORAGE_HOSTS" help:"allowed hosts of clip and artifact URLs, comma-separated: host, host:port, *.suffix (required)"`
	CallbackHosts []string `env:"CALLBACK_HOSTS" help:"allowed hosts of callback URLs (default: the host of the control URL)"`
	AllowInsecure bool     `env:"ALLOW_INSECURE" envDefault:"false" help:"permit http: and private addresses, for tests and the demo"`
	MaxInput      Size     `env:"MAX_INPUT_BYTES" envDefault:"2GiB" help:"largest input of one analysis, as in 512MiB"`
	WorkDir       string   `env:"WORK_DIR" help:"scratch space (default: the system's folder for temporary files)"`

	LogFormat string     `env:"LOG_FORMAT" envDefault:"json" help:"json, or text for people"`
	LogLevel  slog.Level `env:"LOG_LEVEL" envDefault:"info" help:"debug, info, warn, error"`

	TaskProtection Protection `env:"TASK_PROTECTION" envDefault:"auto" help:"ECS scale-in protection: auto, required, off"`

	// Environment of an ECS task, empty elsewhere: the agent's and the metadata's base URLs. Not settings of ours.
	ECSAgentURI    string `env:"-"`
	ECSMetadataURI string `env:"-"`
	// Traces says where spans go, by OpenTelemetry's own variables; without them traces are joined and handed on, and sent nowhere.
	Traces trace.Config `env:"-"`
}

// LoadConfig reads and checks the configuration. environ holds variables by their full name, as from os.Environ with
// flags laid over it. The error joins a *ConfigError for each fault.
func LoadConfig(environ map[string]string) (Config, error) {
	given := envconfig.Given(environ)
	var c Config
	bad := envconfig.Parse(&c, given)
	c.ECSAgentURI, c.ECSMetadataURI = given["ECS_AGENT_URI"], given["ECS_CONTAINER_METADATA_URI_V4"]
	c.ExtractorEnv = extractorEnv(given)
	var err error
	if c.Traces, err = trace.ConfigFrom(given); err != nil {
		variable, reason, _ := strings.Cut(err.Error(), " ")
		bad = append(bad, &ConfigError{Variable: variable, Reason: reason})
	}
	if err := c.setDefaults(given); err != nil {
		bad = append(bad, err)
	}
	return c, envconfig.Join(bad, c.Validate())
}

// setDefaults fills in what depends on other values or on the machine.
func (c *Config) setDefaults(given map[string]string) error {
	if _, ok := given[EnvPrefix+"SLOTS"]; !ok {
		c.Slots = max(1, runtime.GOMAXPROCS(0)/extractionThreads)
	}
	if _, ok := given[EnvPrefix+"LOCK_RENEW_TIME"]; !ok {
		c.LockRenewTime = c.LockDuration / 2
	}
	if _, ok := given[EnvPrefix+"DRAIN_TIMEOUT"]; !ok {
		c.DrainTimeout = min(c.DrainTimeout, c.JobTimeout)
	}
	if c.WorkDir == "" {
		c.WorkDir = os.TempDir()
	}
	if u, err := url.Parse(c.ControlURL); err == nil && len(c.CallbackHosts) == 0 && u.Host != "" {
		c.CallbackHosts = []string{u.Host}
	}
	command, err := extractorCommand(c.Extractor)
	if err != nil {
		return envconfig.Fault("EXTRACTOR", "%v", err)
	}
	c.ExtractorCommand = command
	return nil
}

// Validate returns every fault of the configuration as a *ConfigError, joined.
func (c *Config) Validate() error {
	return errors.Join(
		c.validateQueue(), c.validateDoors(), c.validateControl(), c.validateTimes(), c.validateRest(),
	)
}

func (c *Config) validateQueue() error {
	if c.MaxStalledCount < 0 {
		return errors.Join(envconfig.Fault("MAX_STALLED_COUNT", "must be at least 0, not %d", c.MaxStalledCount), c.validateNames())
	}
	return c.validateNames()
}

// validateNames checks what names the queue. The last look is the queue's own, which also knows what a Cluster needs.
func (c *Config) validateNames() error {
	switch _, err := queue.ParseRedisURL(c.RedisURL); {
	case err != nil:
		return envconfig.Fault("REDIS_URL", "is not usable: %v", err)
	case c.Prefix == "":
		return envconfig.Fault("PREFIX", "must not be empty")
	case c.Queue == "" || strings.Contains(c.Queue, ":"):
		return envconfig.Fault("QUEUE", "must not be empty or hold a colon")
	}
	q, err := queue.NewQueue(queue.Options{RedisURL: c.RedisURL, Prefix: c.Prefix, Name: c.Queue})
	if err != nil {
		return envconfig.Fault("PREFIX", "or %sQUEUE is not usable: %v", EnvPrefix, err)
	}
	return q.Close()
}

func (c *Config) validateDoors() error {
	var errs []error
	if c.Slots < 1 || c.Slots > maxSlots {
		errs = append(errs, envconfig.Fault("SLOTS", "must be 1 to %d, not %d", maxSlots, c.Slots))
	}
	if !c.QueueEnabled && !c.HTTPEnabled {
		errs = append(errs, envconfig.Fault("QUEUE_ENABLED", "and %sHTTP_ENABLED are both off: the worker would take no work", EnvPrefix))
	}
	if c.HTTPEnabled && len(c.DoorSecrets) == 0 {
		errs = append(errs, envconfig.Fault("DOOR_SECRET", "is required while the HTTP door is open"))
	}
	for _, listen := range []struct{ name, addr string }{{"LISTEN", c.Listen}, {"ADMIN_LISTEN", c.AdminListen}} {
		if _, err := net.ResolveTCPAddr("tcp", listen.addr); err != nil {
			errs = append(errs, envconfig.Fault(listen.name, "is no address to listen on, as :8080: %q", listen.addr))
		}
	}
	if c.HTTPEnabled && c.Listen == c.AdminListen && !strings.HasSuffix(c.Listen, ":0") {
		errs = append(errs, envconfig.Fault("ADMIN_LISTEN", "must differ from %sLISTEN", EnvPrefix))
	}
	return errors.Join(errs...)
}

func (c *Config) validateControl() error {
	var errs []error
	switch u, err := url.Parse(c.ControlURL); {
	case c.ControlURL == "":
		errs = append(errs, envconfig.Fault("CONTROL_URL", "is required"))
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		errs = append(errs, envconfig.Fault("CONTROL_URL", "is no http or https URL"))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		errs = append(errs, envconfig.Fault("CONTROL_URL", "must have no user, query or fragment"))
	}
	if len(c.WorkerSecrets) == 0 {
		errs = append(errs, envconfig.Fault("WORKER_SECRET", "is required"))
	}
	if len(c.StorageHosts) == 0 {
		errs = append(errs, envconfig.Fault("STORAGE_HOSTS", "is required"))
	}
	return errors.Join(append(errs, c.validateHosts())...)
}

// validateHosts asks the client, whose rules they are; everything else in these configurations of it is right.
func (c *Config) validateHosts() error {
	var errs []error
	valid := claimcheck.Config{ControlURL: "https://control", Signer: webhook.NewSigner(nil), StorageHosts: []string{"host"}}
	storage, callback := valid, valid
	storage.StorageHosts, callback.CallbackHosts = c.StorageHosts, c.CallbackHosts
	if err := storage.Validate(); err != nil && len(c.StorageHosts) > 0 {
		errs = append(errs, envconfig.Fault("STORAGE_HOSTS", "is not usable: %v", err))
	}
	if err := callback.Validate(); err != nil {
		errs = append(errs, envconfig.Fault("CALLBACK_HOSTS", "is not usable: %v", err))
	}
	return errors.Join(errs...)
}

func (c *Config) validateTimes() error {
	var errs []error
	// What depends on a value that is wrong itself is not judged: one mistake, one fault.
	switch {
	case c.LockDuration < minInterval:
		errs = append(errs, envconfig.Fault("LOCK_DURATION", "must be at least %s, not %s", minInterval, c.LockDuration))
	case c.LockRenewTime <= 0:
		errs = append(errs, envconfig.Fault("LOCK_RENEW_TIME", "must be positive, not %s", c.LockRenewTime))
	case c.LockRenewTime >= c.LockDuration:
		errs = append(errs, envconfig.Fault("LOCK_RENEW_TIME", "must be shorter than the lock (%s), not %s", c.LockDuration, c.LockRenewTime))
	}
	if c.StalledInterval < minInterval {
		errs = append(errs, envconfig.Fault("STALLED_INTERVAL", "must be at least %s, not %s", minInterval, c.StalledInterval))
	}
	switch {
	case c.JobTimeout <= 0:
		errs = append(errs, envconfig.Fault("JOB_TIMEOUT", "must be positive, not %s", c.JobTimeout))
	case c.DrainTimeout < 0 || c.DrainTimeout > c.JobTimeout:
		errs = append(errs, envconfig.Fault("DRAIN_TIMEOUT", "must be 0 to the job timeout (%s), not %s", c.JobTimeout, c.DrainTimeout))
	}
	return errors.Join(errs...)
}

func (c *Config) validateRest() error {
	var errs []error
	if c.MaxInput < 1 {
		errs = append(errs, envconfig.Fault("MAX_INPUT_BYTES", "must be at least 1 byte"))
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		errs = append(errs, envconfig.Fault("LOG_FORMAT", "must be json or text, not %q", c.LogFormat))
	}
	switch c.TaskProtection {
	case ProtectionAuto, ProtectionOff:
	case ProtectionRequired:
		if c.ECSAgentURI == "" {
			errs = append(errs, envconfig.Fault("TASK_PROTECTION", "is required, and there is no ECS agent here (ECS_AGENT_URI is not set)"))
		}
	default:
		errs = append(errs, envconfig.Fault("TASK_PROTECTION", "must be auto, required or off, not %q", c.TaskProtection))
	}
	return errors.Join(errs...)
}

// Bounds that the tags can't say.
const (
	maxSlots    = 256
	minInterval = 100 * time.Millisecond
)

// extractorCommand splits the command line and finds the program, so that a wrong name is found at start.
func extractorCommand(line string) ([]string, error) {
	words := []string{besideProgram("posefleet-extract"), "serve"}
	if line != "" {
		var err error
		if words, err = shlex.Split(line); err != nil || len(words) == 0 {
			return nil, errors.New("is no command line")
		}
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil, fmt.Errorf("program %s is not there or can't be run", words[0])
	}
	words[0] = path
	return words, nil
}

// besideProgram returns the path of a program in the folder of this one, or its bare name to be looked up in PATH.
func besideProgram(name string) string {
	exe, err := os.Executable()
	if err != nil {
		return name
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	beside := filepath.Join(filepath.Dir(exe), name)
	if _, err := os.Stat(beside); err != nil {
		return name
	}
	return beside
}

// extractorEnv picks what the extractor may know: where things are and what its limits are. Everything else, above
// all the secrets, stays here.
func extractorEnv(environ map[string]string) []string {
	allowed := []string{
		"PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "GOMEMLIMIT", "GOCOVERDIR",
		EnvPrefix + "ASSETS", EnvPrefix + "MODELS", EnvPrefix + "MODEL", EnvPrefix + "ENGINE", EnvPrefix + "THREADS",
		EnvPrefix + "MAX_SIDE", EnvPrefix + "MAX_PIXELS", EnvPrefix + "MAX_DURATION", EnvPrefix + "LOG_LEVEL",
	}
	var out []string
	for _, name := range allowed {
		if v, ok := environ[name]; ok {
			out = append(out, name+"="+v)
		}
	}
	return out
}
