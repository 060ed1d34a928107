package redistest_test

import (
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
)

func TestServerLives(t *testing.T) {
	t.Parallel()

	s := redistest.Start(t)
	c := s.Client()

	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}

	if got := c.Get(t.Context(), "k").Val(); got != "v" {
		t.Fatalf("got %q", got)
	}
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()

	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c := s.Client()

	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}

	s.Kill()

	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a killed server answers")
	}

	s.Restart()

	if got := c.Get(t.Context(), "k").Val(); got != "v" {
		t.Fatalf("after a restart with an append-only file: got %q", got)
	}
}

func TestPauseFreezes(t *testing.T) {
	t.Parallel()

	s := redistest.Start(t)
	c := s.Client().WithTimeout(100 * time.Millisecond)

	s.Pause()

	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a paused server answers")
	}

	s.Resume()
	wait.For(t, time.Minute, func() bool { return c.Ping(t.Context()).Err() == nil }, "server %s after Resume", s.Addr)
}
