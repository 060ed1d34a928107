package worker_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/worker"
)

// least is an environment with the required variables only.
func least(t testing.TB) map[string]string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"POSEFLEET_CONTROL_URL": "https://control.example:8443/base", "POSEFLEET_WORKER_SECRET": webhook.Generate() + "," + webhook.Generate(),
		"POSEFLEET_DOOR_SECRET": webhook.Generate() + "\n", "POSEFLEET_STORAGE_HOSTS": "a.example, *.s3.example,b.example:9000",
		"POSEFLEET_EXTRACTOR": exe + ` serve "two words"`,
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	env := least(t)
	got, err := worker.LoadConfig(env)
	if err != nil {
		t.Fatal(err)
	}
	type shown struct {
		Redis, Prefix, Queue, Listen, Admin, Format, Dir string
		Slots, Stalled                                   int
		Doors                                            [2]bool
		Times                                            [5]time.Duration
		Input                                            worker.Size
		Storage, Callback                                []string
		Secrets                                          [2]int
		Protection                                       worker.Protection
	}
	want := shown{
		Redis: "redis://127.0.0.1:6379/0", Prefix: "bull", Queue: "pose", Listen: ":8080", Admin: ":9090", Format: "json", Dir: os.TempDir(),
		Slots: max(1, runtime.GOMAXPROCS(0)/2), Stalled: 1, Doors: [2]bool{true, true},
		Times: [5]time.Duration{30 * time.Second, 15 * time.Second, 30 * time.Second, 30 * time.Minute, 85 * time.Second},
		Input: 2 << 30, Storage: []string{"a.example", "*.s3.example", "b.example:9000"}, Callback: []string{"control.example:8443"},
		Secrets: [2]int{2, 1}, Protection: worker.ProtectionAuto,
	}
	if diff := cmp.Diff(want, shown{
		got.RedisURL, got.Prefix, got.Queue, got.Listen, got.AdminListen, got.LogFormat, got.WorkDir, got.Slots, got.MaxStalledCount,
		[2]bool{got.QueueEnabled, got.HTTPEnabled},
		[5]time.Duration{got.LockDuration, got.LockRenewTime, got.StalledInterval, got.JobTimeout, got.DrainTimeout},
		got.MaxInput, got.StorageHosts, got.CallbackHosts,
		[2]int{len(got.WorkerSecrets), len(got.DoorSecrets)},
		got.TaskProtection,
	}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"serve", "two words"}, got.ExtractorCommand[1:]); diff != "" {
		t.Error(diff)
	}
	text := fmt.Sprintf("%+v %#v", got, got)
	for _, name := range []string{"POSEFLEET_WORKER_SECRET", "POSEFLEET_DOOR_SECRET"} {
		for s := range strings.SplitSeq(strings.TrimSpace(env[name]), ",") {
			if strings.Contains(text, strings.TrimPrefix(s, "whsec_")) {
				t.Errorf("%s shows when the configuration is printed", name)
			}
		}
	}
}

