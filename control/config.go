package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/posefleet/posefleet/control/fleet"
	"github.com/posefleet/posefleet/control/pipeline"
	"github.com/posefleet/posefleet/control/storage"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/envconfig"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// EnvPrefix is the prefix of every variable.
const EnvPrefix = envconfig.Prefix

// ConfigError is one fault of the configuration. Its text names the variable and never holds a secret.
type ConfigError = envconfig.Error

// Variable describes one variable, for the command line and its help.
type Variable = envconfig.Variable

// Variables lists the control plane's variables in the order of Config.
func Variables() []Variable { return envconfig.Variables[Config]() }

// Config is the control plane's configuration. The tags name the variable (without EnvPrefix), its default, and what it
// means; the command line and its help are made from them. An empty variable counts as not set.
type Config struct {
	RedisURL string `env:"REDIS_URL" envDefault:"redis://127.0.0.1:6379/0" help:"Redis: redis://, rediss://, several comma-separated addresses for a Cluster, redis+sentinel://host:port,host:port/master/db"`
	Prefix   string `env:"PREFIX" envDefault:"bull" help:"BullMQ key prefix; for Redis Cluster with a hash tag, as in {bull}"`
	Queue    string `env:"QUEUE" envDefault:"pose" help:"queue name"`

	Listen string `env:"LISTEN" envDefault:":8080" help:"address to listen on"`
	// PublicURL is the base of the URLs that are handed out: callbacks, and clips and artifacts of a file storage.
	PublicURL string `env:"PUBLIC_URL" help:"base of the URLs that are handed out (default: the listen address, 127.0.0.1 if that is all interfaces)"`

	DatabaseURL string `env:"DATABASE_URL" envDefault:"sqlite:posefleet.db" secret:"true" help:"sqlite:PATH or postgres://…"`
	StorageURL  string `env:"STORAGE_URL" envDefault:"file:./storage" help:"file:DIR (served by the control plane itself) or s3://bucket/prefix?endpoint=…&region=…"`

	// WorkerSecrets verify what workers send; any of them does.
	WorkerSecrets []webhook.Secret `env:"WORKER_SECRET" secret:"true" help:"whsec_… that verifies worker to control plane; several, comma-separated: any verifies (required)"`
	// NoticeURL hears of every outcome; its query may hold a password.
	NoticeURL string `env:"NOTICE_URL" secret:"true" help:"where outcomes are posted to, signed: delivered, failed, cancelled (default: nowhere)"`
	// NoticeSecrets sign notices.
	NoticeSecrets []webhook.Secret `env:"NOTICE_SECRET" secret:"true" help:"whsec_… that signs notices (required with NOTICE_URL); several, comma-separated: all sign"`

	// APIToken lets operators in on listeners that are not loopback, ReadToken people who only look; without them nobody is let in there.
	APIToken  Token `env:"API_TOKEN" secret:"true" help:"token of the operator API and the page, at least 16 characters; not needed on a loopback address"`
	ReadToken Token `env:"READ_TOKEN" secret:"true" help:"token that lets look but not act, at least 16 characters"`

	// Dispatch says which part of the analyses goes to the queue and which to the door.
	Dispatch string `env:"DISPATCH" envDefault:"queue" help:"where analyses go: queue, http, or http:25% for a part of them, always the same ones"`
	// DoorURL is where a worker, or a balancer before several, takes analyses.
	DoorURL string `env:"DOOR_URL" help:"the workers' HTTP door, as http://worker:8080/v1/jobs (required with DISPATCH other than queue)"`
	// DoorSecrets sign what is posted there.
	DoorSecrets []webhook.Secret `env:"DOOR_SECRET" secret:"true" help:"whsec_… that signs control plane to worker (required with DOOR_URL); several, comma-separated: all sign"`
	// RunTimeout bounds a round of an analysis.
	RunTimeout time.Duration `env:"RUN_TIMEOUT" envDefault:"24h" help:"how long an analysis may take from its submission on before it fails and its credit goes back, at least 1m"`

	// Fleet, and the bounds of its size, are read by package fleet.
	Fleet         string        `env:"FLEET" envDefault:"none" help:"who starts and ends workers: none (nobody here), local (processes of this machine, in number as there is work), ecs:CLUSTER/SERVICE (the desired count of that service)"`
	FleetMin      int           `env:"FLEET_MIN" envDefault:"0" help:"how many workers there are without work"`
	FleetMax      int           `env:"FLEET_MAX" envDefault:"1" help:"how many workers there are at most, 1 to 1000"`
	FleetInterval time.Duration `env:"FLEET_INTERVAL" envDefault:"5m" help:"how long there must have been too many workers before some are ended, 1s to 24h"`
	FleetSlots    int           `env:"FLEET_SLOTS" envDefault:"1" help:"how many analyses a worker of the fleet does at once, 1 to 256; as POSEFLEET_SLOTS of the workers"`

	LogFormat string     `env:"LOG_FORMAT" envDefault:"json" help:"json, or text for people"`
	LogLevel  slog.Level `env:"LOG_LEVEL" envDefault:"info" help:"debug, info, warn, error"`

	// Lease is how long a claim is held without a renewal, a whole number of seconds; 0 means 120 s.
	Lease time.Duration `env:"-"`
	// JobAttempts is how often the queue tries a job before it gives up; 0 means 3. JobBackoff is the first pause
	// between two tries, doubled each time; 0 means 5 s.
	JobAttempts int           `env:"-"`
	JobBackoff  time.Duration `env:"-"`
	// WorkerCommand and WorkerEnv start a worker of this machine; nil means this program with the word worker, and nothing beyond what fits this
	// control plane.
	WorkerCommand []string    `env:"-"`
	WorkerEnv     Environment `env:"-"`
	// Waker is what runs wake; nil means the fleet. Precheck looks at an analysis before its dispatch, Report does what follows a
	// delivery before the customer is told; see pipeline.Config. RunLook is how often a run looks after its analysis; 0 means 5 min.
	// RunTakeover is how long another control plane must be gone before its runs are taken over; 0 means 15 s.
	Waker    pipeline.Waker                              `env:"-"`
	Precheck func(context.Context, store.Analysis) error `env:"-"`
	Report   func(context.Context, store.Analysis) error `env:"-"`
	RunLook  time.Duration                               `env:"-"`

	RunTakeover time.Duration `env:"-"`
	// Point hears of places that the work passes, for tests that end the process there; see pipeline.Config, and KIND:carried for an entry
	// of the outbox that was carried out and is still there. Nil: nobody does.
	Point func(place string) `env:"-"`
	// OnSettled hears of every outcome at least once, also after a restart; an error is tried again. It is called by several goroutines at
	// once, for one analysis by one. Nil: nobody does.
	OnSettled func(context.Context, Settled) error `env:"-"`
	// Now is the clock of leases, URLs and signatures; nil means time.Now.
	Now func() time.Time `env:"-"`
}

