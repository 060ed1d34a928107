package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// lineMost bounds a line; what is longer comes in pieces.
const lineMost = 64 << 10

// lines makes the output of a worker part of our log: each line as the record that it is, with its own time, level and attributes, and the
// worker's process id before them. A line that is none, as the last words of a process that fails, is a warning.
type lines struct {
	handler slog.Handler

	mu  sync.Mutex
	pid slog.Attr
	buf []byte
	// known is closed when the process id is there: a worker may write before we know it.
	known chan struct{}
}

func newLines(log *slog.Logger) *lines {
	return &lines{handler: log.Handler(), known: make(chan struct{})}
}

// of says whose lines they are; until then Write waits.
func (l *lines) of(pid int) {
	l.pid = slog.Int("worker_pid", pid)
	close(l.known)
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	<-l.known
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, b...)
	for {
		line, rest, whole := bytes.Cut(l.buf, []byte("\n"))
		if !whole && len(l.buf) < lineMost {
			return len(b), nil
		}
		l.log(line)
		l.buf = rest
	}
}

// end logs what came without an end of line.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log(l.buf)
	l.buf = nil
}

func (l *lines) log(line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	r, err := parseRecord(line, l.pid)
	if err != nil {
		r = slog.NewRecord(time.Now(), slog.LevelWarn, "worker wrote", 0)
		r.AddAttrs(l.pid, slog.String("line", string(bytes.ToValidUTF8(line, nil))))
	}
	ctx := context.Background()
	if l.handler.Enabled(ctx, r.Level) {
		_ = l.handler.Handle(ctx, r) // there is nobody to be told
	}
}

var errNoRecord = errors.New("not a line of a JSON log")

// parseRecord reads a line of slog's JSON handler; tag comes before its attributes, in their order.
func parseRecord(line []byte, tag slog.Attr) (slog.Record, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return slog.Record{}, errNoRecord
	}
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "", 0)
	r.AddAttrs(tag)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return r, fmt.Errorf("%w: %w", errNoRecord, err)
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return r, fmt.Errorf("%w: %w", errNoRecord, err)
		}
		if err := addField(&r, fmt.Sprint(name), value); err != nil {
			return r, err
		}
	}
	if _, err := d.Token(); err != nil {
		return r, fmt.Errorf("%w: %w", errNoRecord, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || r.Message == "" {
		return r, errNoRecord
	}

	return r, nil
}

func addField(r *slog.Record, name string, value any) (err error) {
	text, isText := value.(string)
	switch {
	case name == slog.TimeKey && isText:
		r.Time, err = time.Parse(time.RFC3339Nano, text)
	case name == slog.LevelKey && isText:
		err = r.Level.UnmarshalText([]byte(text))
	case name == slog.MessageKey && isText:
		r.Message = text
	case name == "service_name" || name == "service_version": // our own log says the same
	default:
		r.AddAttrs(slog.Any(name, value))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoRecord, err)
	}

	return nil
}
