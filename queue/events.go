package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	eventBlock = 5 * time.Second
	eventBatch = 1000
	// eventsStart is before every event: nothing can be missing between it and the oldest one.
	eventsStart = "0"
)

// Event is an entry of the queue's event stream.
type Event struct {
	// ID is its place in the stream; RunFrom goes on after it.
	ID string
	// Name: added, waiting, active, completed, failed, progress, …
	Name string
	// JobID is empty for events of the whole queue.
	JobID string
	// Gap: events between the one delivered before (or the id given to RunFrom) and this one may be lost, because the stream was trimmed
	// before they were read. Whoever keeps state by events should read it anew.
	Gap bool
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
	keys    keys
	scripts *scripts
	log     *slog.Logger
	line    *line
	ran     atomic.Bool
	ready   chan struct{}
}

// NewEvents checks the options. It does not connect.
func NewEvents(o Options) (*Events, error) {
	base, k, log, err := o.resolve()
	if err != nil {
		return nil, fmt.Errorf("new events: %w", err)
	}

	s, err := loadScripts()
	if err != nil {
		return nil, err
	}

	return &Events{keys: k, scripts: s, log: log, ready: make(chan struct{}), line: newLine(base, profile{
		timeout: eventBlock + blockMargin, name: k.clientName(":qe"), onName: func(err error) {
			log.Warn("Redis refuses the connection's name", slog.Any("error", err))
		},
	})}, nil
}

// Ready is closed when the place in the stream is fixed: events after that moment are delivered.
func (e *Events) Ready() <-chan struct{} { return e.ready }

// Run calls fn for each event from now on, in order, until ctx ends (nil) or fn fails (its error). It lives through failures of Redis and
// goes on where it was; only a stream that was trimmed meanwhile makes a gap, which Event.Gap tells.
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
		batch, gap, err := e.read(ctx, &after)
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

		for _, event := range batch {
			event.Gap, gap = gap, false
			if err := fn(event); err != nil {
				return fmt.Errorf("handle event %s: %w", event.ID, err)
			}

			after = event.ID
		}
	}

	return nil
}

// read fixes the starting point first: reading from "now" in each call would lose what comes between two calls. It answers what is there
// after that point, and blocks only if nothing is.
func (e *Events) read(ctx context.Context, after *string) (batch []Event, gap bool, err error) {
	c := e.line.get()

	bound, cancel := context.WithTimeout(ctx, eventBlock+blockMargin)
	defer cancel()

	if *after == "" {
		newest, err := newestEvent(bound, c, e.keys)
		if err != nil {
			return nil, false, err
		}

		*after = newest
	}

	select {
	case <-e.ready:
	default:
		close(e.ready)
	}

	batch, gap, err = e.fetch(bound, *after)
	if err != nil || len(batch) > 0 {
		return batch, gap, err
	}

	// Only a wake-up: what it delivers is read again together with the stream's oldest event.
	err = c.XRead(bound, &redis.XReadArgs{Streams: []string{e.keys.of(keyEvents), *after}, Count: 1, Block: eventBlock}).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, false, fmt.Errorf("read events: %w", err)
	}

	return nil, false, nil
}

// fetch reads events after one. gap: that one is gone from the stream, and others after it may be, too.
func (e *Events) fetch(ctx context.Context, after string) (batch []Event, gap bool, err error) {
	reply, err := e.scripts.readEvents.run(ctx, e.line, e.keys, after, eventBatch)
	if err != nil {
		return nil, false, err
	}

	parts, _ := reply.([]any)
	if len(parts) < 2 {
		return nil, false, fmt.Errorf("read events: %w", errBadReply)
	}

	oldest, _ := parts[0].(string)
	entries, _ := parts[1].([]any)

	for _, entry := range entries {
		if pair, ok := entry.([]any); ok && len(pair) == 2 {
			id, _ := pair[0].(string)
			batch = append(batch, decodeEvent(id, pairs(texts(pair[1]))))
		}
	}

	return batch, after != eventsStart && earlier(after, oldest), nil
}

// earlier compares two ids of a stream, ms-n.
func earlier(a, b string) bool {
	aMillis, aTurn := splitEventID(a)
	bMillis, bTurn := splitEventID(b)

	return aMillis < bMillis || aMillis == bMillis && aTurn < bTurn
}

func splitEventID(id string) (millis, turn uint64) {
	head, tail, _ := strings.Cut(id, "-")
	millis, _ = strconv.ParseUint(head, 10, 64) // ids come from Redis, which has checked them
	turn, _ = strconv.ParseUint(tail, 10, 64)

	return millis, turn
}

func newestEvent(ctx context.Context, c redis.UniversalClient, k keys) (string, error) {
	last, err := c.XRevRangeN(ctx, k.of(keyEvents), "+", "-", 1).Result()
	if err != nil {
		return "", fmt.Errorf("find the newest event: %w", err)
	}

	if len(last) == 0 {
		return eventsStart, nil
	}

	return last[0].ID, nil
}

func decodeEvent(id string, fields map[string]string) Event {
	e := Event{ID: id, Name: fields["event"], JobID: fields["jobId"], Fields: fields}
	delete(fields, "event")
	delete(fields, "jobId")

	return e
}
