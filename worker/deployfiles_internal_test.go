package worker

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/posefleet/posefleet/internal/need"
)

// The alert rules and the dashboard are files that nothing compiles: a metric or label that does not exist would make an alarm that never
// rings.

// series are the names under which the worker's metrics can be asked for, each with its labels.
func series(t *testing.T) map[string][]string {
	t.Helper()
	zero := func() float64 { return 0 }
	m := newMetrics(gauges{
		slots: zero, inUse: zero, protected: zero, state: func() state { return stateIdle },
		lastFetch: func() time.Time { return time.Time{} }, lowest: func() time.Duration { return 0 },
	})
	descriptions := make(chan *prometheus.Desc, 1000)
	m.registry.Describe(descriptions)
	close(descriptions)
	word := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([^}]*)\}`)
	out := map[string][]string{}
	for d := range descriptions {
		parts := word.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("can't read %s", d)
		}
		labels := append(strings.Split(parts[2], ","), "instance", "le")
		if parts[1] == "posefleet_state" {
			labels = append(labels, "state") // constant labels
		}
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			out[parts[1]+suffix] = labels
		}
	}
	return out
}

// wrongWords checks one expression: the series and labels that it names, and its brackets. Numbers, functions and words of PromQL are
// lower case without our prefix.
func wrongWords(known map[string][]string, expr string) []string {
	var wrong []string
	for _, found := range regexp.MustCompile(`(posefleet_\w+)(\{([^}]*)\})?`).FindAllStringSubmatch(expr, -1) {
		labels, ok := known[found[1]]
		if !ok {
			wrong = append(wrong, "no metric "+found[1])
		}
		for _, matcher := range regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`).FindAllStringSubmatch(found[3], -1) {
			if !slices.Contains(labels, matcher[1]) {
				wrong = append(wrong, found[1]+" has no label "+matcher[1])
			}
			wrong = append(wrong, wrongValue(matcher[1], matcher[3])...)
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(expr, pair[:1]) != strings.Count(expr, pair[1:]) {
			wrong = append(wrong, "unbalanced "+pair)
		}
	}
	if !strings.Contains(expr, "posefleet_") {
		wrong = append(wrong, "names no metric of ours")
	}
	return wrong
}

// wrongValue checks values of labels whose lists are closed.
func wrongValue(label, value string) []string {
	var values []string
	switch label {
	case "outcome":
		for _, o := range outcomes() {
			values = append(values, string(o))
		}
	case "state":
		for _, s := range states() {
			values = append(values, string(s))
		}
	default:
		return nil
	}
	var wrong []string
	for v := range strings.SplitSeq(value, "|") {
		if !slices.Contains(values, v) {
			wrong = append(wrong, fmt.Sprintf("%s is never %s", label, v))
		}
	}
	return wrong
}

func deployFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(need.ModuleRoot(t), "docs", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAlertRules(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	d := yaml.NewDecoder(strings.NewReader(string(deployFile(t, "prometheus/alerts.yaml"))))
	d.KnownFields(true)
	if err := d.Decode(&rules); err != nil {
		t.Fatal(err)
	}
	known, runbook := series(t), string(runbookOf(t))
	for _, r := range rules.Groups[0].Rules {
		for _, w := range wrongWords(known, r.Expr) {
			t.Errorf("%s: %s", r.Alert, w)
		}
		_, anchor, _ := strings.Cut(r.Annotations["runbook"], "#")
		if heading := "\n## " + strings.ReplaceAll(anchor, "-", " "); anchor == "" || !strings.Contains(strings.ToLower(runbook), heading) {
			t.Errorf("%s: the runbook has no part %q", r.Alert, anchor)
		}
		if _, err := time.ParseDuration(r.For); r.For != "" && err != nil || r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
			t.Errorf("%s: for %q, labels %v, annotations %v", r.Alert, r.For, r.Labels, r.Annotations)
		}
	}
}

