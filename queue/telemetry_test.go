package queue

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

const someTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traceID is the part of a traceparent that all spans of a trace have in common.
func traceID(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 {
		return ""
	}

	return parts[1]
}

// constantTrace is a telemetry for which every context is in the same trace.
type constantTrace struct{}

// Inject implements Telemetry.
func (constantTrace) Inject(_ context.Context, carrier map[string]string) {
	carrier["traceparent"] = someTrace
}

// Extract implements Telemetry.
func (constantTrace) Extract(ctx context.Context, _ map[string]string) context.Context { return ctx }

// contextTrace propagates as OpenTelemetry does: what is in the context, and nothing if nothing is.
type contextTrace struct{}

type traceKey struct{}

// Inject implements Telemetry.
func (contextTrace) Inject(ctx context.Context, carrier map[string]string) {
	if parent, ok := ctx.Value(traceKey{}).(string); ok {
		carrier["traceparent"] = parent
	}
}

// Extract implements Telemetry.
func (contextTrace) Extract(ctx context.Context, carrier map[string]string) context.Context {
	return context.WithValue(ctx, traceKey{}, carrier["traceparent"])
}

func inTrace(ctx context.Context) context.Context {
	return context.WithValue(ctx, traceKey{}, someTrace)
}

const someCarrier = `{"traceparent":"` + someTrace + `"}`

func (k *kit) tracedQueue(name string) *Queue {
	k.t.Helper()

	o := k.options(name)
	o.Telemetry = contextTrace{}

	q, err := NewQueue(o)
	k.must(err)
	k.t.Cleanup(func() { _ = q.Close() })

	return q
}

func (k *kit) storedTrace(q *Queue, id string) string {
	k.t.Helper()

	j, err := q.Job(k.t.Context(), id)
	k.must(err)

	return j.Opts.Telemetry
}

// Every way of adding a job stores the caller's trace, unless the job has one of its own or wants none.
func TestProducersLeaveTheirTrace(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q, ctx := k.tracedQueue("q"), inTrace(t.Context())

	tests := []struct {
		name string
		ctx  context.Context
		o    JobOptions
		want string
	}{
		{"of the context", ctx, JobOptions{}, someCarrier},
		{"none in the context", t.Context(), JobOptions{}, ""},
		{"its own", ctx, JobOptions{Telemetry: "mine"}, "mine"},
		{"omitted", ctx, JobOptions{OmitContext: true}, ""},
	}
	for _, tt := range tests {
		one, err := q.Add(tt.ctx, "a", nil, tt.o)
		k.must(err)

		many, err := q.AddBulk(tt.ctx, []NewJob{{Name: "a", Opts: tt.o}})
		k.must(err)

		for _, id := range []string{one.ID, many[0].ID} {
			if got := k.storedTrace(q, id); got != tt.want {
				t.Errorf("%s: job %s has the trace %q, want %q", tt.name, id, got, tt.want)
			}
		}
	}

	f, err := NewFlows(FlowOptions{RedisURL: k.url, Telemetry: contextTrace{}})
	k.must(err)
	t.Cleanup(func() { _ = f.Close() })

	tree, err := f.Add(ctx, FlowJob{Queue: "q", Name: "p", Children: []FlowJob{{Queue: "q", Name: "c", Opts: JobOptions{OmitContext: true}}}})
	k.must(err)

	if parent, child := k.storedTrace(q, tree.ID), k.storedTrace(q, tree.Children[0].ID); parent != someCarrier || child != "" {
		t.Errorf("flow: parent has %q and a child that omits it %q", parent, child)
	}
}

