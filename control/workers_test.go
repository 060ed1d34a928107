package control_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// load reads a configuration with a secret and these variables.
func load(env map[string]string) (control.Config, error) {
	all := map[string]string{"POSEFLEET_WORKER_SECRET": webhook.Generate()}
	for name, value := range env {
		all["POSEFLEET_"+name] = value
	}

	return control.LoadConfig(all)
}

func TestFleetFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"FLEET": "none", "FLEET_MAX": "0"}, "POSEFLEET_FLEET_MAX must be 1 to 1000"},
		{map[string]string{"FLEET_INTERVAL": "0s"}, "POSEFLEET_FLEET_INTERVAL must be 1s to 24h0m0s"},
		{
			map[string]string{"FLEET": "local", "DISPATCH": "http", "DOOR_URL": "http://w:8080/v1/jobs", "DOOR_SECRET": webhook.Generate()},
			"POSEFLEET_FLEET can't be local where all analyses go by HTTP (POSEFLEET_DISPATCH): the workers that it starts have no door at a fixed address",
		},
		{map[string]string{"FLEET": "local", "DISPATCH": "http:99%", "DOOR_URL": "http://w:8080/v1/jobs", "DOOR_SECRET": webhook.Generate()}, ""},
		{map[string]string{"FLEET": "local", "FLEET_MAX": "3", "FLEET_MIN": "3", "FLEET_INTERVAL": "1s"}, ""},
		{map[string]string{"FLEET": "ecs:prod/pose"}, ""},
		{map[string]string{"FLEET": "k8s"}, `POSEFLEET_FLEET must be none, local, or ecs:CLUSTER/SERVICE, not "k8s"`},
		{map[string]string{"FLEET": "local", "FLEET_MAX": "0"}, "POSEFLEET_FLEET_MAX must be 1 to 1000"},
		{map[string]string{"FLEET": "local", "FLEET_MIN": "2"}, "POSEFLEET_FLEET_MIN must be 0 to the most workers"},
		{map[string]string{"FLEET": "local", "FLEET_SLOTS": "0"}, "POSEFLEET_FLEET_SLOTS must be 1 to 256"},
		{map[string]string{"FLEET": "local", "FLEET_INTERVAL": "10ms"}, "POSEFLEET_FLEET_INTERVAL must be 1s to 24h0m0s"},
		{
			map[string]string{"FLEET": "local", "STORAGE_URL": "s3://bucket/clips"},
			"POSEFLEET_STORAGE_HOSTS is required for workers of this machine (POSEFLEET_FLEET) where storage is not a folder",
		},
		{map[string]string{"FLEET": "local", "STORAGE_URL": "s3://bucket/clips", "STORAGE_HOSTS": "bucket.s3.amazonaws.com"}, ""},
	} {
		got := ""
		if _, err := load(test.env); err != nil {
			got = err.Error()
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%v (-want +got):\n%s", test.env, d)
		}
	}
}

// A worker of this machine gets its own settings and what both read, and none of the control plane's secrets, which no log shows either.
func TestWorkersKnowNoSecretsOfControl(t *testing.T) {
	t.Parallel()
	secret := webhook.Generate()
	c, err := control.LoadConfig(map[string]string{
		"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "hidden", "OTEL_SERVICE_NAME": "pose", "EDITOR": "vi",
		"POSEFLEET_WORKER_SECRET": secret, "POSEFLEET_EXTRACTOR": "extract serve", "POSEFLEET_QUEUE": "clips",
		"POSEFLEET_API_TOKEN": "hidden-hidden-hidden", "POSEFLEET_NOTICE_SECRET": webhook.Generate(), "POSEFLEET_FLEET": "local",
		"POSEFLEET_DATABASE_URL": "sqlite:hidden.db", "POSEFLEET_LISTEN": ":1",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := control.Environment{
		"PATH": "/bin", "OTEL_SERVICE_NAME": "pose", "POSEFLEET_WORKER_SECRET": secret, "POSEFLEET_EXTRACTOR": "extract serve", "POSEFLEET_QUEUE": "clips",
	}
	if d := cmp.Diff(want, c.WorkerEnv); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, c); strings.Contains(text, secret) {
			t.Errorf("%s: %s", format, text)
		}
	}
}

// Without a fleet of its own a control plane knows of no workers, and is never asleep.
func TestNoFleet(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *control.Config) { c.StorageURL = "file:" + filepath.Join(t.TempDir(), "s") })
	s, err := b.FleetStatus(t.Context(), time.Time{}, 10)
	if err != nil || s.Managed() || s.Desired != 0 || s.Running != 0 || len(s.History) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
