package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	eventBlock = 5 * time.Second
	eventBatch = 1000
)

// Event is an entry of the queue's event stream.
type Event struct {
	// ID is its place in the stream; RunFrom goes on after it.
	ID string
	// Name: added, waiting, active, completed, failed, progress, …
	Name string
	// JobID is empty for events of the whole queue.
	JobID string
	// Fields are all fields as stored: prev, returnvalue and data (JSON), failedReason (raw text), delay (absolute ms), …
	Fields map[string]string
}

// ReturnValue is the result of a completed job, nil for other events.
func (e *Event) ReturnValue() json.RawMessage { return optionalJSON(e.Fields, "returnvalue") }

// Progress is what a progress event tells, nil for other events.
func (e *Event) Progress() json.RawMessage {
	if e.Name != "progress" {
		return nil
	}

	return optionalJSON(e.Fields, "data")
}

// Events reads a queue's event stream.
type Events struct {
	keys  keys
	log   *slog.Logger
	line  *line
	ran   atomic.Bool
	ready chan struct{}
}

// NewEvents checks the options. It does not connect.
func NewEvents(o Options) (*Events, error) {
	base, k, log, err := o.resolve()
	if err != nil {
		return nil, fmt.Errorf("new events: %w", err)
	}

	return &Events{keys: k, log: log, ready: make(chan struct{}), line: newLine(base, profile{
		timeout: eventBlock + blockMargin, name: k.clientName(":qe"), onName: func(err error) {
			log.Warn("Redis refuses the connection's name", slog.Any("error", err))
		},
	})}, nil
}

// Ready is closed when the place in the stream is fixed: events after that moment are delivered.
func (e *Events) Ready() <-chan struct{} { return e.ready }

// Run calls fn for each event from now on, in order, until ctx ends (nil) or fn fails (its error). It lives through failures of Redis and
// goes on where it was; only a stream that was trimmed meanwhile makes a gap.
func (e *Events) Run(ctx context.Context, fn func(Event) error) error { return e.RunFrom(ctx, "", fn) }

// RunFrom is Run from the first event after the one with the given id; "0" is the oldest there is, "" means from now on.
func (e *Events) RunFrom(ctx context.Context, after string, fn func(Event) error) error {
	if !e.ran.CompareAndSwap(false, true) {
		return fmt.Errorf("run events: %w", ErrAlreadyRan)
	}

	// Closing is what interrupts a blocked read.
	stop := context.AfterFunc(ctx, e.line.close)
	defer e.line.close()
	defer stop()

	trouble := newBackoff(fetchPauseFirst, fetchPauseMost)
	failing := false

	for ctx.Err() == nil {
		batch, err := e.read(ctx, &after)
		if err != nil {
			if !failing && ctx.Err() == nil {
				e.log.Warn("events not read, trying again", slog.Any("error", err))
			}

			failing = true

			trouble.wait(ctx)

			continue
		}

		failing = false
		trouble.reset()

		for _, m := range batch {
			if err := fn(decodeEvent(m)); err != nil {
				return fmt.Errorf("handle event %s: %w", m.ID, err)
			}

			after = m.ID
		}
	}

	return nil
}

// read fixes the starting point first: reading from "now" in each call would lose what comes between two calls.
func (e *Events) read(ctx context.Context, after *string) ([]redis.XMessage, error) {
	c := e.line.get()

	bound, cancel := context.WithTimeout(ctx, eventBlock+blockMargin)
	defer cancel()

	if *after == "" {
		newest, err := newestEvent(bound, c, e.keys)
		if err != nil {
			return nil, err
		}

		*after = newest
	}

	select {
	case <-e.ready:
	default:
		close(e.ready)
	}

	streams, err := c.XRead(bound, &redis.XReadArgs{
		Streams: []string{e.keys.of(keyEvents), *after}, Count: eventBatch, Block: eventBlock,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}

	if len(streams) == 0 {
		return nil, nil
	}

	return streams[0].Messages, nil
}

func newestEvent(ctx context.Context, c redis.UniversalClient, k keys) (string, error) {
	last, err := c.XRevRangeN(ctx, k.of(keyEvents), "+", "-", 1).Result()
	if err != nil {
		return "", fmt.Errorf("find the newest event: %w", err)
	}

	if len(last) == 0 {
		return "0", nil
	}

	return last[0].ID, nil
}

func decodeEvent(m redis.XMessage) Event {
	e := Event{ID: m.ID, Fields: make(map[string]string, len(m.Values))}

	for field, value := range m.Values {
		text, _ := value.(string)

		switch field {
		case "event":
			e.Name = text
		case "jobId":
			e.JobID = text
		default:
			e.Fields[field] = text
		}
	}

	return e
}
