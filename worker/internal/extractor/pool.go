// Package extractor supervises the extractor processes: any program that speaks the JSON lines of the contract's
// section 6 over stdin and stdout.
//
// A Pool keeps one process per slot for many jobs. Each process is the leader of its own process group, has a lower
// CPU priority than the worker and an environment without secrets, so that a crash, a hang or a leak costs one
// attempt of one job and never delays a lock renewal.
//
//	          hello in time              job comes
//	starting ---------------> idle <------------------> busy
//	  ^  \ no hello            \ exit, garbage     / exit, garbage, cancel
//	  |   '--- ended <----------'-----------------'
//	  '-- back-off ---'
//
// Ended means: the leader has exited, its whole group was killed, and every child was reaped.
package extractor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// ErrStopped is returned for jobs that come after the pool has ended.
var ErrStopped = errors.New("the extractor pool has stopped")

// Reason says why a process had to be started again.
type Reason string

// Reasons of a restart; they are the label values of a metric, so the list is closed.
const (
	ReasonCrash     Reason = "crash"     // exited by itself
	ReasonGarbage   Reason = "garbage"   // said something that is no message
	ReasonTimeout   Reason = "timeout"   // killed because a job ran over time
	ReasonCancelled Reason = "cancelled" // killed because a job was cancelled
	ReasonHello     Reason = "hello"     // could not be started or did not say hello
)

// Reasons lists all reasons.
func Reasons() []Reason {
	return []Reason{ReasonCrash, ReasonGarbage, ReasonTimeout, ReasonCancelled, ReasonHello}
}

// Config of a Pool. Zero durations and sizes mean the defaults.
type Config struct {
	// Command is the program and its arguments; no shell is involved. Required.
	Command []string
	// Env is the whole environment of the process, without TMPDIR.
	Env []string
	// Count is the number of processes, one per slot. Required, at least 1.
	Count int
	// TempDir is the parent of the processes' own TMPDIRs, which are emptied after each job. Required.
	TempDir string
	// Nice is the CPU priority, 0 to 19. Default 10.
	Nice int
	// HelloTimeout bounds the time from start to hello, model loading included. Default 60 s.
	HelloTimeout time.Duration
	// KillDelay is the time between SIGTERM and SIGKILL. Default 2 s.
	KillDelay time.Duration
	// BackoffMin and BackoffMax bound the wait after a start that failed. Defaults 250 ms and 30 s.
	BackoffMin, BackoffMax time.Duration
	// MaxLine is the longest message in bytes. Default 1 MiB.
	MaxLine int
	// TimeoutCause is the context cause that means "over time"; a job that ends by it is ReasonTimeout.
	TimeoutCause error
	// OnRestart is told of each process that has to be replaced. May be nil.
	OnRestart func(Reason)
	// Logger gets the processes' stderr and the supervisor's own words. Default none.
	Logger *slog.Logger
}

