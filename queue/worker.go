package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Defaults of WorkerOptions, which are BullMQ's.
const (
	DefaultLockDuration    = 30 * time.Second
	DefaultStalledInterval = 30 * time.Second
	DefaultMaxStalledCount = 1
	DefaultDrainDelay      = 5 * time.Second
)

// Bounds of one blocking read.
const (
	maxBlock    = 10 * time.Second
	minBlock    = 2 * time.Millisecond // servers before 7.0.8 take less for "for ever"
	blockMargin = 1500 * time.Millisecond
)

// ErrBadWorkerOptions says that a worker can't be made like that.
var ErrBadWorkerOptions = errors.New("bad worker options")

// WorkerOptions configure a Worker. Begin with DefaultWorkerOptions.
type WorkerOptions struct {
	Options

	// WorkerName is shown by tools and stored with each job that the worker takes. Optional.
	WorkerName string
	// Concurrency is how many jobs run at once if Gate is nil, at least 1.
	Concurrency int
	// Gate is the capacity, shared with others; nil: Concurrency slots of its own.
	Gate Gate
	// LockDuration is how long a job stays ours without a renewal.
	LockDuration time.Duration
	// LockRenewTime is the age at which a lock is renewed at the latest; half of it is the renewal's period. Default and upper bound:
	// half of LockDuration and less than LockDuration.
	LockRenewTime time.Duration
	// StalledInterval is the time between two looks for jobs without a worker; a job is found by the second look.
	StalledInterval time.Duration
	// MaxStalledCount is how often a job may be found so before it is failed; 0 is a valid number.
	MaxStalledCount int
	// DrainDelay is the longest block on an empty queue, at most 10 s.
	DrainDelay time.Duration
	// RemoveOnComplete and RemoveOnFail are the keep rules of jobs that have none; nil: keep all.
	RemoveOnComplete, RemoveOnFail *Keep
	// Limiter bounds the starts of all workers of the queue together; nil: unless the queue has a global limit, none.
	Limiter *Limiter
	// MaxStartedAttempts fails a job that starts more often than that; 0: no bound.
	MaxStartedAttempts int
	// MetricsPoints is how many minutes of BullMQ's per-minute series are kept; 0: none are written.
	MetricsPoints int
	// BackoffStrategy is the pause of backoff types other than fixed and exponential; 0 retries at once, a negative one fails for good.
	BackoffStrategy func(attempt int, kind string, err error, j *Job) time.Duration
	// BeforeClaim runs before each claim while no slot is held. After an error nothing is claimed and the worker tries again later.
	BeforeClaim func(ctx context.Context) error
	// OnDeferredFailure runs before a job is failed without its handler: it stalled too often, or a child of it failed.
	OnDeferredFailure func(ctx context.Context, j *Job, reason string)
	// Observer is told what happens; nil: nobody.
	Observer Observer
}

// Limiter allows Max starts in each Duration.
type Limiter struct {
	Max      int
	Duration time.Duration
}

// DefaultWorkerOptions are BullMQ's defaults; RedisURL and Name are missing.
func DefaultWorkerOptions() WorkerOptions {
	return WorkerOptions{
		Options:         Options{Prefix: DefaultPrefix},
		Concurrency:     1,
		LockDuration:    DefaultLockDuration,
		LockRenewTime:   DefaultLockDuration / 2,
		StalledInterval: DefaultStalledInterval,
		MaxStalledCount: DefaultMaxStalledCount,
		DrainDelay:      DefaultDrainDelay,
	}
}

