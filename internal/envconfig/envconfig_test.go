package envconfig_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/envconfig"
	"github.com/posefleet/posefleet/protocol/webhook"
)

type config struct {
	Name    string           `env:"NAME" envDefault:"x" help:"a name"`
	Wait    time.Duration    `env:"WAIT" envDefault:"2s"`
	Level   slog.Level       `env:"LOG_LEVEL" envDefault:"info"`
	On      bool             `env:"ON"`
	Hosts   []string         `env:"HOSTS"`
	Secrets []webhook.Secret `env:"SECRET" secret:"true"`
	Ours    int              `env:"-"`
}

func TestParse(t *testing.T) {
	t.Parallel()
	var c config
	given := envconfig.Given(map[string]string{"POSEFLEET_WAIT": "5m", "POSEFLEET_HOSTS": "a, ,b:1,", "POSEFLEET_NAME": "", "POSEFLEET_ON": "true"})
	if faults := envconfig.Parse(&c, given); len(faults) > 0 {
		t.Fatal(faults)
	}
	if diff := cmp.Diff(config{Name: "x", Wait: 5 * time.Minute, On: true, Hosts: []string{"a", "b:1"}}, c); diff != "" {
		t.Error(diff)
	}
	var flags []string
	for _, v := range envconfig.Variables[config]() {
		flags = append(flags, v.Flag())
	}
	if diff := cmp.Diff([]string{"name", "wait", "log-level", "on", "hosts", "secret"}, flags); diff != "" {
		t.Error(diff)
	}
}

// One mistake is one fault, which says how it is written right and shows no secret.
func TestFaults(t *testing.T) {
	t.Parallel()
	secret := "whsec_c2hvcnQ="
	var c config
	unread := envconfig.Parse(&c, map[string]string{
		"POSEFLEET_WAIT": "5", "POSEFLEET_LOG_LEVEL": "loud", "POSEFLEET_ON": "perhaps", "POSEFLEET_SECRET": secret,
	})
	checked := errors.Join(envconfig.Fault("WAIT", "must be positive"), envconfig.Fault("NAME", "is required"))
	text := envconfig.Join(unread, checked).Error()
	for _, want := range []string{
		"POSEFLEET_WAIT must be a duration as 500ms or 2m", "POSEFLEET_LOG_LEVEL must be debug, info, warn or error",
		"POSEFLEET_ON must be true or false", "POSEFLEET_NAME is required", "POSEFLEET_SECRET is not valid",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not once in\n%s", want, text)
		}
	}
	if strings.Contains(text, "must be positive") || strings.Contains(text, secret) {
		t.Errorf("a fault twice, or the secret:\n%s", text)
	}
}
