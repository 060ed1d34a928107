package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// Waker gets the fleet ready for work.
type Waker interface {
	// Wake asks for workers and tells whether some are ready, or else after how long to ask again. It does not wait for them.
	Wake(ctx context.Context) (ready bool, again time.Duration, err error)
}

// Refusal is a reason why an analysis can't be worked on, for good.
//
//nolint:errname // what it is, in the words of who returns it; also kept with runs as their fault
type Refusal struct {
	Code    protocol.Code
	Message string
}

// Error tells code and message.
func (r *Refusal) Error() string { return string(r.Code) + ": " + r.Message }

// Optional is a step that came later than the runs which may be under way. A run has it if On was true when the run began.
type Optional struct {
	// ID is the step's for good; Before is the step it comes before. Steps before the same one run in the order of Config.Optional.
	ID     string
	Before string
	On     bool
	// Run does it. A *Refusal fails the round, as does any other error after four retries.
	Run func(ctx context.Context, a store.Analysis) error
}

// Config says what a pipeline works with.
type Config struct {
	// DatabaseURL is that of the store: the steps are kept beside it.
	DatabaseURL string
	// Store holds the truth.
	Store store.Store
	// Rollout says which way an analysis goes; the zero value is the queue.
	Rollout Rollout
	// Waker is the fleet; nil is always awake.
	Waker Waker
	// Precheck looks at an analysis before it is dispatched; nil accepts all. A *Refusal fails the round, as does any other error after four
	// retries.
	Precheck func(ctx context.Context, a store.Analysis) error
	// Report does what follows a delivery before the customer is told; nil does nothing. It may run more than once. After four retries the
	// round goes on without it.
	Report func(ctx context.Context, a store.Analysis) error
	// Alive tells whether a dispatched analysis that nobody holds still waits somewhere; nil believes so.
	Alive func(ctx context.Context, r store.Run) (bool, error)
	// Optional are later steps.
	Optional []Optional
	// OnWrite hears of every write that others may wait for: the outbox may have an entry, the page something to show. May be nil.
	OnWrite func(analysisID string)
	// Limit is how long a round may take from its first step on, at least a minute; 0 means 24 h. A followed run has none.
	Limit time.Duration
	// Look is how often a run that was told nothing looks whether its analysis is still somewhere, at least 10 ms; 0 means 5 min.
	Look time.Duration
	// Poll is how often decisions of other processes are looked for, at least 10 ms; 0 means 2 s.
	Poll time.Duration
	// Takeover is how long a process on the same Postgres must be gone or silent before others go on with its runs, at least 1 s; 0 means 15 s.
	Takeover time.Duration
	// Now is the store's clock; nil means time.Now.
	Now func() time.Time
	// Logger hears of faults; nil means nobody does.
	Logger *slog.Logger
	// Point hears of places that runs pass, for tests that end the process there: STEP:begin, STEP:done, STEP:kept. May be nil.
	Point func(place string)
}

// Defaults.
const (
	defaultLimit = 24 * time.Hour
	defaultLook  = 5 * time.Minute
	defaultPoll  = 2 * time.Second
	shortestTime = 10 * time.Millisecond

	defaultTakeover  = 15 * time.Second
	shortestTakeover = time.Second
)

// Validate returns every fault, joined.
func (c *Config) Validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("a pipeline needs a store"))
	}
	if c.Limit != 0 && c.Limit < time.Minute {
		errs = append(errs, fmt.Errorf("a round takes at least a minute, not %s", c.Limit))
	}
	for name, d := range map[string]time.Duration{"look": c.Look, "poll": c.Poll} {
		if d != 0 && d < shortestTime {
			errs = append(errs, fmt.Errorf("%s must be at least %s, not %s", name, shortestTime, d))
		}
	}
	if c.Takeover != 0 && c.Takeover < shortestTakeover {
		errs = append(errs, fmt.Errorf("takeover must be at least %s, not %s", shortestTakeover, c.Takeover))
	}
	seen := map[string]bool{}
	for _, id := range stepIDs() {
		seen[id] = true
	}
	for _, o := range c.Optional {
		if seen[o.ID] || o.ID == "" || o.Run == nil {
			errs = append(errs, fmt.Errorf("optional step %q has no function or no id of its own", o.ID))
		}
		seen[o.ID] = true
		if !optionalBefore(o.Before) {
			errs = append(errs, fmt.Errorf("optional step %q: there is no place before %q", o.ID, o.Before))
		}
	}

	return errors.Join(errs...)
}

func (c *Config) setDefaults() {
	c.Limit, c.Look, c.Poll = cmp.Or(c.Limit, defaultLimit), cmp.Or(c.Look, defaultLook), cmp.Or(c.Poll, defaultPoll)
	c.Takeover = cmp.Or(c.Takeover, defaultTakeover)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Alive == nil {
		c.Alive = func(context.Context, store.Run) (bool, error) { return true, nil }
	}
	if c.OnWrite == nil {
		c.OnWrite = func(string) {}
	}
	if c.Point == nil {
		c.Point = func(string) {}
	}
}
