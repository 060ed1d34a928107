package conformance

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/wait"
)

// process is a program under test.
type process struct {
	*child.Process

	name string
	log  *logLines
}

// startProcess runs a program with exactly this environment (and PATH, HOME). It is killed in the test's cleanup; its log is shown if the
// test failed.
func startProcess(t testing.TB, name string, env map[string]string, command ...string) *process {
	t.Helper()

	p := &process{name: name, log: &logLines{}}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = environment(env)
	cmd.Stdout, cmd.Stderr = p.log, p.log

	proc, err := child.Start(cmd)
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}

	p.Process = proc
	t.Cleanup(func() {
		proc.Kill()

		if t.Failed() {
			t.Logf("log of %s:\n%s", name, p.log.tail(60))
		}
	})

	return p
}

func environment(vars map[string]string) []string {
	var env []string

	for _, name := range []string{"PATH", "HOME", "XDG_CACHE_HOME", "POSEFLEET_ASSETS", "GOCOVERDIR"} {
		if _, given := vars[name]; given {
			continue
		}

		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}

	for name, value := range vars {
		env = append(env, name+"="+value)
	}

	slices.Sort(env)

	return env
}

// freeze stops the process as a paused machine does; thaw lets it go on.
func (p *process) freeze(t testing.TB) { p.send(t, syscall.SIGSTOP) }

func (p *process) thaw(t testing.TB) { p.send(t, syscall.SIGCONT) }

// terminate asks the process to end.
func (p *process) terminate(t testing.TB) { p.send(t, syscall.SIGTERM) }

func (p *process) send(t testing.TB, sig syscall.Signal) {
	t.Helper()

	if err := p.Signal(sig); err != nil {
		t.Fatalf("signal %v to %s: %v", sig, p.name, err)
	}
}

// awaitExit waits for the end of the process and returns its exit code, -1 for an end by a signal.
func (p *process) awaitExit(t testing.TB, timeout time.Duration) int {
	t.Helper()

	select {
	case <-p.Done():
	case <-time.After(timeout):
		t.Fatalf("%s does not end within %v", p.name, timeout)
	}

	if err := p.Err(); err != nil {
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Wait returns it bare
			return exit.ExitCode()
		}

		t.Fatalf("%s: %v", p.name, err)
	}

	return 0
}

// awaitLog waits until a line of the log contains all the words.
func (p *process) awaitLog(t testing.TB, timeout time.Duration, words ...string) {
	t.Helper()
	wait.For(t, timeout, func() bool { return p.log.has(words...) }, "no line with %q in the log of %s", words, p.name)
}

// logLines keeps what a process writes.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.buf.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.buf.String()
}

func (l *logLines) has(words ...string) bool {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}

	return false
}

func (l *logLines) tail(n int) string {
	lines := strings.Split(strings.TrimRight(l.String(), "\n"), "\n")

	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// descendants are the living processes below pid, found by the kernel's list of children.
func descendants(pid int) []int {
	var all []int

	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended meanwhile
		}

		for field := range strings.FieldsSeq(string(text)) {
			var kid int
			if _, err := fmt.Sscan(field, &kid); err == nil {
				all = append(append(all, kid), descendants(kid)...)
			}
		}
	}

	return all
}

// alive tells whether the process is there and no zombie.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}

	_, after, _ := strings.Cut(string(text), ") ")

	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}
