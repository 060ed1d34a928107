package node_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/node"
)

// The lock file must pin the content of every package and no place to get it from: that is the machine's business.
func TestLockPinsContentNotPlaces(t *testing.T) {
	t.Parallel()

	raw, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}

	var lock struct {
		Packages map[string]struct{ Integrity, Resolved string }
	}
	if err := json.Unmarshal(raw, &lock); err != nil {
		t.Fatal(err)
	}

	for name, p := range lock.Packages {
		if name != "" && !strings.HasPrefix(p.Integrity, "sha512-") {
			t.Errorf("%s has integrity %q", name, p.Integrity)
		}

		if p.Resolved != "" {
			t.Errorf("%s names an address", name)
		}
	}
}

func TestPackagesAreWithinReach(t *testing.T) {
	t.Parallel()
	need.Node(t)

	cmd, err := node.Command(t.Context(), "-p", `[require('bullmq6/package.json').version, require('bullmq5/package.json').version,
		typeof require('standardwebhooks').Webhook, typeof require('playwright-core').chromium].join(' ')`)
	if err != nil {
		t.Fatal(err)
	}

	out, err := cmd.CombinedOutput()
	if got, want := strings.TrimSpace(string(out)), "6.7.0 5.81.5 function object"; err != nil || got != want {
		t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// An installation that fails leaves nothing that could be taken for one.
func TestFailedInstallLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)

	broken := errors.New("no network")

	if err := node.Install(func(string) error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}

	if _, err := node.Dir(); !errors.Is(err, node.ErrNotInstalled) {
		t.Fatalf("got %v", err)
	}

	left, err := filepath.Glob(filepath.Join(cache, "posefleet", "*"))
	if err != nil || len(left) > 0 {
		t.Fatalf("left %q, %v", left, err)
	}

	install := func(dir string) error { return os.Mkdir(filepath.Join(dir, "node_modules"), 0o755) }
	if err := node.Install(install); err != nil {
		t.Fatal(err)
	}

	if dir, err := node.Dir(); err != nil || dir != node.Target() {
		t.Fatalf("got %s, %v", dir, err)
	}
}