func TestConfigDerivedDefaults(t *testing.T) {
	t.Parallel()
	env := least(t)
	env["POSEFLEET_LOCK_DURATION"], env["POSEFLEET_JOB_TIMEOUT"], env["POSEFLEET_SLOTS"] = "8s", "20s", ""
	got, err := worker.LoadConfig(env)
	if err != nil {
		t.Fatal(err)
	}
	if got.LockRenewTime != 4*time.Second || got.DrainTimeout != 20*time.Second || got.Slots < 1 {
		t.Errorf("renew %s, drain %s, slots %d", got.LockRenewTime, got.DrainTimeout, got.Slots)
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	secret := webhook.Generate()
	tests := []struct{ name, variable, value string }{
		{"redis", "REDIS_URL", "http://x"},
		{"prefix of a cluster", "PREFIX", "bull"},
		{"queue", "QUEUE", "a:b"},
		{"slots zero", "SLOTS", "0"},
		{"slots text", "SLOTS", "many"},
		{"bool", "HTTP_ENABLED", "perhaps"},
		{"listen", "LISTEN", "8080"},
		{"admin", "ADMIN_LISTEN", ":8080"},
		{"control missing", "CONTROL_URL", ""},
		{"control relative", "CONTROL_URL", "control"},
		{"control query", "CONTROL_URL", "https://control/?a=1"},
		{"worker secret missing", "WORKER_SECRET", ""},
		{"worker secret short", "WORKER_SECRET", "whsec_c2hvcnQ="},
		{"worker secret no base64", "WORKER_SECRET", "whsec_" + strings.Repeat("!", 40)},
		{"worker secret unpadded", "WORKER_SECRET", strings.TrimRight(secret, "=")},
		{"door secret missing", "DOOR_SECRET", ""},
		{"door secret plain", "DOOR_SECRET", "password"},
		{"lock", "LOCK_DURATION", "1ms"},
		{"lock unit", "LOCK_DURATION", "30"},
		{"renewal as long as the lock", "LOCK_RENEW_TIME", "30s"},
		{"renewal zero", "LOCK_RENEW_TIME", "0s"},
		{"stalled interval", "STALLED_INTERVAL", "0s"},
		{"stalled count", "MAX_STALLED_COUNT", "-1"},
		{"job timeout", "JOB_TIMEOUT", "-1s"},
		{"drain longer than a job", "DRAIN_TIMEOUT", "31m"},
		{"extractor", "EXTRACTOR", "/nonexistent/extractor serve"},
		{"extractor quotes", "EXTRACTOR", `"unclosed`},
		{"storage hosts missing", "STORAGE_HOSTS", " , "},
		{"storage host as URL", "STORAGE_HOSTS", "https://a.example/"},
		{"callback host", "CALLBACK_HOSTS", "*"},
		{"size", "MAX_INPUT_BYTES", "2 gigs"},
		{"size zero", "MAX_INPUT_BYTES", "0"},
		{"log format", "LOG_FORMAT", "xml"},
		{"log level", "LOG_LEVEL", "loud"},
		{"protection", "TASK_PROTECTION", "yes"},
		{"protection required where there is no agent", "TASK_PROTECTION", "required"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := least(t)
			env["POSEFLEET_"+tt.variable] = tt.value
			if tt.name == "prefix of a cluster" {
				env["POSEFLEET_REDIS_URL"] = "redis://a:1,b:2"
			}
			_, err := worker.LoadConfig(env)
			if err == nil {
				t.Fatal("accepted")
			}
			if lines := strings.Split(err.Error(), "\n"); len(lines) != 1 || !strings.HasPrefix(lines[0], "POSEFLEET_"+tt.variable+" ") {
				t.Errorf("%q does not name the variable, once", err)
			}
			if strings.Contains(tt.variable, "SECRET") && tt.value != "" && strings.Contains(err.Error(), tt.value) {
				t.Errorf("%q shows the secret", err)
			}
		})
	}
}

func TestConfigJoinsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := worker.LoadConfig(map[string]string{"POSEFLEET_SLOTS": "0", "POSEFLEET_EXTRACTOR": "/nonexistent"})
	for _, name := range []string{"SLOTS", "EXTRACTOR", "CONTROL_URL", "WORKER_SECRET", "DOOR_SECRET", "STORAGE_HOSTS"} {
		if err == nil || strings.Count(err.Error(), "POSEFLEET_"+name+" ") != 1 {
			t.Errorf("%s is not named once in %v", name, err)
		}
	}
	env := least(t)
	env["POSEFLEET_HTTP_ENABLED"], env["POSEFLEET_QUEUE_ENABLED"] = "false", "false"
	if _, err := worker.LoadConfig(env); err == nil {
		t.Error("a worker without a door was accepted")
	}
	env["POSEFLEET_QUEUE_ENABLED"] = "true"
	delete(env, "POSEFLEET_DOOR_SECRET")
	if _, err := worker.LoadConfig(env); err != nil {
		t.Errorf("a shut HTTP door needs no secret: %v", err)
	}
}

