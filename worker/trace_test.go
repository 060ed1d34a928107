package worker_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
)

// collector keeps what is sent to it.
type collector struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.Copy(&c.text, r.Body) // what is missing is missed by the test
}

func (c *collector) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(c.text.String(), text)
}

// A trace that a producer began goes through the job to the control plane and the callback, to the collector, into the metrics'
// exemplars; storage does not see it.
func TestTraceGoesOn(t *testing.T) {
	t.Parallel()
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	sink := &collector{}
	server := httptest.NewServer(sink)
	defer server.Close()
	b := newBench(t, true)
	b.plane.Add("an_1", "ok")
	w := b.startWith(func(c *worker.Config) { c.Traces.Endpoint = server.URL })
	_, err := b.queue.Add(t.Context(), protocol.JobName, protocol.NewJobData("an_1"), queue.JobOptions{
		JobID: "an_1", Telemetry: `{"traceparent":"00-` + trace + "-" + parent + `-01"}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.awaitState("an_1", queue.StateCompleted)
	w.awaitIdle()
	for _, c := range b.plane.Calls("", "an_1") {
		if storage := slices.Contains([]string{"get", "put"}, c.Operation); storage != (c.Trace == "") || !storage && !strings.HasPrefix(c.Trace, "00-"+trace+"-") {
			t.Errorf("%s: traceparent %q", c.Operation, c.Trace)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.AdminAddr()+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || strings.Count(string(text), `# {trace_id="`+trace+`"}`) < 5 {
		t.Errorf("%d exemplars (%v)", strings.Count(string(text), trace), err)
	}
	w.GiveBack() // the last spans are sent at the end
	wait.For(t, long, func() bool {
		return sink.has(`"parentSpanId":"`+parent+`"`) && sink.has(`"name":"process queue"`) && sink.has(`"name":"extract"`) &&
			sink.has(`"stringValue":"completed"`)
	}, "the collector got %s", sink.text.String())
}
