package trace

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, header string
		want         Context
	}{
		{"sampled", "00-" + traceID + "-" + spanID + "-01", Context{TraceID: traceID, SpanID: spanID, Sampled: true}},
		{"not sampled", "00-" + traceID + "-" + spanID + "-00", Context{TraceID: traceID, SpanID: spanID}},
		{"a later version", "cc-" + traceID + "-" + spanID + "-01-more", Context{TraceID: traceID, SpanID: spanID, Sampled: true}},
		{"no version ff", "ff-" + traceID + "-" + spanID + "-01", Context{}},
		{"too much for version 0", "00-" + traceID + "-" + spanID + "-01-more", Context{}},
		{"zero trace", "00-00000000000000000000000000000000-" + spanID + "-01", Context{}},
		{"zero span", "00-" + traceID + "-0000000000000000-01", Context{}},
		{"upper case", "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + spanID + "-01", Context{}},
		{"short", "00-4bf9-" + spanID + "-01", Context{}},
		{"nothing", "", Context{}},
	}
	for _, tt := range tests {
		got, ok := parse(tt.header, "")
		if ok != (tt.want != Context{}) || got != tt.want {
			t.Errorf("%s: %+v, %t", tt.name, got, ok)
		}
	}
	if c, _ := parse("00-"+traceID+"-"+spanID+"-01", "a=1\r\nx: y"); c.State != "" {
		t.Error("a state with line breaks is handed on")
	}
}

// A trace goes on through a carrier and headers, and each span knows its parent.
func TestJoins(t *testing.T) {
	t.Parallel()
	ctx := Carriers{}.Extract(t.Context(), map[string]string{"traceparent": "00-" + traceID + "-" + spanID + "-01", "tracestate": "a=1"})
	var tracer Tracer
	ctx, outer := tracer.Start(ctx, "outer", KindConsumer)
	inner, span := tracer.Start(ctx, "inner", KindInternal)
	if outer.parent != spanID || span.parent != outer.context.SpanID || span.context.TraceID != traceID {
		t.Errorf("outer below %s, inner below %s in %s", outer.parent, span.parent, span.context.TraceID)
	}
	h := http.Header{}
	ToHeader(inner, h)
	want := http.Header{"Traceparent": {"00-" + traceID + "-" + span.context.SpanID + "-01"}, "Tracestate": {"a=1"}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Error(diff)
	}
	if back, _ := Of(FromHeader(t.Context(), h)); back != span.context {
		t.Errorf("%+v, want %+v", back, span.context)
	}
	if ToHeader(t.Context(), h); len(h) != 2 {
		t.Error("no trace left a header")
	}
}

// What ended arrives at the collector, what its origin does not want recorded does not.
func TestExport(t *testing.T) {
	t.Parallel()
	got := make(chan map[string]any, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message map[string]any
		if r.URL.Path != "/v1/traces" || r.Header.Get("key") != "a b" || json.NewDecoder(r.Body).Decode(&message) != nil {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		got <- message
	}))
	defer collector.Close()
	c, err := ConfigFrom(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL + "/", "OTEL_EXPORTER_OTLP_HEADERS": "key=a%20b"})
	if err != nil {
		t.Fatal(err)
	}
	tracer := New(c, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with cancel
		defer close(done)
		tracer.Run(ctx)
	}()
	_, span := tracer.Start(ctx, "work", KindConsumer, Attr{"n", 3}, Attr{"who", "me"})
	span.Fail("no luck")
	span.End()
	span.End()
	_, unwanted := tracer.Start(Carriers{}.Extract(ctx, map[string]string{"traceparent": "00-" + traceID + "-" + spanID + "-00"}), "x", KindInternal)
	unwanted.End()
	cancel()
	<-done
	message := <-got
	resource := message["resourceSpans"].([]any)[0].(map[string]any)             //nolint:forcetypeassert // the shape is what is tested
	spans := resource["scopeSpans"].([]any)[0].(map[string]any)["spans"].([]any) //nolint:forcetypeassert // as above
	if len(spans) != 1 {
		t.Fatalf("%d spans", len(spans))
	}
	first := spans[0].(map[string]any) //nolint:forcetypeassert // as above
	wantAttrs := []any{
		map[string]any{"key": "n", "value": map[string]any{"intValue": "3"}}, map[string]any{"key": "who", "value": map[string]any{"stringValue": "me"}},
	}
	if diff := cmp.Diff(wantAttrs, first["attributes"]); diff != "" || first["name"] != "work" || first["kind"] != 5.0 {
		t.Errorf("%v\n%s", first, diff)
	}
	if diff := cmp.Diff(map[string]any{"code": 2.0, "message": "no luck"}, first["status"]); diff != "" {
		t.Error(diff)
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	for _, environ := range []map[string]string{
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "ftp://x/"},
		{"OTEL_EXPORTER_OTLP_HEADERS": "a=%zz"},
	} {
		if _, err := ConfigFrom(environ); err == nil {
			t.Errorf("%v was accepted", environ)
		}
	}
	if c, err := ConfigFrom(nil); err != nil || c.Endpoint != "" {
		t.Errorf("%+v, %v", c, err)
	}
}
