package conformance

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"go.yaml.in/yaml/v3"

	"github.com/posefleet/posefleet/internal/need"
	program "github.com/posefleet/posefleet/worker"
)

// The templates in docs/deploy are not run by any test, so that what would go wrong at their first use is looked for here: names that lead
// nowhere, variables that no worker knows, times that do not fit each other.
var deployLint = flag.Bool("deploy.lint", false, "have cfn-lint and terraform look at the templates as well")

// part is a piece of a template; the short forms of CloudFormation's functions are tags of it.
type part struct{ *yaml.Node }

// get is the value of a key, an empty one if it is not there.
func (n part) get(path ...string) part {
	for _, key := range path {
		next := part{&yaml.Node{}}

		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				next = part{n.Content[i+1]}
			}
		}

		n = next
	}

	return n
}

func (n part) keys() []string {
	var keys []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		keys = append(keys, n.Content[i].Value)
	}

	return keys
}

// walk visits all scalars.
func (n part) walk(visit func(part)) {
	if n.Kind == yaml.ScalarNode {
		visit(n)
	}

	for _, c := range n.Content {
		part{c}.walk(visit)
	}
}

func deployPath(t *testing.T, name string) string {
	t.Helper()

	return filepath.Join(need.ModuleRoot(t), "docs", "deploy", name)
}

func readDeploy(t *testing.T, name string) string {
	t.Helper()

	text, err := os.ReadFile(deployPath(t, name))
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

func TestCloudFormationTemplate(t *testing.T) {
	t.Parallel()

	var root yaml.Node
	if err := yaml.Unmarshal([]byte(readDeploy(t, "cloudformation.yaml")), &root); err != nil {
		t.Fatal(err)
	}

	template := part{root.Content[0]}
	known := slices.Concat(template.get("Parameters").keys(), template.get("Resources").keys())
	used := map[string]bool{}

	template.walk(func(n part) {
		if n.Kind == yaml.AliasNode || n.Anchor != "" {
			t.Errorf("line %d: CloudFormation knows no anchors", n.Line)
		}

		for _, name := range references(n) {
			used[name] = true
			if !slices.Contains(known, name) && !strings.HasPrefix(name, "AWS::") {
				t.Errorf("line %d: nothing is named %s", n.Line, name)
			}
		}
	})

	for _, name := range template.get("Parameters").keys() {
		if !used[name] {
			t.Errorf("parameter %s is not used", name)
		}
	}

	container := part{template.get("Resources", "Task", "Properties", "ContainerDefinitions").Content[0]}
	want := map[string]string{
		"StopTimeout": "120", "Essential": "true", "User": "10001:10001",
	}

	for key, value := range want {
		if got := container.get(key).Value; got != value {
			t.Errorf("%s is %q, want %q", key, got, value)
		}
	}

	checkVariables(t, readDeploy(t, "cloudformation.yaml"))
	runLinter(t, "cfn-lint", deployPath(t, "cloudformation.yaml"))
}

// references are the names that a scalar refers to.
func references(n part) []string {
	switch n.Tag {
	case "!Ref":
		return []string{n.Value}
	case "!GetAtt":
		name, _, _ := strings.Cut(n.Value, ".")

		return []string{name}
	case "!Sub":
		var names []string

		for _, found := range regexp.MustCompile(`\$\{([^}!]+)\}`).FindAllStringSubmatch(n.Value, -1) {
			name, _, _ := strings.Cut(found[1], ".")
			names = append(names, name)
		}

		return names
	default:
		return nil
	}
}

// checkVariables: every variable of ours that a template sets is one that the worker knows, and times fit.
func checkVariables(t *testing.T, text string) {
	t.Helper()

	var known []string
	for _, v := range program.Variables() {
		known = append(known, v.Name)
	}

	found := regexp.MustCompile(`(?i)name(?: =|:) "?(POSEFLEET_\w+)`).FindAllStringSubmatch(text, -1)
	if len(found) < 8 {
		t.Errorf("only %d variables are set", len(found))
	}

	for _, f := range found {
		if !slices.Contains(known, f[1]) {
			t.Errorf("no worker knows %s", f[1])
		}
	}

	for _, words := range []string{"idle_timeout", "504", "ecs:UpdateTaskProtection", "85s", "120", "least_outstanding_requests"} {
		if !strings.Contains(text, words) {
			t.Errorf("%q is not said", words)
		}
	}

	for _, broad := range []string{`"*:*"`, `"ecs:*"`, `"s3:*"`, "iam:PassRole"} {
		if strings.Contains(text, broad) {
			t.Errorf("a right is too broad: %s", broad)
		}
	}
}

// runLinter runs a linter where that is asked for: the one for CloudFormation takes longer than all else here.
func runLinter(t *testing.T, name string, args ...string) {
	t.Helper()

	if !*deployLint {
		return
	}

	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}

	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

func TestTerraformModule(t *testing.T) {
	t.Parallel()

	parser := hclparse.NewParser()
	defined, used := map[string]bool{}, map[string]int{}

	var all strings.Builder

	for _, name := range []string{"main.tf", "alarms.tf", "variables.tf"} {
		text := readDeploy(t, "terraform/"+name)
		all.WriteString(text)

		file, faults := parser.ParseHCL([]byte(text), name)
		if faults.HasErrors() {
			t.Fatal(faults)
		}

		body, ok := file.Body.(*hclsyntax.Body)
		if !ok {
			t.Fatalf("%s is %T", name, file.Body)
		}

		for _, b := range body.Blocks {
			define(defined, b)
		}

		_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) hcl.Diagnostics { // the visitor finds no fault
			if e, ok := n.(*hclsyntax.ScopeTraversalExpr); ok {
				used[nameOf(e.Traversal)]++
			}

			return nil
		})
	}

	for name := range used {
		root, _, _ := strings.Cut(name, ".")
		// Types and names of attributes look like references as well.
		if ours := slices.Contains([]string{"var", "local", "data"}, root) || strings.HasPrefix(root, "aws_"); ours && !defined[name] {
			t.Errorf("nothing is %s", name)
		}
	}

	for name := range defined {
		if strings.HasPrefix(name, "var.") && used[name] == 0 {
			t.Errorf("%s is not used", name)
		}
	}

	checkVariables(t, all.String())
	runLinter(t, "terraform", "fmt", "-check", "-diff", deployPath(t, "terraform"))
}

