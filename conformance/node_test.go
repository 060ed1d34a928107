package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/node"
	"github.com/posefleet/posefleet/internal/wait"
)

// The npm names of the two BullMQ majors.
const (
	bullmq5 = "bullmq5"
	bullmq6 = "bullmq6"
)

const (
	nodeTimeout = 30 * time.Second
	scriptEnd   = 3 * time.Second
)

// script is a running script of node/; it speaks JSON lines.
type script struct {
	t     testing.TB
	name  string
	stdin io.WriteCloser
	proc  *child.Process

	mu    sync.Mutex
	lines []map[string]any
	notes strings.Builder // stderr
	calls int
}

// startScript runs node/NAME with the arguments and variables. It ends with the test.
func startScript(t testing.TB, name string, args []string, env map[string]string) *script {
	t.Helper()
	need.Node(t)

	cmd, err := node.Command(context.WithoutCancel(t.Context()), append([]string{filepath.Join("node", name)}, args...)...)
	if err != nil {
		t.Fatal(err)
	}

	for key, value := range env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}

	s := &script{t: t, name: name}
	s.launch(cmd)

	return s
}

func (s *script) launch(cmd *exec.Cmd) {
	s.t.Helper()

	reader, writer := io.Pipe()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}

	s.stdin, cmd.Stdout, cmd.Stderr = stdin, writer, &lockedWriter{mu: &s.mu, w: &s.notes}

	s.proc, err = child.Start(cmd)
	if err != nil {
		s.t.Fatalf("start node: %v", err)
	}

	var reading sync.WaitGroup

	reading.Go(func() { s.read(reader) }) // ends when the process has ended and its output is read
	s.t.Cleanup(func() {
		_ = stdin.Close() // the polite end

		select {
		case <-s.proc.Done():
		case <-time.After(scriptEnd):
			s.proc.Kill()
		}

		_ = writer.Close()
		reading.Wait()

		if s.t.Failed() {
			s.t.Logf("stderr of %s:\n%s", s.name, s.stderr())
		}
	})
}

func ended(p *child.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

func (s *script) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 8<<20)

	for lines.Scan() {
		var line map[string]any
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			line = map[string]any{"garbage": lines.Text()}
		}

		s.mu.Lock()
		s.lines = append(s.lines, line)
		s.mu.Unlock()
	}
}

// all are the lines so far for which pick holds.
func (s *script) all(pick func(map[string]any) bool) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()

	var found []map[string]any

	for _, line := range s.lines {
		if pick(line) {
			found = append(found, line)
		}
	}

	return found
}

// await waits for the first line for which pick holds.
func (s *script) await(timeout time.Duration, what string, pick func(map[string]any) bool) map[string]any {
	s.t.Helper()

	var found []map[string]any

	wait.For(s.t, timeout, func() bool {
		found = s.all(pick)

		return len(found) > 0 || ended(s.proc)
	}, "no %s from %s", what, s.name)

	if len(found) == 0 {
		s.t.Fatalf("%s ended before it said %s: %v\n%s", s.name, what, s.proc.Err(), s.stderr())
	}

	return found[0]
}

func (s *script) stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.notes.String()
}

// call sends a request to client.cjs and decodes its result into v, if that is not nil.
func (s *script) call(v any, op string, args map[string]any) error {
	s.t.Helper()

	s.mu.Lock()
	s.calls++
	id := s.calls
	s.mu.Unlock()

	request := map[string]any{"id": id, "op": op}
	maps.Copy(request, args)

	text, err := json.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}

	if _, err := s.stdin.Write(append(text, '\n')); err != nil {
		s.t.Fatalf("write to %s: %v", s.name, err)
	}

	answer := s.await(2*time.Minute, op, func(line map[string]any) bool { return line["id"] == float64(id) })
	if fault, ok := answer["error"]; ok {
		return fmt.Errorf("%s: %v", op, fault)
	}

	if v == nil {
		return nil
	}

	text, err = json.Marshal(answer["result"])
	if err != nil {
		s.t.Fatal(err)
	}

	return json.Unmarshal(text, v)
}

// nodeJob is a job as Node reads it.
type nodeJob struct {
	ID              string          `json:"id"`
	Name            string          `json:"name"`
	Data            map[string]any  `json:"data"`
	State           string          `json:"state"`
	ReturnValue     json.RawMessage `json:"returnvalue"`
	Progress        json.RawMessage `json:"progress"`
	FailedReason    string          `json:"failedReason"`
	Stacktrace      []string        `json:"stacktrace"`
	AttemptsMade    int             `json:"attemptsMade"`
	AttemptsStarted int             `json:"attemptsStarted"`
	ProcessedBy     string          `json:"processedBy"`
	FinishedOn      int64           `json:"finishedOn"`
	Logs            []string        `json:"logs"`
}

// nodeClient starts client.cjs of a BullMQ major on a queue.
func nodeClient(t testing.TB, library, redisURL, queue string) *script {
	t.Helper()

	s := startScript(t, "client.cjs", []string{library}, map[string]string{"REDIS_URL": redisURL, "PREFIX": "bull", "QUEUE": queue})
	s.await(nodeTimeout, "ready", func(line map[string]any) bool { return line["ready"] == true })

	return s
}

// readJob reads a job by Node.
func (s *script) readJob(id string) nodeJob {
	s.t.Helper()

	var job *nodeJob
	if err := s.call(&job, "read", map[string]any{"job": id}); err != nil {
		s.t.Fatal(err)
	}

	if job == nil {
		s.t.Fatalf("Node finds no job %s", id)
	}

	return *job
}

// events are the names of the events of a job in their order.
func (s *script) events(id string) []string {
	var names []string

	for _, line := range s.all(func(line map[string]any) bool { return line["event"] != nil }) {
		if args, ok := line["args"].(map[string]any); ok && args["jobId"] == id {
			names = append(names, fmt.Sprint(line["event"]))
		}
	}

	return names
}

// lockedWriter writes under a lock.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.w.Write(b)
}