func TestWorkDirIsMadeOrAFaultOfTheConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for work, ok := range map[string]bool{filepath.Join(dir, "new", "er"): true, file: false, filepath.Join(file, "below"): false, "/proc/self": false} {
		env := least(t)
		env["POSEFLEET_WORK_DIR"] = work
		cfg, err := worker.LoadConfig(env)
		if err != nil {
			t.Fatal(err)
		}
		_, err = worker.New(cfg, nil)
		c, isConfig := errors.AsType[*worker.ConfigError](err)
		switch {
		case ok && err != nil, !ok && !isConfig:
			t.Errorf("%s: %v", work, err)
		case !ok && c.Variable != "POSEFLEET_WORK_DIR":
			t.Errorf("%s: the fault is of %s", work, c.Variable)
		}
	}
}

func TestExtractorLearnsNoSecret(t *testing.T) {
	t.Parallel()
	env := least(t)
	maps.Copy(env, map[string]string{
		"PATH": "/bin", "POSEFLEET_ASSETS": "/assets", "POSEFLEET_MODELS": "/models", "POSEFLEET_MAX_SIDE": "4096", "AWS_SECRET_ACCESS_KEY": "x",
		"ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2/v4", "POSEFLEET_REDIS_URL": "redis://:password@127.0.0.1:6379",
	})
	got, err := worker.LoadConfig(env)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"PATH=/bin", "POSEFLEET_ASSETS=/assets", "POSEFLEET_MODELS=/models", "POSEFLEET_MAX_SIDE=4096"}, got.ExtractorEnv); diff != "" {
		t.Error(diff)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	tests := map[string]worker.Size{
		"0": 0, "1": 1, "1024": 1024, "1B": 1, "2GiB": 2 << 30, "1.5MiB": 3 << 19, "10 KiB": 10 << 10, "1TiB": 1 << 40, "1MB": 1e6, "3KB": 3000,
	}
	for text, want := range tests {
		var s worker.Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q: %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "-1", "1PB", "NaN", "1e30", "2gib", "Inf"} {
		var s worker.Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: accepted as %d", text, s)
		}
	}
}

func TestVariablesMatchTheContract(t *testing.T) {
	t.Parallel()
	want := strings.Fields(`REDIS_URL PREFIX QUEUE SLOTS QUEUE_ENABLED HTTP_ENABLED LISTEN ADMIN_LISTEN CONTROL_URL WORKER_SECRET DOOR_SECRET
		LOCK_DURATION LOCK_RENEW_TIME STALLED_INTERVAL MAX_STALLED_COUNT JOB_TIMEOUT DRAIN_TIMEOUT EXTRACTOR STORAGE_HOSTS CALLBACK_HOSTS
		ALLOW_INSECURE MAX_INPUT_BYTES WORK_DIR LOG_FORMAT LOG_LEVEL TASK_PROTECTION`)
	var got []string
	for _, v := range worker.Variables() {
		got = append(got, strings.TrimPrefix(v.Name, worker.EnvPrefix))
		if v.Help == "" || v.Flag() != strings.ReplaceAll(strings.ToLower(got[len(got)-1]), "_", "-") {
			t.Errorf("%s: flag %s, help %q", v.Name, v.Flag(), v.Help)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	env := least(t)
	good, err := worker.LoadConfig(env)
	if err != nil || len(good.Warnings()) != 0 {
		t.Fatalf("%v, warnings %v", err, good.Warnings())
	}
	maps.Copy(env, map[string]string{
		"POSEFLEET_DOOR_SECRET": env["POSEFLEET_WORKER_SECRET"], "POSEFLEET_CONTROL_URL": "http://control",
		"POSEFLEET_DRAIN_TIMEOUT": "3m", "ECS_CONTAINER_METADATA_URI_V4": "http://169.254.170.2/v4/x",
	})
	odd, err := worker.LoadConfig(env)
	if err != nil || len(odd.Warnings()) != 3 {
		t.Fatalf("%v, warnings %v", err, odd.Warnings())
	}
}