// define notes what a block makes, by the address under which others refer to it.
func define(defined map[string]bool, b *hclsyntax.Block) {
	switch b.Type {
	case "variable":
		defined["var."+b.Labels[0]] = true
	case "locals":
		for name := range b.Body.Attributes {
			defined["local."+name] = true
		}
	case "data":
		defined["data."+strings.Join(b.Labels, ".")] = true
	case "resource":
		defined[strings.Join(b.Labels, ".")] = true
	}
}

// nameOf is the part of a reference that names a thing.
func nameOf(traversal hcl.Traversal) string {
	var parts []string

	for _, step := range traversal {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			parts = append(parts, s.Name)
		case hcl.TraverseAttr:
			parts = append(parts, s.Name)
		}
	}

	most := 2
	if parts[0] == "data" {
		most = 3
	}

	return strings.Join(parts[:min(len(parts), most)], ".")
}

// TestDeployTestsFindFaults is a test of the tests above.
func TestDeployTestsFindFaults(t *testing.T) {
	t.Parallel()

	for text, want := range map[string][]string{
		"!Ref A": {"A"}, "!GetAtt B.Arn": {"B"}, `!Sub "x${C}y${D.E}${!F}"`: {"C", "D"}, "plain": nil,
	} {
		var root yaml.Node
		if err := yaml.Unmarshal([]byte(text), &root); err != nil {
			t.Fatal(err)
		}

		if got := references(part{root.Content[0]}); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s refers to %v, want %v", text, got, want)
		}
	}
}
