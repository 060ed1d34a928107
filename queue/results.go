package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

const (
	// recentResults is how many ends are remembered for those who ask late.
	recentResults = 10000
	// recheckWaited is how often the jobs that are waited for are looked at: some ways to go, such as Drain, make no event.
	recheckWaited = 3 * time.Second
)

// JobFailedError is the answer of Wait for a job that has failed for good.
type JobFailedError struct {
	JobID, Reason string
}

// Error implements error.
func (e *JobFailedError) Error() string { return fmt.Sprintf("job %s failed: %s", e.JobID, e.Reason) }

// Results waits for jobs to finish, any number at once over one connection. It remembers the ends that it has seen, so that a job which
// was removed the moment it finished has a result all the same, as long as Run was ready before that.
type Results struct {
	q      *Queue
	events *Events

	mu      sync.Mutex
	waiters map[string][]chan ending // by job id
	recent  map[string]ending
	order   []string // of recent, a ring
	next    int
	seen    string // id of the newest event
	moved   chan struct{}
}

// ending is what became of a job.
type ending struct {
	value json.RawMessage
	err   error
}

// NewResults checks the options. It does not connect.
func NewResults(o Options) (*Results, error) {
	q, err := NewQueue(o)
	if err != nil {
		return nil, fmt.Errorf("new results: %w", err)
	}

	e, err := NewEvents(o)
	if err != nil {
		return nil, fmt.Errorf("new results: %w", err)
	}

	return &Results{
		q: q, events: e, waiters: map[string][]chan ending{}, recent: map[string]ending{}, order: make([]string, recentResults),
		moved: make(chan struct{}),
	}, nil
}

// Ready is closed when Run sees every end from now on.
func (r *Results) Ready() <-chan struct{} { return r.events.Ready() }

// Run reads events until ctx ends. It runs once; without it Wait learns of ends only by looking from time to time.
func (r *Results) Run(ctx context.Context) error {
	defer func() { _ = r.q.Close() }() // it has no error

	return r.events.Run(ctx, func(e Event) error {
		r.note(e)
		return nil
	})
}

// Wait answers the result of a job when it has completed: at once if it has already. A *JobFailedError if it has failed for good,
// ErrJobNotFound if it does not exist or goes away, the context's cause if that ends first. It may be called before Run is ready.
func (r *Results) Wait(ctx context.Context, id string) (json.RawMessage, error) {
	end := r.subscribe(id)
	defer r.unsubscribe(id, end)

	tick := time.NewTicker(recheckWaited)
	defer tick.Stop()

	for {
		done, known, err := r.look(ctx, id)
		if err == nil && known {
			return done.value, done.err
		}

		if err != nil && ctx.Err() != nil {
			return nil, fmt.Errorf("wait for job %s: %w", id, context.Cause(ctx))
		}

		select {
		case done := <-end:
			return done.value, done.err
		case <-tick.C: // also after a failure of Redis
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for job %s: %w", id, context.Cause(ctx))
		}
	}
}

func (r *Results) subscribe(id string) chan ending {
	end := make(chan ending, 1)

	r.mu.Lock()
	defer r.mu.Unlock()

	r.waiters[id] = append(r.waiters[id], end)

	return end
}

func (r *Results) unsubscribe(id string, end chan ending) {
	r.mu.Lock()
	defer r.mu.Unlock()

	rest := r.waiters[id][:0]

	for _, w := range r.waiters[id] {
		if w != end {
			rest = append(rest, w)
		}
	}

	if r.waiters[id] = rest; len(rest) == 0 {
		delete(r.waiters, id)
	}
}

// look asks Redis what became of the job. If it is gone, the events up to now tell whether it had an end.
func (r *Results) look(ctx context.Context, id string) (done ending, known bool, err error) {
	fields, err := r.q.client.get().HMGet(ctx, r.q.keys.job(id), "finishedOn", "returnvalue", "failedReason", "timestamp", "name").Result()
	if err != nil {
		return ending{}, false, fmt.Errorf("look at job %s: %w", id, err)
	}

	text := func(i int) string { s, _ := fields[i].(string); return s }

	switch {
	case text(0) != "" && fields[1] != nil:
		return ending{value: json.RawMessage(text(1))}, true, nil
	case text(0) != "":
		return ending{err: &JobFailedError{JobID: id, Reason: text(2)}}, true, nil
	case fields[3] != nil || fields[4] != nil:
		return ending{}, false, nil // not finished
	}

	return r.gone(ctx, id)
}

// gone waits until all events up to now have been read and looks for the job's end among them. A reader that is behind has as long as it
// needs: only of one that reads nothing it is taken that nothing else will be known.
func (r *Results) gone(ctx context.Context, id string) (ending, bool, error) {
	newest, err := newestEvent(ctx, r.q.client.get(), r.q.keys)
	if err != nil {
		return ending{}, false, err
	}

	silence := time.NewTimer(recheckWaited)
	defer silence.Stop()

	for {
		r.mu.Lock()
		done, ok := r.recent[id]
		behind, moved := earlier(r.seen, newest), r.moved
		r.mu.Unlock()

		switch {
		case ok:
			return done, true, nil
		case !behind:
			return ending{err: fmt.Errorf("wait for job %s: %w", id, ErrJobNotFound)}, true, nil
		}

		select {
		case <-moved:
			silence.Reset(recheckWaited)
		case <-ctx.Done():
			return ending{}, false, ctx.Err()
		case <-silence.C: // the reader is not running, was not ready, or is stuck
			return ending{err: fmt.Errorf("wait for job %s: %w", id, ErrJobNotFound)}, true, nil
		}
	}
}

// note follows one event.
func (r *Results) note(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.seen = e.ID
	close(r.moved)
	r.moved = make(chan struct{})

	switch e.Name {
	case "completed":
		r.ended(e.JobID, ending{value: e.ReturnValue()})
	case "failed":
		r.ended(e.JobID, ending{err: &JobFailedError{JobID: e.JobID, Reason: e.Fields["failedReason"]}})
	case "removed":
		if _, known := r.recent[e.JobID]; !known {
			r.tell(e.JobID, ending{err: fmt.Errorf("wait for job %s: %w", e.JobID, ErrJobNotFound)})
		}
	case "waiting", "delayed", "added":
		delete(r.recent, e.JobID) // it runs again, or another job has its id
	}
}

func (r *Results) ended(id string, done ending) {
	if old := r.order[r.next]; old != "" {
		delete(r.recent, old)
	}

	r.order[r.next] = id
	r.next = (r.next + 1) % len(r.order)
	r.recent[id] = done
	r.tell(id, done)
}

func (r *Results) tell(id string, done ending) {
	for _, w := range r.waiters[id] {
		select {
		case w <- done:
		default: // told already
		}
	}
}