// The trace of whoever upserts goes to the first job and from each to the next, and is no part of the definition.
func TestSchedulesKeepTheirTrace(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.tracedQueue("q")
	w := k.worker("q", func(o *WorkerOptions) { o.Telemetry = contextTrace{} })

	made, err := q.UpsertScheduler(inTrace(t.Context()), "s", Repeat{Every: time.Hour}, NewJob{Name: "n"})
	k.must(err)

	h := k.take(w, "t1")
	w.continueSchedule(h)

	s, err := q.Scheduler(t.Context(), "s")
	k.must(err)

	if next := k.storedTrace(q, "repeat:s:"+formatMillis(float64(s.Next.UnixMilli()))); next != someCarrier ||
		k.storedTrace(q, made.JobID) != someCarrier || s.Template.Opts.Telemetry != "" {
		t.Errorf("first %q, next %q, template %q", k.storedTrace(q, made.JobID), next, s.Template.Opts.Telemetry)
	}

	_, err = q.UpsertScheduler(inTrace(t.Context()), "o", Repeat{Every: time.Hour}, NewJob{Name: "n", Opts: JobOptions{OmitContext: true}})
	k.must(err)

	h = k.take(w, "t2")
	if h.job.Opts.Telemetry != "" || h.ctx.Value(traceKey{}) != nil {
		t.Errorf("an iteration that omits the trace has %q", h.job.Opts.Telemetry)
	}
}

// A handler's context is in the producer's trace, and a failed attempt leaves it in the hash as BullMQ's workers do.
func TestHandlersContinueTheTrace(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.tracedQueue("q")
	seen := make(chan any, 1)

	o := k.workerOptions("q")
	o.Telemetry = contextTrace{}
	k.run(o, func(ctx context.Context, _ *Job) (any, error) {
		seen <- ctx.Value(traceKey{})

		return nil, errors.New("no")
	})

	tests := []struct {
		name  string
		o     JobOptions
		want  any
		field string
	}{
		{"a trace", JobOptions{}, someTrace, someCarrier},
		{"omitted", JobOptions{OmitContext: true, Telemetry: someCarrier}, nil, ""},
		{"another library's text", JobOptions{Telemetry: "ctx0"}, nil, ""},
	}
	for _, tt := range tests {
		added, err := q.Add(inTrace(t.Context()), "a", nil, tt.o)
		k.must(err)

		if got := <-seen; got != tt.want {
			t.Errorf("%s: handler sees %v, want %v", tt.name, got, tt.want)
		}

		k.awaitState(q, added.ID, StateFailed)

		if field := k.r.HGet(t.Context(), "bull:q:"+added.ID, "tm").Val(); field != tt.field {
			t.Errorf("%s: field tm is %q, want %q", tt.name, field, tt.field)
		}
	}
}

// A trace goes from Go's context into Node's and from Node's into Go's.
func TestTracesCrossLanguages(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, k *kit, n *nodeSide) {
		q := k.tracedQueue("q")
		n.ask(nil, map[string]any{"op": "work", "opts": map[string]any{}, "traced": true})

		added, err := q.Add(inTrace(t.Context()), "n", map[string]int{"n": 1}, JobOptions{})
		k.must(err)
		k.awaitState(q, added.ID, StateCompleted)

		j, err := q.Job(t.Context(), added.ID)
		k.must(err)

		var result struct{ Trace string }
		k.must(json.Unmarshal(j.ReturnValue, &result))

		if traceID(result.Trace) != traceID(someTrace) || result.Trace == someTrace {
			t.Errorf("node works in %q, want a span of its own in trace %s", result.Trace, traceID(someTrace))
		}

		n.ask(nil, map[string]any{"op": "rest"}) // the next job is Go's

		seen := make(chan any, 1)
		o := k.workerOptions("q")
		o.Telemetry = contextTrace{}
		k.run(o, func(ctx context.Context, _ *Job) (any, error) { seen <- ctx.Value(traceKey{}); return nil, nil })

		var id string

		n.ask(&id, map[string]any{"op": "addTraced", "job": "n", "data": map[string]any{}})
		k.awaitState(q, id, StateCompleted)

		if got, _ := (<-seen).(string); got == "" || k.storedTrace(q, id) != `{"traceparent":"`+got+`"}` {
			t.Errorf("handler works in %q, node has stored %s", got, k.storedTrace(q, id))
		}
	})
}
