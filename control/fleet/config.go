package fleet

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds of the configuration.
const (
	MaxWorkers  = 1000
	MaxSlots    = 256
	MinInterval = time.Second
	MaxInterval = 24 * time.Hour
)

// Times that are no setting: they follow from each other.
const (
	// lease is how long the decider may be silent before another decides; renewAt is what must be left of it before a pass.
	lease   = 10 * time.Second
	renewAt = lease * 2 / 3
	// callMost bounds a call of the platform, callMargin is how long before the lease's end it is given up.
	callMost   = 8 * time.Second
	callMargin = time.Second
	// look is how often the demand is read without being told.
	look = 2 * time.Second
	// verify is how often the platform is looked at while there is work.
	verify = 15 * time.Second
	// settle is how long the platform may show another count than it was asked for.
	settle = 10 * time.Second
	// retryFirst and retryMost bound the pause after a fault, doubled each time.
	retryFirst = 250 * time.Millisecond
	retryMost  = 15 * time.Second
	// complainAgain is how often a fault that stays is said.
	complainAgain = time.Minute
	// A wake request asks for a worker as long as Interval says, within these bounds: until the work that it announces is written.
	wakeLeast = 5 * time.Second
	wakeLong  = time.Minute
	// wakeMost bounds Wake.
	wakeMost = 2 * time.Second
)

// Kind is a driver.
type Kind string

// Kinds of drivers.
const (
	None  Kind = "none"
	Local Kind = "local"
	ECS   Kind = "ecs"
)

// Target is where the workers are.
type Target struct {
	Kind Kind
	// Cluster and Service name the service of Kind ECS.
	Cluster, Service string
}

var errTarget = errors.New("must be none, local, or ecs:CLUSTER/SERVICE")

// ParseTarget reads "none", "local" or "ecs:CLUSTER/SERVICE"; "" means none.
func ParseTarget(s string) (Target, error) {
	switch s {
	case "", string(None):
		return Target{Kind: None}, nil
	case string(Local):
		return Target{Kind: Local}, nil
	}
	name, ok := strings.CutPrefix(s, string(ECS)+":")
	cluster, service, both := strings.Cut(name, "/")
	if !ok || !both || !plain(cluster) || !plain(service) {
		return Target{}, fmt.Errorf("%w, not %q", errTarget, s)
	}

	return Target{Kind: ECS, Cluster: cluster, Service: service}, nil
}

// plain tells whether s is a name of ECS: letters, digits, - and _, at most 255.
func plain(s string) bool {
	return s != "" && len(s) <= 255 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// Config is how a fleet is sized.
type Config struct {
	// Min and Max bound the number of workers: 0 to MaxWorkers. Busy workers stay, also above Max.
	Min, Max int
	// Slots is how many analyses a worker does at once, 1 to MaxSlots.
	Slots int
	// Interval is how long work must have needed fewer workers before there are fewer, and how long an idle platform is not looked at;
	// MinInterval to MaxInterval.
	Interval time.Duration
	// Owner names the process, and another process only after this one has ended: its address.
	Owner string
	// Now is the store's clock; nil means time.Now.
	Now func() time.Time
}

// wakeFor is how long a wake request asks for a worker.
func (c *Config) wakeFor() time.Duration { return min(max(c.Interval, wakeLeast), wakeLong) }

// Faults of a Config.
var (
	ErrMax      = fmt.Errorf("must be 1 to %d", MaxWorkers)
	ErrMin      = errors.New("must be 0 to the most workers")
	ErrSlots    = fmt.Errorf("must be 1 to %d", MaxSlots)
	ErrInterval = fmt.Errorf("must be %s to %s", MinInterval, MaxInterval)
)

// Validate returns every fault, joined.
func (c *Config) Validate() error {
	var errs []error
	if c.Max < 1 || c.Max > MaxWorkers {
		errs = append(errs, ErrMax)
	}
	if c.Min < 0 || c.Min > max(c.Max, 0) {
		errs = append(errs, ErrMin)
	}
	if c.Slots < 1 || c.Slots > MaxSlots {
		errs = append(errs, ErrSlots)
	}
	if c.Interval < MinInterval || c.Interval > MaxInterval {
		errs = append(errs, ErrInterval)
	}

	return errors.Join(errs...)
}
