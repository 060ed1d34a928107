package redistest_test

import (
	"testing"

	"github.com/posefleet/posefleet/internal/redistest"
)

func TestClusterMovesASlot(t *testing.T) {
	t.Parallel()

	c := redistest.StartCluster(t)
	from := c.Owner("k")

	if err := from.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}

	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}

	steps := 0
	c.Move(c.Slot("k"), from, to, func() { steps++ })

	if got := to.Client().Get(t.Context(), "k").Val(); got != "v" || steps != 1 {
		t.Errorf("the new owner has %q after %d steps", got, steps)
	}
}

func TestSentinelsReplaceAMaster(t *testing.T) {
	t.Parallel()

	r := redistest.StartReplicated(t, 1)
	first := r.Master()

	if err := first.Client().Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}

	r.Failover()

	second := r.Master()
	if got := second.Client().Get(t.Context(), "k").Val(); second == first || got != "v" {
		t.Errorf("after the failover: %s, k is %q", second.Addr, got)
	}

	// The old master has become a replica; it takes over again when the new one dies.
	second.Kill()
	r.AwaitMasterAfter(second)

	if r.Master() != first {
		t.Errorf("the master is %s", r.Master().Addr)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()

	s := redistest.NewAuthority(t).Start()

	if err := s.Client().Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}

	stranger := redistest.NewAuthority(t).Start("--tls-auth-clients", "no")
	if err := stranger.Client().Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}
