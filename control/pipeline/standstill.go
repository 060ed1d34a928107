package pipeline

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// standstillQuiet is the least time between two lines that say that the runs in one step wait.
const standstillQuiet = time.Minute

// seldom is what is said once in a while, however often it happens. Its zero value has said nothing.
type seldom struct{ last time.Time }

// due tells whether it may be said now, and counts that as done.
func (s *seldom) due() bool {
	if !s.last.IsZero() && time.Since(s.last) < standstillQuiet {
		return false
	}
	s.last = time.Now()

	return true
}

// standstills speak for the runs that wait, in a step, for something that they all need. While Redis or the database is away each of them tries
// again and again: a line for each try would fill the log with one thing, and hide all others.
//
//	         first try that fails: "waits"                         last run gets through: "goes on"
//	quiet ────────────────────────────────▶ told ──────────────────────────────────────────────────▶ quiet
//	                                        └──┘ once a minute, at a try that fails: how many wait
//
// A fault that comes and goes is told once a minute as well.
type standstills struct {
	log *slog.Logger

	mu sync.Mutex
	// steps are those in which runs wait, or did lately, by id: as many as there are steps.
	steps map[string]*standstill
}

// standstill is that of one step.
type standstill struct {
	// waiting counts the tries of each run that waits.
	waiting map[*run]int
	// since is when the first of them began to wait, failures how many tries failed since the last line.
	since    time.Time
	failures int
	// told tells whether the log says that there are some; at is the time of the last line that said so.
	told bool
	at   time.Time
}

func newStandstills(log *slog.Logger) *standstills {
	return &standstills{log: log, steps: map[string]*standstill{}}
}

// waits notes a try that failed. The run is noted until it goes on.
func (s *standstills) waits(ctx context.Context, r *run, step string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	still := s.steps[step]
	if still == nil {
		still = &standstill{waiting: map[*run]int{}}
		s.steps[step] = still
	}
	if len(still.waiting) == 0 {
		still.since, still.failures = now, 0
	}
	still.waiting[r]++
	still.failures++
	if !still.at.IsZero() && now.Sub(still.at) < standstillQuiet {
		return
	}
	s.log.WarnContext(ctx, "a step of a run waits", slog.String("step", step), slog.Int("runs", len(still.waiting)),
		slog.Int("failures", still.failures), slog.Int64("for_ms", now.Sub(still.since).Milliseconds()),
		slog.String("analysis_id", r.in.AnalysisID), slog.Int("tries", still.waiting[r]), slog.Any("error", err))
	still.told, still.at, still.failures = true, now, 0
}

// goesOn notes that a run does not wait in the step any more: it got through, or the process ends.
func (s *standstills) goesOn(ctx context.Context, r *run, step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	still := s.steps[step]
	if still == nil || still.waiting[r] == 0 {
		return
	}
	delete(still.waiting, r)
	if len(still.waiting) > 0 || !still.told {
		return
	}
	still.told = false
	if ctx.Err() == nil {
		s.log.InfoContext(ctx, "a step of runs goes on", slog.String("step", step), slog.Int64("after_ms", time.Since(still.since).Milliseconds()))
	}
}
