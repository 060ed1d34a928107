package queue

import (
	"context"
	"encoding/json"
)

// Telemetry carries a trace from whoever adds a job to the handler that works on it, across processes and languages. Both methods are
// those of OpenTelemetry's TextMapPropagator, whose MapCarrier is such a map:
//
//	type propagator struct{ propagation.TextMapPropagator }
//
//	func (p propagator) Inject(ctx context.Context, carrier map[string]string) {
//		p.TextMapPropagator.Inject(ctx, propagation.MapCarrier(carrier))
//	}
//
//	func (p propagator) Extract(ctx context.Context, carrier map[string]string) context.Context {
//		return p.TextMapPropagator.Extract(ctx, propagation.MapCarrier(carrier))
//	}
//
// What is injected is stored with the job as BullMQ's bullmq-otel does, the carrier as JSON in the option tm, so that a Node worker
// continues a trace that began here, and the other way round. Spans are the caller's own: one around Add, one in the handler. Both
// methods may be called from several goroutines.
type Telemetry interface {
	// Inject writes the trace of ctx into the carrier; it leaves the carrier empty if there is none.
	Inject(ctx context.Context, carrier map[string]string)
	// Extract is ctx with the trace that the carrier tells of.
	Extract(ctx context.Context, carrier map[string]string) context.Context
}

// propagation is what the trace of one call leaves in the jobs that it adds, as stored; "" if there is nothing to leave.
type propagation string

func inject(ctx context.Context, t Telemetry) propagation {
	if t == nil {
		return ""
	}

	carrier := map[string]string{}
	if t.Inject(ctx, carrier); len(carrier) == 0 {
		return ""
	}

	text, err := encodeJSON(carrier)
	if err != nil {
		return "" // a map of strings always encodes
	}

	return propagation(text)
}

// into gives the trace to a job that has none of its own and wants one.
func (p propagation) into(o *JobOptions) {
	if o.Telemetry == "" && !o.OmitContext {
		o.Telemetry = string(p)
	}
}

// intoStored is into for options as they are stored.
func (p propagation) intoStored(opts map[string]any) {
	_, traced := opts["tm"]
	if omit, _ := opts["omc"].(bool); p != "" && !traced && !omit {
		opts["tm"] = string(p)
	}
}

// continued is ctx in the trace of the job's producer. A text that is no carrier, as other libraries may store one, is left to the
// handler, who finds it in the job's options.
func continued(ctx context.Context, t Telemetry, o *JobOptions) context.Context {
	if t == nil || o.OmitContext || o.Telemetry == "" {
		return ctx
	}

	var carrier map[string]string
	if json.Unmarshal([]byte(o.Telemetry), &carrier) != nil || len(carrier) == 0 {
		return ctx
	}

	return t.Extract(ctx, carrier)
}

// tracedFailure adds the trace of a failed attempt to the fields that it leaves, where BullMQ's workers leave theirs.
func (w *Worker) tracedFailure(h *hold, fields []any) []any {
	if trace := inject(h.ctx, w.opts.Telemetry); trace != "" && !h.job.Opts.OmitContext {
		return append(fields, "tm", string(trace))
	}

	return fields
}
