package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/queue"
)

// TestReadmeByHand runs the commands of the README's "Running a fleet" as they stand there, from the Redis up to the pose document and the removal
// of what was made. The addresses and the extractor are the test's.
func TestReadmeByHand(t *testing.T) {
	t.Parallel()

	bash := need.Program(t, "bash")
	for _, program := range []string{"curl", "node", "redis-server", "sha256sum", "stat"} {
		need.Program(t, program)
	}

	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}

	_, section, ok := strings.Cut(string(text), "\n## Running a fleet\n")

	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	if !ok || len(blocks) < 3 {
		t.Fatal("the README does not show how to run a fleet")
	}

	dir, plane := t.TempDir(), address(t)
	if err := os.MkdirAll(filepath.Join(dir, "build", "bin"), 0o750); err != nil {
		t.Fatal(err)
	}

	if err := os.Symlink(posefleet(t), filepath.Join(dir, "build", "bin", "posefleet")); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(filepath.Join(dir, "my-clip.mp4"), []byte("a clip"), 0o600); err != nil {
		t.Fatal(err)
	}

	script := "set -euo pipefail\ntrap 'kill $(jobs -p) || true; wait' EXIT\n" + blocks[0][1] + blocks[1][1] + "cp pose.json my-pose.json\n" + blocks[2][1]
	redis := address(t)
	_, port, _ := strings.Cut(redis, ":")
	script = strings.NewReplacer("127.0.0.1:8081", plane, "127.0.0.1:8080", address(t), "127.0.0.1:9090", address(t), "--port 6379", "--port "+port).Replace(script)

	// The work is so long that the second analysis is still there to be cancelled.
	cmd := exec.CommandContext(t.Context(), bash, "-c", script)
	cmd.Dir = dir
	cmd.Env = environment(map[string]string{"POSEFLEET_REDIS_URL": "redis://" + redis, "POSEFLEET_EXTRACTOR": stopwatch{work: 10 * time.Second}.command()})

	out, err := cmd.CombinedOutput()
	for _, want := range []string{"event: end\n", `"status":"delivered"`, `"status":"cancelled"`} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v, or no %s\n%s", err, want, out)
		}
	}

	var pose struct{ Schema string }
	if text, err = os.ReadFile(filepath.Join(dir, "my-pose.json")); err != nil || json.Unmarshal(text, &pose) != nil {
		t.Errorf("the pose document: %v, %d bytes", err, len(text))
	}

	left, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range left {
		if name := filepath.Base(path); !slices.Contains([]string{"build", "my-clip.mp4", "my-pose.json"}, name) {
			t.Errorf("%s is left", name)
		}
	}

	if err != nil {
		t.Error(err)
	}
}

// TestReadmeFromGo builds the README's Go program and has it add and do its job.
func TestReadmeFromGo(t *testing.T) {
	t.Parallel()
	compiler := need.Program(t, "go")

	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}

	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("the README shows no Go program")
	}

	const url = "redis://127.0.0.1:6379/0"
	if !strings.Contains(block[1], url) {
		t.Fatalf("the program does not use %s", url)
	}

	redis := redistest.Start(t)
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(strings.Replace(block[1], url, redis.URL, 1)), 0o600); err != nil {
		t.Fatal(err)
	}

	binary := filepath.Join(dir, "mail")
	if out, err := exec.CommandContext(t.Context(), compiler, "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	p := startProcess(t, "mail", nil, binary)
	q, err := queue.NewQueue(queue.Options{RedisURL: redis.URL, Name: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	wait.For(t, startLimit, func() bool {
		c, err := q.Counts(t.Context())

		return ended(p.Process) || err == nil && c.Completed == 1
	}, "the job is not done")

	j, err := q.Job(t.Context(), "1")
	if err != nil || j.Name != "welcome" || string(j.Data) != `{"to":"ann"}` || string(j.ReturnValue) != `"sent"` {
		t.Errorf("%+v, %v", j, err)
	}
}
