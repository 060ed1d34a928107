package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/worker"
)

// deployment is the environment of a worker to which all is well.
func deployment(t *testing.T) map[string]string {
	t.Helper()

	need.Program(t, "ffmpeg")

	text := webhook.Generate()

	secrets, err := webhook.ParseSecrets(text)
	if err != nil {
		t.Fatal(err)
	}

	base := controlPlane(t, secrets)

	return map[string]string{
		"POSEFLEET_REDIS_URL": redistest.Start(t).URL, "POSEFLEET_CONTROL_URL": base, "POSEFLEET_STORAGE_HOSTS": strings.TrimPrefix(base, "http://"),
		"POSEFLEET_WORKER_SECRET": text, "POSEFLEET_DOOR_SECRET": webhook.Generate(), "POSEFLEET_WORK_DIR": t.TempDir(),
		"POSEFLEET_EXTRACTOR": strings.Join(fake(t, "ok", "").command, " "), "PATH": os.Getenv("PATH"), assets.EnvDir: models(t),
		"POSEFLEET_MAX_INPUT_BYTES": "1MiB",
	}
}

func examine(t *testing.T, environ map[string]string) (found []Finding, sum Summary) {
	t.Helper()

	cfg, faults := worker.LoadConfig(environ)
	sum = Worker{Config: cfg, Faults: faults, Timeout: patience}.Examine(t.Context(), func(f Finding) { found = append(found, f) })

	for _, f := range found {
		for _, name := range []string{"POSEFLEET_WORKER_SECRET", "POSEFLEET_DOOR_SECRET"} {
			if key := strings.TrimPrefix(environ[name], "whsec_"); key != "" && strings.Contains(f.String(), key) {
				t.Errorf("a secret is shown: %s", f)
			}
		}
	}

	return found, sum
}

func TestWorker(t *testing.T) {
	t.Parallel()

	environ := deployment(t)
	found, sum := examine(t, environ)

	var names []string

	for _, f := range found {
		names = append(names, f.Name)

		if f.Level == Fail || f.Level == Warn && f.Name != "decoder" {
			t.Error(f)
		}
	}

	const want = "configuration, redis, eviction, redis memory, redis clock, queue, bullmq, other queues, worker secret, door secret, " +
		"control plane, control clock, signature, storage hosts, callback hosts, models, decoder, extractor, work dir"
	if got := strings.Join(names, ", "); got != want || sum.Failed != 0 || sum.OK+sum.Warned != len(found) {
		t.Errorf("%s (%+v)", got, sum)
	}

	// What is wrong with one variable does not keep the rest from being looked at.
	environ["POSEFLEET_WORKER_SECRET"], environ["POSEFLEET_STORAGE_HOSTS"] = "whsec_canary", ""
	environ["POSEFLEET_TASK_PROTECTION"] = "required"
	found, sum = examine(t, environ)

	var all strings.Builder

	for _, f := range found {
		fmt.Fprintln(&all, f)
	}

	text := all.String()

	for _, word := range []string{"POSEFLEET_WORKER_SECRET is not valid", "POSEFLEET_STORAGE_HOSTS is required", "ok    redis:", "ok    extractor:", "POSEFLEET_TASK_PROTECTION is required, and there is no ECS agent"} {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in\n%s", word, text)
		}
	}

	if strings.Contains(text, "signature:") || strings.Contains(text, "storage hosts:") || strings.Contains(text, "canary") || sum.Failed != 3 {
		t.Errorf("%+v\n%s", sum, text)
	}
}

// An area that never comes back costs its bound and is said to be missing; the others are told all the same, in order.
func TestRunIsBounded(t *testing.T) {
	t.Parallel()

	stuck := make(chan struct{})
	ended := make(chan struct{})

	var names []string

	sum := run(t.Context(), []area{
		{"first", time.Minute, func(context.Context) []Finding { return []Finding{good("first", "a"), good("second", "b")} }},
		{"stuck", time.Millisecond, func(context.Context) []Finding { defer close(ended); <-stuck; return nil }},
		{"slow", time.Minute, func(ctx context.Context) []Finding { return []Finding{warning("slow", "c", "d")} }},
	}, func(f Finding) { names = append(names, f.Name+" "+string(f.Level)) })

	close(stuck)
	<-ended

	if got := strings.Join(names, ", "); got != "first ok, second ok, stuck fail, slow warn" || sum != (Summary{OK: 2, Warned: 1, Failed: 1}) {
		t.Errorf("%s, %+v", got, sum)
	}
}