// promtool runs Prometheus' own checker in the folder of the rules.
func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need.Program(t, "promtool"), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestAlertRulesRing: Prometheus itself evaluates the rules over made-up series. Each alarm rings in one of them and is silent in another,
// and a rule that is wrong is found.
func TestAlertRulesRing(t *testing.T) {
	t.Parallel()
	rules, tests := string(deployFile(t, "prometheus/alerts.yaml")), deployFile(t, "prometheus/alerts_test.yaml")
	dir := t.TempDir()
	run := func(rules string) (string, error) {
		for name, text := range map[string]string{"alerts.yaml": rules, "alerts_test.yaml": string(tests)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return promtool(t, dir, "test", "rules", "alerts_test.yaml")
	}
	if out, err := run(rules); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for before, after := range map[string]string{`> 120 and`: `> 12000 and`, `result="stored"`: `result="posted"`} {
		if out, err := run(strings.Replace(rules, before, after, 1)); err == nil {
			t.Errorf("%q for %q goes unnoticed: %s", after, before, out)
		}
	}
	var cases struct {
		Tests []struct {
			Checks []struct {
				Alert  string `yaml:"alertname"`
				Expect []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(tests, &cases); err != nil {
		t.Fatal(err)
	}
	rings, silent := map[string]bool{}, map[string]bool{}
	for _, c := range cases.Tests {
		for _, check := range c.Checks {
			if len(check.Expect) > 0 {
				rings[check.Alert] = true
			} else {
				silent[check.Alert] = true
			}
		}
	}
	for _, found := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !rings[found[1]] || !silent[found[1]] {
			t.Errorf("%s: rings %t, silent %t", found[1], rings[found[1]], silent[found[1]])
		}
	}
}

// TestDashboardParses: the expressions of the dashboard are PromQL to Prometheus' own parser.
func TestDashboardParses(t *testing.T) {
	t.Parallel()
	var board dashboard
	if err := json.Unmarshal(deployFile(t, "grafana/posefleet.json"), &board); err != nil {
		t.Fatal(err)
	}
	type rule struct{ Record, Expr string }
	var rules []rule
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			rules = append(rules, rule{fmt.Sprintf("panel:%d:%d", p.ID, len(rules)), strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
		}
	}
	dir := t.TempDir()
	check := func(rules []rule) (string, error) {
		text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return promtool(t, dir, "check", "rules", "rules.yaml")
	}
	if out, err := check(rules); err != nil || len(rules) == 0 {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := check([]rule{{"panel:wrong", "sum by le (posefleet_slots)"}}); err == nil {
		t.Errorf("nonsense goes unnoticed: %s", out)
	}
}

func runbookOf(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(need.ModuleRoot(t), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

type dashboard struct {
	Title, UID string
	Panels     []struct {
		ID      int
		Title   string
		Targets []struct{ Expr string }
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	var board dashboard
	if err := json.Unmarshal(deployFile(t, "grafana/posefleet.json"), &board); err != nil {
		t.Fatal(err)
	}
	known, ids := series(t), map[int]bool{}
	var shown strings.Builder
	for _, p := range board.Panels {
		if ids[p.ID] || len(p.Targets) == 0 {
			t.Errorf("panel %q: id %d, %d targets", p.Title, p.ID, len(p.Targets))
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			shown.WriteString(target.Expr)
			for _, w := range wrongWords(known, target.Expr) {
				t.Errorf("%s: %s", p.Title, w)
			}
		}
	}
	// Every metric of ours is somewhere on the dashboard.
	for name := range known {
		if strings.HasPrefix(name, "posefleet_") && !strings.HasSuffix(name, "_bucket") && !strings.HasSuffix(name, "_sum") &&
			!strings.HasSuffix(name, "_count") && !strings.Contains(shown.String(), name) {
			t.Errorf("%s is not shown", name)
		}
	}
}

// A test of the test: what is wrong is found.
func TestWrongWords(t *testing.T) {
	t.Parallel()
	known := series(t)
	for expr, want := range map[string]int{
		`sum(posefleet_jobs_total{outcome="failed"})`: 0, `posefleet_job_total`: 1, `posefleet_jobs_total{result="x"}`: 1,
		`posefleet_jobs_total{outcome="broken"}`: 1, `sum(posefleet_slots`: 1, `up`: 1, `posefleet_job_duration_seconds_bucket{le="5"}`: 0,
	} {
		if got := wrongWords(known, expr); len(got) != want {
			t.Errorf("%s: %v", expr, got)
		}
	}
}

// TestServersOutliveTheBalancer: a server that closes idle connections before its load balancer does makes 502s.
func TestServersOutliveTheBalancer(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`idle_timeout\.timeout_seconds, Value: "(\d+)"`).FindSubmatch(deployFile(t, "cloudformation.yaml"))
	if found == nil {
		t.Fatal("the template does not say the balancer's idle time")
	}
	balancer, err := time.ParseDuration(string(found[1]) + "s")
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{log: slog.New(slog.DiscardHandler)}
	s, err := w.open(t.Context(), "127.0.0.1:0", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	defer s.listener.Close()
	if s.http.IdleTimeout < balancer+10*time.Second || s.http.ReadHeaderTimeout == 0 {
		t.Errorf("idle connections are closed after %v, the balancer's after %v", s.http.IdleTimeout, balancer)
	}
}