// Validate joins all faults of the options.
func (o *WorkerOptions) Validate() error {
	var errs []error

	check := func(ok bool, what string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: %s", ErrBadWorkerOptions, what))
		}
	}

	_, _, _, err := o.resolve()
	errs = append(errs, err)

	check(o.Gate != nil || o.Concurrency >= 1, "concurrency must be at least 1")
	check(o.LockDuration >= 10*time.Millisecond, "lock duration must be at least 10ms")
	check(o.LockRenewTime > 0 && o.LockRenewTime < o.LockDuration, "lock renew time must be above 0 and below the lock duration")
	check(o.StalledInterval >= time.Millisecond, "stalled interval must be above 0")
	check(o.MaxStalledCount >= 0, "max stalled count can't be negative")
	check(o.DrainDelay >= time.Millisecond && o.DrainDelay <= maxBlock, "drain delay must be between 1ms and 10s")
	check(o.MaxStartedAttempts >= 0, "max started attempts can't be negative")
	check(o.MetricsPoints >= 0, "metrics points can't be negative")
	check(o.Limiter == nil || (o.Limiter.Max > 0 && o.Limiter.Duration >= time.Millisecond), "a limiter needs a max and a duration")

	return errors.Join(errs...)
}

// Handler works on one job. ctx ends when the worker is stopped hard, CancelJob is called, or the lock is lost (cause ErrLockLost); the
// handler is to return soon then. See the file outcome.go for what its error means; result is stored as JSON.
type Handler func(ctx context.Context, j *Job) (result any, err error)

// Worker takes jobs and runs a Handler on them. It has one goroutine per actor:
//
//	fetcher   waits for capacity and for the marker, claims (fetch.go)
//	jobs      one goroutine a slot: handler, then the write of its outcome (execute.go, finish.go), in one call with the outcomes of
//	          others and with the take of the jobs that go on in the slots (exchange.go)
//	renewer   renews all locks in one call (locks.go)
//	checker   puts jobs back that have lost their worker (stalled.go)
//
// Fetcher, renewer and the rest have connections of their own, so that none waits for another's call.
type Worker struct {
	opts    WorkerOptions
	handler Handler
	keys    keys
	scripts *scripts
	log     *slog.Logger
	watch   Observer
	gate    Gate
	id      string // makes tokens unique

	base   redis.UniversalOptions
	client *line // a pool: finish, progress, log, stalled check
	block  *line // BZPOPMIN only; carries the name
	claims *line // take, reclaim, rewake
	renew  *line // extend

	started  atomic.Bool
	stopped  atomic.Bool  // nothing is taken any more
	claimed  atomic.Int64 // claims, for their tokens
	taken    atomic.Int64 // jobs, for their order
	doubts   doubts
	exchange exchange
	draining chan struct{} // closed by Drain
	drain    sync.Once
	jobs     sync.WaitGroup // running jobs
	held     holds
	state    fetchState
	heldBack atomic.Bool // the last claim met a used-up global concurrency
	brake    brake
	slots    *Slots // the gate, if it is the worker's own
	// interrupted: the fetcher's wait was cut by ourselves, its error is no trouble.
	interrupted atomic.Bool
}

// WorkerStatus is a moment in a worker's life.
type WorkerStatus struct {
	// LastFetch is the end of the last fetch round that Redis answered, found or not; zero: none yet.
	LastFetch time.Time
	// Blocked: the fetcher waits for the queue's marker.
	Blocked bool
	// AwaitingSlot: the fetcher waits for capacity, so that no fetch round can be expected.
	AwaitingSlot bool
	// Paused: nothing is fetched until Resume.
	Paused bool
	// Draining: nothing is fetched any more.
	Draining bool
	// Active is how many jobs run.
	Active int
	// LowestLock is the shortest time that a lock of a running job still has by our clock; 0 if none runs.
	LowestLock time.Duration
}

