package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

const (
	// progressInterval is the shortest time between two progress writes of one job.
	progressInterval = time.Second
	// journalWrite bounds one write; a slow Redis costs a line, never the job's time.
	journalWrite = 2 * time.Second
	// journalLines bounds what is kept while Redis is away.
	journalLines = 64
)

// journalSink is where a queue job's progress and log go.
type journalSink interface {
	UpdateProgress(ctx context.Context, progress any) error
	Log(ctx context.Context, line string) error
}

// journal writes a run's progress and log lines to the queue without ever making the run wait. Progress is
// coalesced to the newest value and written at most once a second, and once more at the end.
type journal struct {
	sink journalSink
	log  *slog.Logger
	wake chan struct{} // holds one token while there is something to write
	stop chan struct{} // closed by close
	done chan struct{} // closed when the last line is written

	mu       sync.Mutex
	progress *protocol.Progress // newest value that is not written; nil if none
	lines    []string
}

// startJournal starts the writer; it ends with close. A nil sink makes a journal that keeps nothing.
func startJournal(ctx context.Context, sink journalSink, log *slog.Logger) *journal {
	j := &journal{
		sink: sink, log: log,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if sink == nil {
		close(j.done)
		return j
	}
	go j.run(ctx) // ends with close
	return j
}

// setProgress notes the newest progress.
func (j *journal) setProgress(p protocol.Progress) {
	if j.sink == nil {
		return
	}
	j.mu.Lock()
	j.progress = &p
	j.mu.Unlock()
	j.ring()
}

// line notes one line of the job's log.
func (j *journal) line(text string) {
	if j.sink == nil {
		return
	}
	j.mu.Lock()
	if len(j.lines) < journalLines {
		j.lines = append(j.lines, text)
	}
	j.mu.Unlock()
	j.ring()
}

// close writes what is left, waiting at most wait, so that it is there before the job is finished. A wait of 0 means
// that the job is another's by now: its progress is not ours to write.
func (j *journal) close(wait time.Duration) {
	if wait <= 0 {
		j.mu.Lock()
		j.progress = nil
		j.mu.Unlock()
	}
	close(j.stop)
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-j.done:
	case <-t.C:
	}
}

func (j *journal) ring() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *journal) run(ctx context.Context) {
	defer close(j.done)
	var last time.Time // of the last progress write
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-j.wake:
		case <-due.C:
		case <-j.stop:
			j.writeLines(ctx)
			j.writeProgress(ctx) // however short ago the last one was: no other write comes after it
			return
		}
		j.writeLines(ctx)
		if wait := progressInterval - time.Since(last); wait > 0 {
			due.Reset(wait)
		} else if j.writeProgress(ctx) {
			last = time.Now()
		}
	}
}

func (j *journal) writeLines(ctx context.Context) {
	j.mu.Lock()
	lines := j.lines
	j.lines = nil
	j.mu.Unlock()
	for _, line := range lines {
		j.write(ctx, func(ctx context.Context) error { return j.sink.Log(ctx, line) })
	}
}

// writeProgress tells whether there was something to write.
func (j *journal) writeProgress(ctx context.Context) bool {
	j.mu.Lock()
	p := j.progress
	j.progress = nil
	j.mu.Unlock()
	if p == nil {
		return false
	}
	j.write(ctx, func(ctx context.Context) error { return j.sink.UpdateProgress(ctx, *p) })
	return true
}

// write does one bounded write. A lost line is no reason to stop a job, so a fault is only logged.
func (j *journal) write(ctx context.Context, f func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, journalWrite)
	defer cancel()
	if err := f(ctx); err != nil {
		j.log.Debug("journal line lost", slog.String("error", err.Error()))
	}
}
