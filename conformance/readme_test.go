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

	"github.com/posefleet/posefleet/internal/need"
)

// TestReadmeByHand runs the commands of the README's "Running a fleet" as they stand there, up to the pose document and the removal of what
// was made. The addresses and the extractor are the test's.
func TestReadmeByHand(t *testing.T) {
	t.Parallel()

	bash := need.Program(t, "bash")
	for _, program := range []string{"curl", "node", "sha256sum", "stat"} {
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

	// Between the two the reader needs a moment, and a script as long as it takes.
	started := "until curl -s -o started.txt http://127.0.0.1:8081/readyz && curl -sf -o started.txt http://127.0.0.1:9090/readyz; do sleep 0.1; done\n"
	script := "set -euo pipefail\ntrap 'kill $(jobs -p) || true; wait' EXIT\n" + blocks[0][1] + started + blocks[1][1] + "cp pose.json my-pose.json\n" + blocks[2][1]
	script = strings.NewReplacer("127.0.0.1:8081", plane, "127.0.0.1:8080", address(t), "127.0.0.1:9090", address(t)).Replace(script)

	s := newQueueOnly(t)
	cmd := exec.CommandContext(t.Context(), bash, "-c", script)
	cmd.Dir = dir
	cmd.Env = environment(map[string]string{"POSEFLEET_REDIS_URL": s.redis.URL, "POSEFLEET_EXTRACTOR": stopwatch{}.command()})

	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "event: end\n") || !strings.Contains(string(out), `"status":"delivered"`) {
		t.Fatalf("%v\n%s", err, out)
	}

	var pose struct{ Schema string }
	if text, err = os.ReadFile(filepath.Join(dir, "my-pose.json")); err != nil || json.Unmarshal(text, &pose) != nil {
		t.Errorf("the pose document: %v, %d bytes", err, len(text))
	}

	left, err := filepath.Glob(filepath.Join(dir, "*"))
	for _, path := range left {
		if name := filepath.Base(path); !slices.Contains([]string{"build", "my-clip.mp4", "my-pose.json", "started.txt"}, name) {
			t.Errorf("%s is left", name)
		}
	}

	if err != nil {
		t.Error(err)
	}
}
