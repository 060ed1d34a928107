package proc_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
)

func sh(script string) proc.Spec { return proc.Spec{Args: []string{"sh", "-c", script}} }

// A fault is one line that names the program and says why.
func TestErrorIsOneTellingLine(t *testing.T) {
	t.Parallel()

	tests := []struct{ name, script, want string }{
		{"last line", "echo working; echo no room left >&2; exit 3", "no room left"},
		{"apt's mark", "echo 'E: Unable to locate package x' >&2; echo bye; exit 100", "E: Unable to locate package x"},
		{"npm's mark", "echo 'npm error code E404' >&2; echo 'a log can be found' >&2; exit 1", "npm error code E404"},
		{"silent", "exit 7", "exit status 7"},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			err := proc.Run(t.Context(), sh(tt.script))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "sh -c") {
				t.Fatalf("got %v, want %q", err, tt.want)
			}

			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("more than one line: %q", err)
			}
		})
	}
}

func TestMissingProgram(t *testing.T) {
	t.Parallel()

	err := proc.Run(t.Context(), proc.Spec{Args: []string{"no-such-program"}})
	if !errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
}

func TestOutputIsStdoutOnly(t *testing.T) {
	t.Parallel()

	out, err := proc.Output(t.Context(), sh("echo out; echo err >&2"))
	if err != nil || out != "out\n" {
		t.Fatalf("got %q, %v", out, err)
	}
}

func TestPipe(t *testing.T) {
	t.Parallel()

	path := t.TempDir() + "/out"

	if err := proc.Pipe(t.Context(), sh("echo hello"), proc.Spec{Args: []string{"sh", "-c", "cat >" + path}}); err != nil {
		t.Fatal(err)
	}

	if got, err := os.ReadFile(path); err != nil || string(got) != "hello\n" {
		t.Fatalf("got %q, %v", got, err)
	}

	// A source that fails is a fault, although the sink was content with what it got.
	if err := proc.Pipe(t.Context(), sh("echo half; echo broken >&2; exit 4"), sh("cat >/dev/null")); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Fatalf("got %v", err)
	}
}

// A cancelled program is told to end, and the error says why and not how.
func TestCancelled(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("took too long"))
	defer cancel()

	if err := proc.Run(ctx, proc.Spec{Args: []string{"sleep", "60"}}); err == nil || !strings.Contains(err.Error(), "took too long") {
		t.Fatalf("got %v", err)
	}
}
