package ecs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/need"
)

// The policy that operators give the control plane allows each call that the driver makes, and no other.
func TestPolicy(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(need.ModuleRoot(t), "docs", "deploy", "fleet-policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct{ Action any }
	}
	if err := json.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, s := range policy.Statement {
		switch action := s.Action.(type) {
		case string:
			allowed = append(allowed, action)
		case []any:
			for _, one := range action {
				allowed = append(allowed, one.(string)) //nolint:forcetypeassert // a test's
			}
		}
	}

	a := newAPI(t)
	a.tasks = []*fakeTask{{id: "t1", health: "HEALTHY", started: time.Now()}}
	f := driver(t, a, secretKey, service)
	if _, err := f.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Spare(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Set(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, call := range a.calls {
		made = append(made, "ecs:"+call)
	}
	slices.Sort(made)
	slices.Sort(allowed)
	if d := cmp.Diff(slices.Compact(made), allowed); d != "" {
		t.Errorf("policy (-calls +allowed):\n%s", d)
	}
}