func (c *Config) setDefaults() {
	c.Nice = defaultTo(c.Nice, 10)
	c.HelloTimeout = defaultTo(c.HelloTimeout, time.Minute)
	c.KillDelay = defaultTo(c.KillDelay, 2*time.Second)
	c.BackoffMin = defaultTo(c.BackoffMin, 250*time.Millisecond)
	c.BackoffMax = defaultTo(c.BackoffMax, 30*time.Second)
	c.MaxLine = defaultTo(c.MaxLine, 1<<20)
	if c.OnRestart == nil {
		c.OnRestart = func(Reason) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func defaultTo[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

// Pool keeps Count extractor processes alive while Run runs.
type Pool struct {
	cfg  Config
	jobs chan *request // taken by whichever process is idle
	done chan struct{} // closed when Run has ended

	mu      sync.Mutex
	hello   *protocol.ExtractorHello // of the latest start; written by the supervisors, read by Hello
	broken  int                      // processes whose last start failed; written by the supervisors
	changed chan struct{}            // closed and replaced when hello or broken change
}

// New checks the configuration; Run starts the processes.
func New(cfg Config) (*Pool, error) {
	if len(cfg.Command) == 0 || cfg.Count < 1 || cfg.TempDir == "" {
		return nil, errors.New("an extractor pool needs a command, a count and a folder for temporary files")
	}
	cfg.setDefaults()
	return &Pool{
		cfg: cfg, jobs: make(chan *request), done: make(chan struct{}),
		changed: make(chan struct{}),
	}, nil
}

// Run keeps the processes alive until ctx ends, then ends them all and returns when the last one was reaped.
func (p *Pool) Run(ctx context.Context) error {
	defer close(p.done)
	adoptOrphans()
	var wg sync.WaitGroup
	for i := range p.cfg.Count {
		wg.Go(func() { newSupervisor(p, i).run(ctx) }) // ends with ctx
	}
	wg.Wait()
	return nil
}

// Hello returns what the extractor said of itself at its latest start, and whether it has said hello at all.
func (p *Pool) Hello() (protocol.ExtractorHello, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hello == nil {
		return protocol.ExtractorHello{}, false
	}
	return *p.hello, true
}

// Usable tells whether a job would find a process: one has said hello, and not every last start failed. The channel
// is closed when the answer may have changed.
func (p *Pool) Usable() (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hello != nil && p.broken < p.cfg.Count, p.changed
}

// Extract runs one job on the next idle process and calls progress from another goroutine. When ctx ends the
// process is killed; Extract returns when it is gone. Every error is a *protocol.Fault; one that comes from ctx
// wraps its cause. The model is the one that made the document.
func (p *Pool) Extract(ctx context.Context, job protocol.ExtractorJob, progress func(float64)) (Result, error) {
	for range sendTries {
		got := p.hand(ctx, job, progress)
		switch {
		case errors.Is(got.err, errLeftover): // the process is gone, but it may have begun with this job
			if err := emptyTemp(job.OutDir); err != nil {
				return Result{}, protocol.AsFault(err)
			}
		case !errors.Is(got.err, errUnsent):
			return got.result, got.err
		}
	}
	return Result{}, protocol.NewRetryableFault(protocol.CodeExtractorCrashed, "the extractor ends as soon as it has started, or goes on about jobs that have ended")
}

// hand gives the job to the next idle process and waits for its end.
func (p *Pool) hand(ctx context.Context, job protocol.ExtractorJob, progress func(float64)) reply {
	req := &request{ctx: ctx, job: job, progress: progress, reply: make(chan reply, 1)}
	select {
	case p.jobs <- req:
		return <-req.reply // the supervisor always replies
	case <-ctx.Done():
		return reply{err: p.endedBy(ctx)}
	case <-p.done:
		return reply{err: stoppedFault()}
	}
}

// Result is a finished job.
type Result struct {
	protocol.ExtractorResult
	// Path of the artifact, a regular file below the job's OutDir, and its Size in bytes.
	Path string
	Size int64
	// Model made the points.
	Model protocol.Model
}

// request is one job on its way to a process; reply gets exactly one value.
type request struct {
	ctx      context.Context //nolint:containedctx // the job's own context travels with it
	job      protocol.ExtractorJob
	progress func(float64)
	reply    chan reply
}

type reply struct {
	result Result
	err    error
}

func (p *Pool) said(h protocol.ExtractorHello, wasBroken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hello = &h
	if wasBroken {
		p.broken--
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Pool) startFailed(wasBroken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !wasBroken {
		p.broken++
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Pool) endedBy(ctx context.Context) *protocol.Fault {
	cause := context.Cause(ctx)
	if p.cfg.TimeoutCause != nil && errors.Is(cause, p.cfg.TimeoutCause) {
		return protocol.NewRetryableFault(protocol.CodeExtractorTimeout, "the extraction did not end in time").WithCause(cause)
	}
	return protocol.NewRetryableFault(protocol.CodeExtractorFailed, "the extraction was cancelled").WithCause(cause)
}

func stoppedFault() *protocol.Fault {
	return protocol.NewRetryableFault(protocol.CodeExtractorFailed, "the extractor is stopped").WithCause(ErrStopped)
}

// emptyTemp makes dir an empty folder.
func emptyTemp(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("empty extractor folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make extractor folder: %w", err)
	}
	return nil
}

func tempDir(parent string, slot int) string {
	return filepath.Join(parent, fmt.Sprintf("slot-%d", slot))
}
