package control_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/posefleet/posefleet/internal/need"
)

// board is the dashboard of the control plane, as far as it is looked at here.
type board struct {
	UID    string
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
}

// controlSeries are the series of the control plane, each with its labels, as its source makes them.
func controlSeries(t *testing.T) map[string][]string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(need.ModuleRoot(t), "control", "metrics.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?:desc|counter)\("(\w+)", "[^"]*"((?:, "\w+")*)\)`).FindAllStringSubmatch(string(source), -1) {
		out["posefleet_control_"+m[1]] = append(strings.Split(strings.NewReplacer(`"`, "", " ", "").Replace(m[2]), ","), "instance")
	}

	return out
}

// wrongIn lists the series and labels of an expression that there are not.
func wrongIn(known map[string][]string, expr string) []string {
	var wrong []string
	names := regexp.MustCompile(`posefleet_\w+`).FindAllString(expr, -1)
	if len(names) == 0 {
		wrong = append(wrong, "it asks for nothing of ours")
	}
	for _, name := range names {
		labels, ok := known[name]
		if !ok {
			wrong = append(wrong, "there is no "+name)
		}
		for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(by[1], ", ") {
				if !slices.Contains(labels, label) {
					wrong = append(wrong, name+" has no label "+label)
				}
			}
		}
	}

	return wrong
}

// The dashboard shows every series of the control plane, asks for none that there is not, and is PromQL to Prometheus' own parser.
func TestControlDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(need.ModuleRoot(t), "docs", "deploy", "grafana", "control.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b board
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	known := controlSeries(t)
	if len(known) < 12 || b.UID != "posefleet-control" || len(b.Panels) == 0 {
		t.Fatalf("%d series, %q with %d panels", len(known), b.UID, len(b.Panels))
	}
	type rule struct{ Record, Expr string }
	var rules []rule
	places := map[string]string{}
	var shown strings.Builder
	for i, p := range b.Panels {
		place := fmt.Sprint(p.GridPos)
		if p.ID != i+1 || len(p.Targets) == 0 || places[place] != "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q: id %d, %d targets, at %s as %q", i, p.Title, p.ID, len(p.Targets), place, places[place])
		}
		places[place] = p.Title
		for _, target := range p.Targets {
			if wrong := wrongIn(known, target.Expr); len(wrong) > 0 {
				t.Errorf("%s: %s", p.Title, wrong)
			}
			shown.WriteString(target.Expr + "\n")
			rules = append(rules, rule{fmt.Sprintf("panel:%d:%d", p.ID, len(rules)), strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
		}
	}
	for name := range known {
		if !regexp.MustCompile(name + `\b`).MatchString(shown.String()) {
			t.Errorf("%s is not shown", name)
		}
	}
	if !strings.Contains(b.Panels[0].Targets[0].Expr, "by (stage) (posefleet_control_open_runs)") {
		t.Errorf("the first panel is %q", b.Panels[0].Title)
	}
	checkExpressions(t, rules)
}

// checkExpressions has Prometheus parse them as rules.
func checkExpressions(t *testing.T, rules any) {
	t.Helper()
	dir := t.TempDir()
	check := func(rules any) (string, error) {
		text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), need.Program(t, "promtool"), "check", "rules", "rules.yaml")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()

		return string(out), err
	}
	if out, err := check(rules); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := check([]map[string]string{{"record": "panel:wrong", "expr": "sum by stage (posefleet_control_open_runs)"}}); err == nil {
		t.Errorf("nonsense goes unnoticed: %s", out)
	}
}

// A test of the test: what is wrong is found.
func TestWrongInDashboards(t *testing.T) {
	t.Parallel()
	known := controlSeries(t)
	for expr, want := range map[string]int{
		`max by (stage) (posefleet_control_open_runs)`: 0, `max by (state) (posefleet_control_open_runs)`: 1, `max(posefleet_control_open_run)`: 1, `up`: 1,
	} {
		if got := wrongIn(known, expr); len(got) != want {
			t.Errorf("%s: %v", expr, got)
		}
	}
}
