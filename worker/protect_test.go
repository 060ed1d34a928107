package worker_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
)

// TestProtectedBeforeTheFirstCall: the agent sees the task protected before the control plane hears of the job, an idle worker asks
// for nothing, and a surplus task takes nothing.
func TestProtectedBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	var mu sync.Mutex
	var calls []time.Time
	blocked := false
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, time.Now())
		if blocked {
			_, _ = w.Write([]byte(`{"failure":{"Reason":"DEPLOYMENT_BLOCKED"}}`))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"protection": map[string]any{"ProtectionEnabled": true}})
	}))
	t.Cleanup(agent.Close)
	asked := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(calls)
	}
	w := b.startWith(func(c *worker.Config) { c.ECSAgentURI = agent.URL })
	wait.For(t, long, func() bool { return w.metric("posefleet_last_fetch_timestamp_seconds") > 0 }, "no fetch round")
	if asked() != 0 {
		t.Error("an idle worker asked for protection")
	}
	b.plane.Add("an_1", "ok")
	b.add("an_1", 1)
	b.awaitState("an_1", queue.StateCompleted)
	if asked() != 1 || !calls[0].Before(b.plane.Calls("redeem", "an_1")[0].At) {
		t.Errorf("%d calls; protection came after the redeem", asked())
	}
	if w.metric("posefleet_task_protected") != 1 {
		t.Error("task_protected is not 1")
	}

	mu.Lock()
	blocked = true
	mu.Unlock()
	surplus := b.startWith(func(c *worker.Config) { c.ECSAgentURI, c.QueueEnabled = agent.URL, false })
	b.plane.Add("an_2", "ok")
	if got := surplus.post("an_2"); got.Code != 503 {
		t.Errorf("a surplus task answered %d", got.Code)
	}
}
