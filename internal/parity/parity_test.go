package parity_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/node"
	"github.com/posefleet/posefleet/internal/parity"
)

// The document is what the generator would write, so that it can't claim what the table does not.
func TestDocumentIsCurrent(t *testing.T) {
	t.Parallel()

	have, err := os.ReadFile(filepath.Join(need.ModuleRoot(t), "docs", "parity.md"))
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(parity.Document(parity.Features()), string(have)); diff != "" {
		t.Errorf("docs/parity.md has drifted, run go run ./internal/parity/gen: %s", diff)
	}
}

// Each test that shows a feature is there; that it passes is seen where all tests run.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()

	root := need.ModuleRoot(t)

	for dir, names := range parity.Tests(parity.Features()) {
		there := testsIn(t, filepath.Join(root, filepath.FromSlash(dir)))

		for _, name := range names {
			if !slices.Contains(there, name) {
				t.Errorf("package %s has no test %s", dir, name)
			}
		}
	}
}

func TestRowsAreWhole(t *testing.T) {
	t.Parallel()

	marks := []parity.Mark{parity.Yes, parity.Partly, parity.No, parity.Unchecked}
	seen := map[string]bool{}

	for _, f := range parity.Features() {
		if seen[f.Name] || f.Area == "" || strings.ContainsAny(f.Name+f.Note, "|\n") {
			t.Errorf("row %q: twice, without area, or not of one cell", f.Name)
		}

		seen[f.Name] = true

		for _, m := range []parity.Mark{f.Node6, f.Node5, f.Python, f.Rust, f.Go} {
			if !slices.Contains(marks, m) {
				t.Errorf("row %q has the mark %q", f.Name, m)
			}
		}

		for _, name := range f.Tests {
			if _, fn, ok := parity.SplitTest(name); !ok || !strings.HasPrefix(fn, "Test") {
				t.Errorf("row %q names %q", f.Name, name)
			}
		}
	}
}

// What the table says of Node is what the installed packages have.
func TestNodeHasWhatIsSaid(t *testing.T) {
	t.Parallel()
	need.Node(t)

	probes := map[string]string{}

	for _, f := range parity.Features() {
		if f.Probe != "" {
			probes[f.Name] = f.Probe
		}
	}

	for major, mark := range map[string]func(parity.Feature) parity.Mark{
		"6": func(f parity.Feature) parity.Mark { return f.Node6 },
		"5": func(f parity.Feature) parity.Mark { return f.Node5 },
	} {
		has := ask(t, major, probes)

		for _, f := range parity.Features() {
			if f.Probe != "" && has[f.Name] != (mark(f) == parity.Yes) {
				t.Errorf("bullmq %s, %s: the table says %s, %s is %v", major, f.Name, mark(f), f.Probe, has[f.Name])
			}
		}
	}
}

// ask evaluates the probes in Node.
func ask(t *testing.T, major string, probes map[string]string) map[string]bool {
	t.Helper()

	text, err := json.Marshal(probes)
	if err != nil {
		t.Fatal(err)
	}

	const script = `const b = require(process.argv[1]); const found = {}
for (const [name, probe] of Object.entries(JSON.parse(process.argv[2]))) found[name] = Boolean(new Function('b', 'return ' + probe)(b))
process.stdout.write(JSON.stringify(found)); process.exit(0)`

	cmd, err := node.Command(t.Context(), "-e", script, "bullmq"+major, string(text))
	if err != nil {
		t.Fatal(err)
	}

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v", err)
	}

	var found map[string]bool
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	return found
}

// testsIn are the test functions of a folder.
func testsIn(t *testing.T, dir string) []string {
	t.Helper()

	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}

	var names []string

	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}

		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}

	return names
}
