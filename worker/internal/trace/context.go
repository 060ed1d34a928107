// Package trace makes spans as OpenTelemetry has them, joins traces that came with a job or a request, hands them on, and sends them to a
// collector by OTLP over HTTP in its JSON form. It is the part of OpenTelemetry that a worker needs, in the standard library: what the
// SDK would add to the program is larger than the program.
//
//	a Node service adds a job ──tm──► Extract ──► Start "process pose" ──► Start "download" … ──► Header of redeem and callback
//	                                                     └── End ──► exporter ──► POST {endpoint}/v1/traces
package trace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
)

// Header names of the W3C Trace Context, which are also the keys of a carrier.
const (
	parentHeader = "traceparent"
	stateHeader  = "tracestate"
)

// maxState is the longest tracestate that is handed on.
const maxState = 512

// Context names a span for whoever continues its trace.
type Context struct {
	TraceID, SpanID string // lower-case hex, 32 and 16 digits
	Sampled         bool
	State           string // tracestate, opaque
}

type contextKey struct{}

// Of is the span that ctx is in; false if there is none.
func Of(ctx context.Context) (Context, bool) {
	c, ok := ctx.Value(contextKey{}).(Context)
	return c, ok
}

// Into is ctx in this span.
func (c Context) Into(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// parent is the value of the header traceparent.
func (c Context) parent() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + c.TraceID + "-" + c.SpanID + "-" + flags
}

// parse reads the two headers. Later versions of the header begin like this one.
func parse(parent, state string) (Context, bool) {
	parts := strings.Split(strings.TrimSpace(parent), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 {
		return Context{}, false
	}
	if !isID(parts[0], 2, true) || !isID(parts[1], 32, false) || !isID(parts[2], 16, false) || !isID(parts[3], 2, true) {
		return Context{}, false
	}
	flags, _ := hex.DecodeString(parts[3]) // isID has looked
	c := Context{TraceID: parts[1], SpanID: parts[2], Sampled: flags[0]&1 == 1}
	if len(state) <= maxState && plain(state) {
		c.State = state
	}
	return c, true
}

// isID tells whether text is n lower-case hex digits, and not all zero unless that is allowed.
func isID(text string, n int, zero bool) bool {
	if len(text) != n || strings.Trim(text, "0123456789abcdef") != "" {
		return false
	}
	return zero || strings.Trim(text, "0") != ""
}

func plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// Carry is to in the span of from, for work that outlives what asked for it.
func Carry(from, to context.Context) context.Context {
	if c, ok := Of(from); ok {
		return c.Into(to)
	}
	return to
}

// Carriers carries traces with jobs; it is a queue.Telemetry.
type Carriers struct{}

// Inject writes the span of ctx into the carrier.
func (Carriers) Inject(ctx context.Context, carrier map[string]string) {
	c, ok := Of(ctx)
	if !ok {
		return
	}
	carrier[parentHeader] = c.parent()
	if c.State != "" {
		carrier[stateHeader] = c.State
	}
}

// Extract is ctx in the span that the carrier names. What is no trace is ignored.
func (Carriers) Extract(ctx context.Context, carrier map[string]string) context.Context {
	if c, ok := parse(carrier[parentHeader], carrier[stateHeader]); ok {
		return c.Into(ctx)
	}
	return ctx
}

// FromHeader is ctx in the span that a request names.
func FromHeader(ctx context.Context, h http.Header) context.Context {
	return Carriers{}.Extract(ctx, map[string]string{parentHeader: h.Get(parentHeader), stateHeader: h.Get(stateHeader)})
}

// ToHeader writes the span of ctx into a request's header.
func ToHeader(ctx context.Context, h http.Header) {
	carrier := map[string]string{}
	Carriers{}.Inject(ctx, carrier)
	for name, value := range carrier {
		h.Set(name, value)
	}
}

func newID(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
