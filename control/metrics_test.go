package control_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// metrics reads /metrics.
func (b *bundle) metrics(t *testing.T) string {
	t.Helper()

	return string(b.do(t, http.MethodGet, "/metrics", nil, nil).want(t, http.StatusOK, "").body)
}

// What happens is counted, what is there is shown, and no id is in it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	secrets, err := webhook.ParseSecrets(webhook.Generate())
	if err != nil {
		t.Fatal(err)
	}
	customer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer customer.Close()
	b := setup(t, func(c *control.Config) {
		c.RedisURL, c.NoticeURL, c.NoticeSecrets = redis.URL, customer.URL, secrets
	})
	b.submitted(t, "an_waits")
	b.delivered(t, "an_done")
	b.api(t, http.MethodGet, "/v1/analyses/nobody_at_all", nil).want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)
	b.post(t, "/v1/claims/an_done", webhook.NewID("req"), redeemRequest("an_done", "w2", 2)).want(t, http.StatusGone, protocol.CodeClaimGone)
	for _, want := range []string{
		`posefleet_control_analyses{state="queued"} 1`, `posefleet_control_claims_total{result="gone"} 1`, `posefleet_control_claims_total{result="granted"} 1`,
		`posefleet_control_open_runs{stage="dispatched"} 1`, `posefleet_control_open_runs{stage="followed"} 0`, `posefleet_control_open_run_idle_seconds{stage="awake"} 0`,
		`posefleet_control_database_up 1`, `posefleet_control_ledger_total{effect="credit.settle",result="processed"} 1`,
		`posefleet_control_notices_total{result="refused"}`, `posefleet_control_outbox_entries{kind="notice"} 1`, `posefleet_control_queue_jobs{state="waiting"}`,
		`posefleet_control_queue_workers 0`, `posefleet_control_results_total{decision="accepted",type="pose.completed"} 1`,
		`posefleet_control_requests_total{code="404",route="GET /v1/analyses/{id}"} 1`, `go_goroutines`,
	} {
		wait.For(t, patience, func() bool {
			b.clock.advance(10 * time.Second) // past what is shown again
			return strings.Contains(b.metrics(t), "\n"+want)
		}, "no %s", want)
	}
	if text := b.metrics(t); strings.Contains(text, "an_waits") || strings.Contains(text, "an_done") || strings.Contains(text, "nobody_at") {
		t.Errorf("an id is in it:\n%s", text)
	}
}

// Metrics are for those who may look.
func TestMetricsRole(t *testing.T) {
	t.Parallel()
	const reading = "a token for those who look"
	b := setup(t, func(c *control.Config) { c.Listen, c.ReadToken = "0.0.0.0:0", reading })
	_, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for bearer, status := range map[string]int{"": 401, "another": 401, reading: 200} {
		h := http.Header{"Authorization": {"Bearer " + bearer}}
		if r := b.do(t, http.MethodGet, "http://127.0.0.1:"+port+"/metrics", h, nil); r.status != status {
			t.Errorf("%q: %d", bearer, r.status)
		}
	}
}

// The alert rules ask for series that there are, have a part in the runbook, and ring and are silent when they should, says Prometheus.
func TestControlAlerts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(need.ModuleRoot(t), "docs", "deploy", "prometheus")
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(path...))
		if err != nil {
			t.Fatal(err)
		}

		return string(text)
	}
	rules, runbook := read(dir, "control.yaml"), strings.ToLower(read(dir, "..", "..", "operations.md"))
	source := read(need.ModuleRoot(t), "control", "metrics.go")
	for _, name := range regexp.MustCompile(`posefleet_control_(\w+)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(source, `"`+name[1]+`"`) {
			t.Errorf("there is no series %s", name[0])
		}
	}
	for _, anchor := range regexp.MustCompile(`operations.md#([a-z-]+)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(runbook, "\n## "+strings.ReplaceAll(anchor[1], "-", " ")+"\n") {
			t.Errorf("the runbook has no part %s", anchor[1])
		}
	}
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	tests := read(dir, "control_test.yaml")
	for _, a := range alerts {
		if strings.Count(tests, "alertname: "+a[1]) != 2 {
			t.Errorf("%s is not tested both ways", a[1])
		}
	}
	work := t.TempDir()
	run := func(rules string) (string, error) {
		for name, text := range map[string]string{"control.yaml": rules, "control_test.yaml": tests} {
			if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), need.Program(t, "promtool"), "test", "rules", "control_test.yaml")
		cmd.Dir = work
		out, err := cmd.CombinedOutput()

		return string(out), err
	}
	if out, err := run(rules); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := run(strings.Replace(rules, "== 0", "== 2", 1)); err == nil {
		t.Error("a wrong rule goes unnoticed")
	}
	// Every series is in the document for operators.
	names := regexp.MustCompile(`(?:desc|counter)\("(\w+)"`).FindAllStringSubmatch(source, -1)
	missing := slices.DeleteFunc(names, func(n []string) bool {
		return strings.Contains(runbook, "`"+n[1]) || strings.Contains(runbook, " "+n[1])
	})
	if len(names) < 12 || len(missing) > 0 {
		t.Errorf("%d series, not in docs/operations.md: %v", len(names), missing)
	}
}
