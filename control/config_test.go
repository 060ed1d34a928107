package control_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/protocol/webhook"
)

func TestLoadConfigDefaults(t *testing.T) {
	t.Parallel()
	c, err := control.LoadConfig(map[string]string{"POSEFLEET_WORKER_SECRET": webhook.Generate(), "POSEFLEET_QUEUE": "", "HOME": "/root"})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.RedisURL, c.Prefix, c.Queue, c.Listen, c.PublicURL, c.DatabaseURL, c.StorageURL, c.LogFormat, c.LogLevel.String()}
	want := []string{"redis://127.0.0.1:6379/0", "bull", "pose", ":8080", "", "sqlite:posefleet.db", "file:./storage", "json", "INFO"}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

// Each wrong value is named, all at once, and no secret is shown.
func TestLoadConfigFaults(t *testing.T) {
	t.Parallel()
	_, err := control.LoadConfig(map[string]string{
		"POSEFLEET_REDIS_URL": "http://127.0.0.1", "POSEFLEET_QUEUE": "a:b", "POSEFLEET_LISTEN": "nowhere", "POSEFLEET_PUBLIC_URL": "ftp://x",
		"POSEFLEET_DATABASE_URL": "mysql://u:hidden@h/db", "POSEFLEET_STORAGE_URL": "gs://x", "POSEFLEET_WORKER_SECRET": "whsec_hidden",
		"POSEFLEET_API_TOKEN": "hidden", "POSEFLEET_LOG_FORMAT": "xml", "POSEFLEET_LOG_LEVEL": "loud",
	})
	var named []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		name, _, _ := strings.Cut(line, " ")
		named = append(named, name)
	}
	want := []string{"API_TOKEN", "DATABASE_URL", "LISTEN", "LOG_FORMAT", "LOG_LEVEL", "PUBLIC_URL", "QUEUE", "REDIS_URL", "STORAGE_URL", "WORKER_SECRET"}
	slices.Sort(named)
	for i := range want {
		want[i] = "POSEFLEET_" + want[i]
	}
	if d := cmp.Diff(want, named); d != "" {
		t.Errorf("%s\n%v", d, err)
	}
	if strings.Contains(err.Error(), "hidden") {
		t.Errorf("a secret is shown: %v", err)
	}
	if _, ok := errors.AsType[*control.ConfigError](err); !ok {
		t.Errorf("%T", err)
	}
	_, err = control.LoadConfig(nil)
	if err == nil || err.Error() != "POSEFLEET_WORKER_SECRET is required" {
		t.Errorf("an empty environment: %v", err)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	var flags []string
	for _, v := range control.Variables() {
		if v.Help == "" {
			t.Errorf("%s has no help", v.Name)
		}
		flags = append(flags, v.Flag())
	}
	want := []string{
		"redis-url", "prefix", "queue", "listen", "public-url", "database-url", "storage-url", "worker-secret", "notice-url", "notice-secret", "api-token", "read-token", "dispatch", "door-url", "door-secret", "run-timeout", "fleet", "fleet-min", "fleet-max", "fleet-interval", "fleet-slots",
		"log-format", "log-level",
	}
	if d := cmp.Diff(want, flags); d != "" {
		t.Fatal(d)
	}
}

func TestTokenIsNotPrinted(t *testing.T) {
	t.Parallel()
	c := control.Config{APIToken: token}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, c); strings.Contains(text, token) {
			t.Errorf("%s: %s", format, text)
		}
	}
}

// What can't be opened is an error of New, which leaves nothing behind: the address can be had again.
func TestNewFails(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.stop()
	for name, change := range map[string]func(*control.Config){
		"database": func(c *control.Config) {
			c.DatabaseURL = "sqlite:" + filepath.Join(t.TempDir(), "no", "such", "folder.db")
		},
		"storage": func(c *control.Config) { c.StorageURL = "file:/proc/self/nowhere" },
		"config":  func(c *control.Config) { c.WorkerSecrets = nil },
	} {
		cfg := b.cfg
		change(&cfg)
		s, err := control.New(t.Context(), cfg, nil)
		if err == nil {
			t.Errorf("%s: %v", name, s.Close())
		} else if want := map[string]string{"database": "POSEFLEET_DATABASE_URL", "storage": "POSEFLEET_STORAGE_URL"}[name]; !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not name %s", name, err, want)
		}
	}
	s, err := control.New(t.Context(), b.cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := b.cfg
	taken.Listen, taken.DatabaseURL = s.Addr(), "sqlite:"+filepath.Join(t.TempDir(), "other.db")
	if _, err := control.New(t.Context(), taken, nil); err == nil || !strings.Contains(err.Error(), "POSEFLEET_LISTEN") {
		t.Errorf("two on one address: %v", err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := control.New(soon, b.cfg, nil); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Errorf("two on one file: %v", err)
	}
	type started struct {
		*control.Server
		err error
	}
	next := make(chan started, 1)
	go func() { // ends with the other's end
		s, err := control.New(t.Context(), b.cfg, nil)
		next <- started{s, err}
	}()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Errorf("close without run: %v", err)
	}
	after := <-next
	if after.err != nil {
		t.Fatalf("at the end of the other: %v", after.err)
	}
	if err := after.Close(); err != nil {
		t.Error(err)
	}
}

// A context that has ended before Run ends it at once.
func TestRunEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.stop()
	s, err := control.New(t.Context(), b.cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
}
