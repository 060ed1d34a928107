package gotest_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/cmd/dev/internal/gotest"
)

// Each case is a module of its own, tested by the real go command: the stream is what go writes, not what we think it writes.
func TestReport(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name, code, summary string
		shows               []string
	}{
		{
			"pass, subtests and a skip",
			`func TestA(t *testing.T) { t.Run("x", func(t *testing.T) {}) }
			 func TestB(t *testing.T) { t.Skip("no camera here") }`,
			"2 passed, 0 failed, 1 skipped",
			[]string{"no camera here", "ok    m/p"},
		},
		{
			"failure with its output",
			`func TestA(t *testing.T) { t.Log("first"); t.Error("second") }`,
			"0 passed, 1 failed, 0 skipped",
			[]string{"first", "second", "FAIL  m/p"},
		},
		{
			"panic takes the package along",
			`func TestA(t *testing.T) {}
			 func TestB(t *testing.T) { panic("boom") }`,
			"1 passed, 1 failed, 0 skipped",
			[]string{"boom"},
		},
		{
			"exit in the middle",
			`func TestA(t *testing.T) { os.Exit(3) }`,
			"0 passed, 1 failed, 0 skipped",
			[]string{"FAIL  m/p"},
		},
		{
			"does not compile",
			`func TestA(t *testing.T) { undefined() }`,
			"0 passed, 1 failed, 0 skipped",
			[]string{"undefined: undefined"},
		},
		{
			"TestMain fails",
			`func TestA(t *testing.T) {}
			 func TestMain(m *testing.M) { m.Run(); println("leak found"); os.Exit(1) }`,
			"1 passed, 1 failed, 0 skipped",
			[]string{"leak found"},
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			var shown strings.Builder

			r := gotest.New(&shown)
			goTest(t, tt.code, r)
			r.Close()

			if got := r.Summary(); got != tt.summary {
				t.Errorf("got %q, want %q\n%s", got, tt.summary, shown.String())
			}

			if r.OK() != strings.Contains(tt.summary, " 0 failed") {
				t.Errorf("OK is %v for %s", r.OK(), tt.summary)
			}

			for _, want := range tt.shows {
				if !strings.Contains(shown.String(), want) {
					t.Errorf("does not show %q:\n%s", want, shown.String())
				}
			}
		})
	}
}

// A run in which nothing ran is no success.
func TestNothingRan(t *testing.T) {
	t.Parallel()

	if r := gotest.New(io.Discard); r.OK() {
		t.Error("OK without a single test")
	}
}

// A pattern of names that matches no test is a success for go test and none for us, whatever ran before.
func TestRequire(t *testing.T) {
	t.Parallel()

	var shown strings.Builder

	r := gotest.New(&shown)
	for _, run := range []string{"^TestA$", "^TestRenamed$", "^TestSkipped$"} {
		before := r.Tests()

		goTest(t, `func TestA(t *testing.T) {}
			func TestSkipped(t *testing.T) { t.Skip() }`, r, "-run", run)
		r.Require(run, before)
	}

	r.Close()

	if got := r.Summary(); got != "1 passed, 2 failed, 1 skipped" || !strings.Contains(shown.String(), "^TestRenamed$: no test was run") {
		t.Errorf("%s\n%s", got, shown.String())
	}
}

func goTest(t *testing.T, code string, w io.Writer, args ...string) {
	t.Helper()

	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module m\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "p", "p_test.go"), "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\n\n"+code+"\n")

	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-json", "./..."}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	cmd.Stdout = w

	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()

	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
