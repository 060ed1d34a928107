package child_test

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/wait"
)

func start(t *testing.T, script string) *child.Process {
	t.Helper()

	p, err := child.Start(exec.CommandContext(t.Context(), "sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(p.Kill)

	return p
}

func TestStopBySignal(t *testing.T) {
	t.Parallel()

	p := start(t, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	wait.For(t, time.Minute, func() bool { return strings.Contains(p.Output(), "ready") })

	if err := p.Stop(syscall.SIGTERM, time.Minute); err != nil {
		t.Fatal(err)
	}

	if err := p.Err(); err != nil || !strings.Contains(p.Output(), "bye") {
		t.Fatalf("ended with %v, said %q", err, p.Output())
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	t.Parallel()

	p := start(t, "trap '' TERM; echo ready; while :; do sleep 0.01; done")
	wait.For(t, time.Minute, func() bool { return strings.Contains(p.Output(), "ready") })

	if err := p.Stop(syscall.SIGTERM, 50*time.Millisecond); !errors.Is(err, child.ErrStillRunning) {
		t.Fatalf("got %v", err)
	}
}

func TestSignalAfterTheEnd(t *testing.T) {
	t.Parallel()

	p := start(t, "exit 3")
	<-p.Done()

	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("signal to an ended child: %v", err)
	}

	if exit, ok := errors.AsType[*exec.ExitError](p.Err()); !ok || exit.ExitCode() != 3 {
		t.Fatalf("got %v", p.Err())
	}

	p.Kill() // once more is no fault
}

func TestMissingProgram(t *testing.T) {
	t.Parallel()

	if _, err := child.Start(exec.CommandContext(t.Context(), "/no/such/program")); err == nil {
		t.Fatal("no error")
	}
}
