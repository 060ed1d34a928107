package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// hello is an extractor that says hello and waits for the end of its orders.
const hello = `#!/bin/sh
echo '{"type":"hello","protocol":1,"name":"script","model":{"name":"m","version":"1","sha256":"` +
	`abababababababababababababababababababababababababababababababab"}}'
cat > /dev/null
`

// doctorEnviron is the environment of a worker to which all is well, with a real control plane and Redis.
func doctorEnviron(t *testing.T, redisURL string) []string {
	t.Helper()
	need.Program(t, "ffmpeg")
	dir := t.TempDir()
	secret := webhook.Generate()
	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := control.New(ctx, control.Config{
		RedisURL: redisURL, Prefix: "bull", Queue: "pose", Listen: "127.0.0.1:0", DatabaseURL: "sqlite:" + filepath.Join(dir, "db"),
		StorageURL: "file:" + filepath.Join(dir, "storage"), WorkerSecrets: secrets,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }() // ends with the test
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	extractor := filepath.Join(dir, "extractor")
	if err := os.WriteFile(extractor, []byte(hello), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return []string{
		"PATH=" + os.Getenv("PATH"), "POSEFLEET_REDIS_URL=" + redisURL, "POSEFLEET_CONTROL_URL=http://" + s.Addr(), "POSEFLEET_STORAGE_HOSTS=" + s.Addr(),
		"POSEFLEET_WORKER_SECRET=" + secret, "POSEFLEET_DOOR_SECRET=" + webhook.Generate(), "POSEFLEET_WORK_DIR=" + dir,
		"POSEFLEET_EXTRACTOR=" + extractor, "POSEFLEET_MAX_INPUT_BYTES=1MiB",
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	environ := doctorEnviron(t, r.URL)
	code, stdout, stderr := call(environ, "doctor", "--timeout=30s")
	if code != 0 || stderr != "" || strings.Contains(stdout, "FAIL") || !strings.Contains(stdout, "ok    eviction: ") {
		t.Fatalf("exit %d, %q\n%s", code, stderr, stdout)
	}

	if err := r.Client().ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru").Err(); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = call(environ, "doctor", "--timeout=30s", "--json", "--worker-secret="+webhook.Generate())
	var doc struct {
		OK      bool `json:"ok"`
		Summary struct {
			Failed int `json:"failed"`
		} `json:"summary"`
		Checks []struct{ Name, Level, What, Mend string } `json:"checks"`
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if code != 1 || stderr != "posefleet: 2 of 19 checks failed\n" || doc.OK || doc.Summary.Failed != 2 {
		t.Errorf("exit %d, %q, %+v", code, stderr, doc)
	}
	for _, c := range doc.Checks {
		bad := slices.Contains([]string{"eviction", "signature"}, c.Name)
		if (c.Level == "fail") != bad || bad && c.Mend == "" {
			t.Errorf("%+v", c)
		}
	}
}

// A wrong configuration is exit 2 and one line on stderr, and the rest is looked at all the same.
func TestDoctorOfAWrongConfiguration(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := call(nil, "doctor", "--slots=0", "--redis-url=redis://:canary@127.0.0.1:1")
	if code != 2 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "--slots must be") || !strings.Contains(stderr, "POSEFLEET_CONTROL_URL is required") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if !strings.Contains(stdout, "FAIL  configuration: POSEFLEET_CONTROL_URL is required → ") || !strings.Contains(stdout, "FAIL  redis: Redis at 127.0.0.1:1") {
		t.Error(stdout)
	}
	if strings.Contains(stdout+stderr, "canary") {
		t.Error("a password is shown")
	}
	// The control plane's variables tell where we are.
	environ := []string{"POSEFLEET_STORAGE_URL=file:" + t.TempDir(), "POSEFLEET_REDIS_URL=redis://127.0.0.1:1"}
	code, stdout, stderr = call(environ, "doctor", "--listen=127.0.0.1:1")
	if code != 2 || stderr != "posefleet: POSEFLEET_WORKER_SECRET is required (see posefleet doctor --help)\n" || !strings.Contains(stdout, "ok    storage: ") {
		t.Errorf("exit %d, %q\n%s", code, stderr, stdout)
	}
	if code, stdout, stderr := call(nil, "doctor", "--timeout=0s"); code != 2 || stdout != "" || !strings.Contains(stderr, "--timeout") {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}
