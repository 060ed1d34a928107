package doctor

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/s3test"
	"github.com/posefleet/posefleet/protocol/webhook"
)

func TestControl(t *testing.T) {
	t.Parallel()

	dir, text := t.TempDir(), webhook.Generate()

	secrets, err := webhook.ParseSecrets(text)
	if err != nil {
		t.Fatal(err)
	}

	environ := map[string]string{
		"POSEFLEET_REDIS_URL": redistest.Start(t).URL, "POSEFLEET_WORKER_SECRET": text, "POSEFLEET_PUBLIC_URL": controlPlane(t, secrets),
		"POSEFLEET_DATABASE_URL": "sqlite:" + filepath.Join(dir, "db"), "POSEFLEET_STORAGE_URL": "file:" + filepath.Join(dir, "storage"),
	}
	look := func() (text string, sum Summary) {
		cfg, faults := control.LoadConfig(environ)
		sum = Control{Config: cfg, Faults: faults, Timeout: patience}.Examine(t.Context(), func(f Finding) { text += f.String() + "\n" })

		return text, sum
	}

	got, sum := look()
	for _, name := range []string{"configuration", "redis", "eviction", "other queues", "worker secret", "signature", "database", "storage"} {
		if !strings.Contains(got, "ok    "+name+": ") {
			t.Errorf("%s is not ok:\n%s", name, got)
		}
	}

	if sum.Failed+sum.Warned > 0 {
		t.Errorf("%+v\n%s", sum, got)
	}

	environ["POSEFLEET_WORKER_SECRET"], environ["POSEFLEET_DATABASE_URL"] = webhook.Generate(), "oracle:canary"
	environ["POSEFLEET_STORAGE_URL"] = "file:/proc/posefleet"
	got, sum = look()

	for _, line := range []string{"FAIL  configuration: POSEFLEET_DATABASE_URL", "FAIL  signature: ", "FAIL  storage: "} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}

	if sum.Failed != 3 || strings.Contains(got, "database:") || strings.Contains(got, "canary") {
		t.Errorf("%+v\n%s", sum, got)
	}
}

func TestPublic(t *testing.T) {
	t.Parallel()

	for listen, want := range map[string]string{":8080": "http://127.0.0.1:8080", "0.0.0.0:1": "http://127.0.0.1:1", "10.0.0.1:1": "http://10.0.0.1:1"} {
		if got := (Control{Config: control.Config{Listen: listen}}).public(); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}

func TestDatabase(t *testing.T) {
	t.Parallel()

	expect(t, examineDatabase(t.Context(), "sqlite:/proc/posefleet.db"), Fail, "can't be written")

	f := examineDatabase(t.Context(), "postgres://user:canary@127.0.0.1:1/db")
	expect(t, f, Fail, "refused")

	if strings.Contains(f.String(), "canary") {
		t.Error(f)
	}

	s := pgtest.Start(t)
	url := s.Database()
	expect(t, examineDatabase(t.Context(), url), OK)
	s.Kill()
	expect(t, examineDatabase(t.Context(), url), Fail)
}

// The keys of S3 come by the environment of the process.
func TestStorage(t *testing.T) {
	s := s3test.Start(t)
	t.Setenv("AWS_ACCESS_KEY_ID", s.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s.SecretKey)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")

	url := func(bucket, endpoint string) string {
		return "s3://" + bucket + "/p?endpoint=" + endpoint + "&region=" + s.Region
	}
	expect(t, examineStorage(t.Context(), url(s.Bucket, s.URL)), OK)

	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary")

	f := examineStorage(t.Context(), url(s.Bucket, s.URL))
	expect(t, f, Fail, "bucket refuses")

	if strings.Contains(f.String(), "canary") {
		t.Error(f)
	}

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	expect(t, examineStorage(ctx, url(s.Bucket, "http://127.0.0.1:1")), Fail, "refused")
}