// Settled is an analysis whose outcome has been decided.
type Settled struct {
	AnalysisID string
	// Outcome is delivered, failed or cancelled. A failed analysis that is retried is settled again.
	Outcome store.Status
}

// Token is the operators' password. No way of printing it shows it.
type Token string

// String returns a placeholder.
func (Token) String() string { return "[redacted]" }

// GoString returns a placeholder.
func (Token) GoString() string { return "[redacted]" }

// LogValue returns a placeholder.
func (Token) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// Bounds and defaults that the tags can't say.
const (
	minTokenLength     = 16
	defaultLease       = 120 * time.Second
	defaultJobAttempts = 3
	defaultJobBackoff  = 5 * time.Second
)

// LoadConfig reads and checks the configuration. environ holds variables by their full name, as from os.Environ with
// flags laid over it. The error joins a *ConfigError for each fault.
func LoadConfig(environ map[string]string) (Config, error) {
	var c Config
	unread := envconfig.Parse(&c, envconfig.Given(environ))

	c.WorkerEnv = workerEnviron(environ)

	return c, envconfig.Join(unread, c.Validate())
}

// setDefaults fills in what has no variable.
func (c *Config) setDefaults() {
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	if c.JobAttempts == 0 {
		c.JobAttempts = defaultJobAttempts
	}
	if c.JobBackoff == 0 {
		c.JobBackoff = defaultJobBackoff
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Point == nil {
		c.Point = func(string) {}
	}
	if c.OnSettled == nil {
		c.OnSettled = func(context.Context, Settled) error { return nil }
	}
}

// Validate returns every fault of the configuration as a *ConfigError, joined.
func (c *Config) Validate() error {
	return errors.Join(c.validateQueue(), c.validateAddresses(), c.validateStores(), c.validateRuns(), c.validateFleet(), c.validateRest())
}

func (c *Config) validateQueue() error {
	var errs []error
	redisURL := c.RedisURL
	if _, err := queue.ParseRedisURL(redisURL); err != nil {
		errs = append(errs, envconfig.Fault("REDIS_URL", "is not valid: %v", err))
		redisURL = "redis://127.0.0.1" // the names are judged all the same
	}
	q, err := queue.NewQueue(queue.Options{RedisURL: redisURL, Prefix: c.Prefix, Name: c.Queue})
	if err != nil {
		return errors.Join(append(errs, envconfig.Fault("QUEUE", "or %sPREFIX can't be used: %v", EnvPrefix, err))...)
	}

	return errors.Join(append(errs, q.Close())...)
}

func (c *Config) validateAddresses() error {
	var errs []error
	if _, err := net.ResolveTCPAddr("tcp", c.Listen); err != nil || c.Listen == "" {
		errs = append(errs, envconfig.Fault("LISTEN", "is no address to listen on, as :8080: %q", c.Listen))
	}
	if c.PublicURL == "" {
		return errors.Join(errs...)
	}
	u, err := url.Parse(c.PublicURL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		errs = append(errs, envconfig.Fault("PUBLIC_URL", "is no http or https URL"))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		errs = append(errs, envconfig.Fault("PUBLIC_URL", "must have no user, query or fragment"))
	}

	return errors.Join(errs...)
}

func (c *Config) validateStores() error {
	var errs []error
	if err := store.CheckURL(c.DatabaseURL); err != nil {
		errs = append(errs, envconfig.Fault("DATABASE_URL", "is not valid: %v", err))
	}
	if err := storage.CheckURL(c.StorageURL); err != nil {
		errs = append(errs, envconfig.Fault("STORAGE_URL", "is not valid: %v", err))
	}

	return errors.Join(errs...)
}

func (c *Config) validateRuns() error {
	var errs []error
	rollout, err := pipeline.ParseRollout(c.Dispatch)
	if err != nil {
		errs = append(errs, envconfig.Fault("DISPATCH", "%v", err))
	}
	if rollout.HTTP > 0 && c.DoorURL == "" {
		errs = append(errs, envconfig.Fault("DOOR_URL", "is required where analyses go by HTTP"))
	}
	if c.DoorURL != "" {
		u, err := url.Parse(c.DoorURL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
			errs = append(errs, envconfig.Fault("DOOR_URL", "is no http or https URL without a user"))
		}
		if len(c.DoorSecrets) == 0 {
			errs = append(errs, envconfig.Fault("DOOR_SECRET", "is required with %sDOOR_URL", EnvPrefix))
		}
	}
	if c.RunTimeout != 0 && c.RunTimeout < time.Minute {
		errs = append(errs, envconfig.Fault("RUN_TIMEOUT", "must be at least 1m, not %s", c.RunTimeout))
	}

	return errors.Join(errs...)
}

func (c *Config) validateRest() error {
	var errs []error
	if len(c.WorkerSecrets) == 0 {
		errs = append(errs, envconfig.Fault("WORKER_SECRET", "is required"))
	}
	if c.APIToken != "" && len(c.APIToken) < minTokenLength {
		errs = append(errs, envconfig.Fault("API_TOKEN", "must have at least %d characters", minTokenLength))
	}
	if c.ReadToken != "" && (len(c.ReadToken) < minTokenLength || c.ReadToken == c.APIToken) {
		errs = append(errs, envconfig.Fault("READ_TOKEN", "must have at least %d characters and differ from %sAPI_TOKEN", minTokenLength, EnvPrefix))
	}
	if c.NoticeURL != "" {
		u, err := url.Parse(c.NoticeURL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
			errs = append(errs, envconfig.Fault("NOTICE_URL", "is no http or https URL without a user"))
		}
		if len(c.NoticeSecrets) == 0 {
			errs = append(errs, envconfig.Fault("NOTICE_SECRET", "is required with %sNOTICE_URL", EnvPrefix))
		}
	}
	if c.LogFormat != "json" && c.LogFormat != "text" && c.LogFormat != "" {
		errs = append(errs, envconfig.Fault("LOG_FORMAT", "must be json or text, not %q", c.LogFormat))
	}
	if c.Lease < 0 || c.Lease%time.Second != 0 || c.JobAttempts < 0 || c.JobBackoff < 0 {
		errs = append(errs, errors.New("lease, job attempts and job backoff must not be negative, and the lease is in whole seconds"))
	}

	return errors.Join(errs...)
}

// warnings are what is strange and can work all the same.
func (c *Config) warnings() []string {
	var out []string
	if c.ReadToken != "" && c.APIToken == "" {
		out = append(out, EnvPrefix+"READ_TOKEN is set without "+EnvPrefix+"API_TOKEN: nobody may operate, except on a loopback address, where no token is asked for")
	}
	if rollout, err := pipeline.ParseRollout(c.Dispatch); err == nil && rollout.HTTP > 0 && c.Fleet == string(fleet.Local) {
		out = append(out, EnvPrefix+"DISPATCH sends a part to "+EnvPrefix+"DOOR_URL, which is no worker of "+EnvPrefix+"FLEET=local; "+
			"while that part waits, workers are started for it in vain")
	}

	return out
}

// publicURL is where callers reach the listener.
func (c *Config) publicURL(addr net.Addr) (*url.URL, error) {
	if c.PublicURL != "" {
		return url.Parse(c.PublicURL)
	}
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("the listener has no TCP address: %s", addr)
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}

	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(tcp.Port))}, nil
}
