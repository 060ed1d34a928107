package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// watchInterval is short against a stage and long against a read of Redis.
const watchInterval = 150 * time.Millisecond

// watcher shows a job's life on the terminal as any BullMQ dashboard could: its log lines, one per stage, and its progress.
type watcher struct {
	queue *queue.Queue
	term  *terminal
	fleet *fleetWatcher
	id    string
	// until ends the watch early: in this stage of the work.
	until func(protocol.Progress) bool

	shown   int // log lines that were printed
	started int // starts of the job that were seen
}

// follow watches until the job is finished, by success or for good by failure, has come as far as until says, or ctx ends.
func (w *watcher) follow(ctx context.Context) (*queue.Job, error) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()

	for {
		if err := w.fleet.look(ctx); err != nil {
			return nil, err
		}

		job, err := w.look(ctx)
		if err != nil || !job.FinishedOn.IsZero() || w.reached(job) {
			w.term.clear()

			return job, err
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			w.term.clear()

			return nil, context.Cause(ctx)
		}
	}
}

func (w *watcher) look(ctx context.Context) (*queue.Job, error) {
	// The job first: lines that belong to its end are there by then.
	job, err := w.queue.Job(ctx, w.id)
	if err != nil {
		return nil, fmt.Errorf("watch job: %w", err)
	}

	if job.AttemptsStarted > w.started {
		if w.started > 0 {
			w.term.line("again", "start %d of the job: %s", job.AttemptsStarted, cmp.Or(job.FailedReason, "the lock of its worker has run out"))
		}

		w.started = job.AttemptsStarted
		w.fleet.works()
	}

	lines, err := w.queue.Logs(ctx, w.id)
	if err != nil {
		return nil, fmt.Errorf("watch job: %w", err)
	}

	for _, line := range lines[min(w.shown, len(lines)):] {
		w.term.line("", "%s", line)
	}

	w.shown = max(w.shown, len(lines))
	w.progress(job)

	return job, nil
}

func (w *watcher) progress(job *queue.Job) {
	if p, ok := progressOf(job); ok && job.FinishedOn.IsZero() {
		w.term.bar(string(p.Stage), p.Done)
	}
}

// reached tells whether the work is where the watch is to end.
func (w *watcher) reached(job *queue.Job) bool {
	p, ok := progressOf(job)

	return ok && w.until != nil && w.until(p)
}

func progressOf(job *queue.Job) (p protocol.Progress, ok bool) {
	return p, json.Unmarshal(job.Progress, &p) == nil && p.Stage != ""
}
