package trace

import (
	"context"
	"sync"
	"time"
)

// Kind is the role of a span.
type Kind int

// Kinds, with the numbers of OTLP.
const (
	KindInternal Kind = 1
	KindClient   Kind = 3
	KindConsumer Kind = 5
)

// Tracer starts spans. The zero Tracer makes spans that are handed on and sent nowhere.
type Tracer struct {
	exporter *exporter // nil: nothing is sent
}

// Attr is an attribute of a span: string, int, int64, float64 or bool.
type Attr struct {
	Key   string
	Value any
}

// Span is one piece of work. Its methods may be called from any goroutine, and on nil.
type Span struct {
	exporter *exporter
	context  Context
	parent   string // span id, "" for a root
	name     string
	kind     Kind
	begun    time.Time

	mu    sync.Mutex
	attrs []Attr
	fault string
	ended bool
}

// Start begins a span in the trace of ctx, or a new trace. Whether it is recorded is the word of whoever began the trace; what begins
// here is.
func (t *Tracer) Start(ctx context.Context, name string, kind Kind, attrs ...Attr) (context.Context, *Span) {
	parent, joined := Of(ctx)
	s := &Span{name: name, kind: kind, begun: time.Now(), attrs: attrs}
	s.context = Context{TraceID: parent.TraceID, SpanID: newID(8), Sampled: parent.Sampled, State: parent.State}
	if joined {
		s.parent = parent.SpanID
	} else {
		s.context.TraceID, s.context.Sampled = newID(16), true
	}
	if s.context.Sampled && t != nil {
		s.exporter = t.exporter
	}
	return s.context.Into(ctx), s
}

// Context names the span.
func (s *Span) Context() Context { return s.context }

// Set adds attributes.
func (s *Span) Set(attrs ...Attr) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attrs = append(s.attrs, attrs...)
}

// Fail marks the span as failed. The text must hold nothing secret.
func (s *Span) Fail(text string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = text
}

// End ends the span; only the first call counts.
func (s *Span) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	if s.exporter != nil {
		s.exporter.add(s.record(time.Now()))
	}
}
