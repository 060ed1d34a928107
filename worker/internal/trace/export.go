package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// pendingSpans is how many spans wait for the collector; more are dropped, since work never waits for telemetry.
	pendingSpans = 2048
	batchSpans   = 256
	batchEvery   = 5 * time.Second
	sendTimeout  = 10 * time.Second
	// lastTimeout bounds the last batch at the end.
	lastTimeout = 2 * time.Second
)

// Config says where spans go; the names are those of OpenTelemetry's own variables.
type Config struct {
	// Endpoint is the URL that takes traces; "" sends nothing.
	Endpoint string
	// Headers go with each request; they may hold a key.
	Headers map[string]string
	// Service, Version and Instance describe this program.
	Service, Version, Instance string
}

// ConfigFrom reads OpenTelemetry's variables. An error names the variable.
func ConfigFrom(environ map[string]string) (Config, error) {
	c := Config{Endpoint: environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], Service: environ["OTEL_SERVICE_NAME"], Headers: map[string]string{}}
	if base := environ["OTEL_EXPORTER_OTLP_ENDPOINT"]; c.Endpoint == "" && base != "" {
		c.Endpoint = strings.TrimRight(base, "/") + "/v1/traces"
	}
	if c.Service == "" {
		c.Service = "posefleet-worker"
	}
	if u, err := url.Parse(c.Endpoint); c.Endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return c, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is no http or https URL")
	}
	for pair := range strings.SplitSeq(environ["OTEL_EXPORTER_OTLP_HEADERS"], ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok {
			continue
		}
		text, err := url.PathUnescape(value)
		if err != nil {
			return c, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not written as name=value,…")
		}
		c.Headers[strings.TrimSpace(name)] = text
	}
	return c, nil
}

// exporter sends spans in batches, on one goroutine.
type exporter struct {
	config Config
	client *http.Client
	spans  chan wireSpan
	log    *slog.Logger
}

// New makes a tracer. Run sends what it makes.
func New(c Config, log *slog.Logger) *Tracer {
	if c.Endpoint == "" {
		return &Tracer{}
	}
	return &Tracer{exporter: &exporter{
		config: c, spans: make(chan wireSpan, pendingSpans), log: log,
		client: &http.Client{Timeout: sendTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}}
}

// Run sends spans until ctx ends, and then what is left.
func (t *Tracer) Run(ctx context.Context) {
	if t.exporter != nil {
		t.exporter.run(ctx)
	}
}

func (e *exporter) add(s wireSpan) {
	select {
	case e.spans <- s:
	default: // the collector is away or slow
	}
}

func (e *exporter) run(ctx context.Context) {
	defer e.client.CloseIdleConnections()
	tick := time.NewTicker(batchEvery)
	defer tick.Stop()
	var batch []wireSpan
	for {
		select {
		case s := <-e.spans:
			if batch = append(batch, s); len(batch) < batchSpans {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			e.last(ctx, batch)
			return
		}
		e.send(ctx, batch)
		batch = nil
	}
}

// last sends what is left when ctx has ended.
func (e *exporter) last(ctx context.Context, batch []wireSpan) {
	for len(batch) < pendingSpans {
		select {
		case s := <-e.spans:
			batch = append(batch, s)
			continue
		default:
		}
		break
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	e.send(ctx, batch)
}

// send posts a batch once; a lost batch costs a picture, no work.
func (e *exporter) send(ctx context.Context, batch []wireSpan) {
	if len(batch) == 0 {
		return
	}
	if err := e.post(ctx, e.config.message(batch)); err != nil && ctx.Err() == nil {
		e.log.Warn("traces not sent", slog.Int("spans", len(batch)), slog.String("error", err.Error()))
	}
}

func (e *exporter) post(ctx context.Context, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.config.Endpoint, bytes.NewReader(body))
	if err != nil {
		return errors.New("the endpoint is no URL")
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range e.config.Headers {
		request.Header.Set(name, value)
	}
	response, err := e.client.Do(request)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the URL, which may hold a key
		}
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// The JSON form of OTLP: ids in hex, 64-bit numbers as strings, enumerations as numbers.
type (
	wireSpan struct {
		TraceID string     `json:"traceId"`
		SpanID  string     `json:"spanId"`
		Parent  string     `json:"parentSpanId,omitempty"`
		State   string     `json:"traceState,omitempty"`
		Flags   uint32     `json:"flags"`
		Name    string     `json:"name"`
		Kind    Kind       `json:"kind"`
		Start   string     `json:"startTimeUnixNano"`
		End     string     `json:"endTimeUnixNano"`
		Attrs   []wireAttr `json:"attributes,omitempty"`
		Status  wireStatus `json:"status"`
	}
	wireStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
	wireAttr struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

const statusError = 2

// record is the span as it is sent; the caller holds mu.
func (s *Span) record(end time.Time) wireSpan {
	w := wireSpan{
		TraceID: s.context.TraceID, SpanID: s.context.SpanID, Parent: s.parent, State: s.context.State, Flags: 1, Name: s.name, Kind: s.kind,
		Start: strconv.FormatInt(s.begun.UnixNano(), 10), End: strconv.FormatInt(end.UnixNano(), 10), Attrs: wireAttrs(s.attrs),
	}
	if s.fault != "" {
		w.Status = wireStatus{Code: statusError, Message: s.fault}
	}
	return w
}

func wireAttrs(attrs []Attr) []wireAttr {
	var out []wireAttr
	for _, a := range attrs {
		value := map[string]any{}
		switch v := a.Value.(type) {
		case bool:
			value["boolValue"] = v
		case int:
			value["intValue"] = strconv.Itoa(v)
		case int64:
			value["intValue"] = strconv.FormatInt(v, 10)
		case float64:
			value["doubleValue"] = v
		default:
			value["stringValue"] = fmt.Sprint(v)
		}
		out = append(out, wireAttr{Key: a.Key, Value: value})
	}
	return out
}

// message is the body of one request.
func (c Config) message(batch []wireSpan) any {
	resource := wireAttrs([]Attr{{"service.name", c.Service}, {"service.version", c.Version}, {"service.instance.id", c.Instance}})
	scope := map[string]any{"name": "github.com/posefleet/posefleet/worker", "version": c.Version}
	return map[string]any{"resourceSpans": []any{map[string]any{
		"resource":   map[string]any{"attributes": resource},
		"scopeSpans": []any{map[string]any{"scope": scope, "spans": batch}},
	}}}
}