// NewWorker checks the options. It does not connect.
func NewWorker(o WorkerOptions, h Handler) (*Worker, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("new worker: %w", err)
	}

	if h == nil {
		return nil, fmt.Errorf("new worker: %w: no handler", ErrBadWorkerOptions)
	}

	base, k, log, err := o.resolve()
	if err != nil {
		return nil, fmt.Errorf("new worker: %w", err)
	}

	s, err := loadScripts()
	if err != nil {
		return nil, err
	}

	w := &Worker{
		opts: o, handler: h, keys: k, scripts: s, log: log, watch: o.Observer, gate: o.Gate, id: newUUID(), base: base,
		draining: make(chan struct{}),
	}
	if w.watch == nil {
		w.watch = NopObserver{}
	}

	if w.gate == nil {
		w.slots = NewGate(o.Concurrency)
		w.gate = w.slots
	}

	w.exchange.w = w
	w.connect()

	return w, nil
}

// connect makes the clients; they dial when they are used.
func (w *Worker) connect() {
	kind := ""
	if w.opts.WorkerName != "" {
		kind = ":w:" + printable(w.opts.WorkerName)
	}

	// Several tries have to fit between the time of renewal and the end of the lock.
	renewal := min(max(w.opts.LockDuration/4, 50*time.Millisecond), commandTimeout)

	w.client = newHub(w.base)
	w.claims = newLine(w.base, profile{timeout: commandTimeout})
	w.renew = newLine(w.base, profile{timeout: renewal})
	w.block = newLine(w.base, profile{timeout: maxBlock + blockMargin, name: w.keys.clientName(kind), onName: func(err error) {
		w.log.Warn("Redis refuses the connection's name; tools will not list this worker", slog.Any("error", err))
	}})
}

// Run works until Drain has been called and the last job is done (nil), or until ctx has ended (its cause): then the handlers'
// contexts are cancelled and Run returns when their outcomes have been written. It lives through any failure of Redis. A Worker
// runs once.
func (w *Worker) Run(ctx context.Context) error {
	if !w.started.CompareAndSwap(false, true) {
		return fmt.Errorf("run worker: %w", ErrAlreadyRan)
	}
	defer w.disconnect()

	aside, stopAside := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAside()

	var actors sync.WaitGroup

	actors.Go(func() { w.renewLocks(aside) })
	actors.Go(func() { w.checkStalled(aside) })

	f := w.fetchUntilStopped(ctx)
	w.jobs.Wait()
	f.giveBackDoubtful(ctx) // of claims that were made with the last finishes
	w.jobs.Wait()
	stopAside()
	actors.Wait()

	select {
	case <-w.draining:
		return nil
	default:
		return context.Cause(ctx)
	}
}

// fetchUntilStopped runs the fetcher; Drain and the end of ctx stop it, also while it blocks in Redis.
func (w *Worker) fetchUntilStopped(ctx context.Context) *fetcher {
	fetching, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	var guard sync.WaitGroup

	// Ends with the fetcher at the latest: its context ends below.
	guard.Go(func() {
		select {
		case <-w.draining:
			stop(ErrDraining)
		case <-fetching.Done():
		}

		w.stopped.Store(true)
		w.block.close()
	})

	f := newFetcher(w)
	f.run(fetching, ctx)
	stop(ErrDraining)
	guard.Wait()

	return f
}

func (w *Worker) disconnect() {
	w.block.close()
	w.claims.close()
	w.renew.close()
	w.client.close()
}

// Drain stops fetching at once. Running jobs go on with their locks renewed, and Run returns nil when the last of them has ended.
func (w *Worker) Drain() {
	w.stopped.Store(true)
	w.drain.Do(func() { close(w.draining) })
}

// CancelJob ends the context of a running job with the cause; false if the worker does not run it. What becomes of the job is up to the
// error that its handler returns then.
func (w *Worker) CancelJob(id string, cause error) bool {
	h := w.held.find(id)
	if h == nil {
		return false
	}

	h.cancel(cause)

	return true
}

// Status tells how the worker does.
func (w *Worker) Status() WorkerStatus {
	s := w.state.snapshot()
	s.Active, s.LowestLock = w.held.summary(time.Now())
	s.Paused = w.brake.paused()

	select {
	case <-w.draining:
		s.Draining = true
	default:
	}

	return s
}
