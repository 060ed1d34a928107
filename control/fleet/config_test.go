package fleet

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control/store"
)

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Target{
		"": {Kind: None}, "none": {Kind: None}, "local": {Kind: Local},
		"ecs:prod/pose-worker": {Kind: ECS, Cluster: "prod", Service: "pose-worker"},
	} {
		if got, err := ParseTarget(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"k8s", "ecs", "ecs:", "ecs:a", "ecs:a/", "ecs:/b", "ecs:a/b/c", "ecs:a/b c", "Local", "local:2"} {
		if got, err := ParseTarget(text); !errors.Is(err, errTarget) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	good := Config{Max: 3, Slots: 1, Interval: time.Minute}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   error
	}{
		{"no workers at all", func(c *Config) { c.Max = 0 }, ErrMax},
		{"too many", func(c *Config) { c.Max = MaxWorkers + 1 }, ErrMax},
		{"least below nothing", func(c *Config) { c.Min = -1 }, ErrMin},
		{"least above most", func(c *Config) { c.Min = 4 }, ErrMin},
		{"no slots", func(c *Config) { c.Slots = 0 }, ErrSlots},
		{"too short", func(c *Config) { c.Interval = time.Millisecond }, ErrInterval},
		{"too long", func(c *Config) { c.Interval = 48 * time.Hour }, ErrInterval},
	} {
		c := good
		if test.change(&c); !errors.Is(c.Validate(), test.want) {
			t.Errorf("%s: %v", test.name, c.Validate())
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	c := Config{Max: 4, Slots: 2, Interval: 5 * time.Minute}
	busy := func(n int) []string { return make([]string, n) }
	for _, test := range []struct {
		name    string
		desired int
		idle    time.Duration
		demand  store.FleetDemand
		want    plan
	}{
		{"nothing to do", 0, time.Hour, store.FleetDemand{}, plan{}},
		{"from zero at once", 0, time.Hour, store.FleetDemand{Waiting: 1}, plan{1, "1 waiting, 0 being worked on", true}},
		{"two slots a worker", 1, 0, store.FleetDemand{Waiting: 2, Working: 1, Busy: busy(1)}, plan{2, "2 waiting, 1 being worked on", true}},
		{"not above the most", 1, 0, store.FleetDemand{Waiting: 99}, plan{4, "99 waiting, 0 being worked on", true}},
		{"busy ones stay above the most", 6, time.Hour, store.FleetDemand{Working: 5, Busy: busy(5)}, plan{5, "less work for 5m0s", false}},
		{"leases of the dead start nobody above the most", 4, 0, store.FleetDemand{Waiting: 20, Working: 7, Busy: busy(7)}, plan{4, "", true}},
		{"one slot of each is busy", 3, time.Hour, store.FleetDemand{Working: 3, Busy: busy(3)}, plan{3, "", true}},
		{"not yet fewer", 3, 5*time.Minute - 1, store.FleetDemand{}, plan{3, "", false}},
		{"fewer", 3, 5 * time.Minute, store.FleetDemand{Waiting: 1}, plan{1, "less work for 5m0s", false}},
		{"to zero", 3, 5 * time.Minute, store.FleetDemand{}, plan{0, "no work for 5m0s", false}},
		{"woken", 0, time.Hour, store.FleetDemand{WakeUntil: now.Add(1)}, plan{1, "woken", true}},
		{"the wish is over", 1, time.Hour, store.FleetDemand{WakeUntil: now}, plan{0, "no work for 5m0s", false}},
	} {
		test.demand.At = now
		got := c.plan(test.desired, now.Add(-test.idle), test.demand)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(plan{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	c.Min = 2
	if got := c.plan(0, now, store.FleetDemand{At: now}); got.desired != 2 || got.reason != "the least number of workers" {
		t.Errorf("least: %+v", got)
	}
}
