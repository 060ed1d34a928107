// Package redistest gives a test a real redis-server of its own: up in about 40 ms, on a free loopback port, without persistence,
// gone with the test.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/internal/need"
)

// bounds of the waits; a loaded machine needs a small part of them.
const (
	startTimeout = 20 * time.Second
	startTries   = 5
	stopGrace    = 5 * time.Second
)

// Server is a redis-server child of the test.
type Server struct {
	Addr string // host:port
	URL  string // redis://host:port
	Port int

	t       testing.TB
	program string
	dir     string
	args    []string
	proc    *child.Process
}

// Start runs redis-server with the extra arguments ("--maxmemory-policy", "noeviction", …) and waits until it answers. The server
// ends in the test's cleanup. Its data folder is t.TempDir, so that a Restart with "--appendonly yes" finds the data again.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()

	s := &Server{t: t, program: need.Program(t, "redis-server"), dir: t.TempDir(), args: args}
	t.Cleanup(s.Kill)

	for try := 1; ; try++ {
		port, err := freeport.Find()
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}

		s.usePort(port)

		err = s.launch()
		if err == nil {
			return s
		}

		// Another process may have taken the port between our look and the server's bind.
		if try == startTries {
			t.Fatalf("redistest: %v", err)
		}
	}
}

// Client is a client of the server with retries off; it is closed in the test's cleanup.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	s.t.Cleanup(func() { _ = client.Close() }) // a second Close by the test is no fault

	return client
}

// Pause stops the process without closing its connections, as a frozen machine or a lost network does. Resume ends it.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// Kill ends the server at once: all connections break and later dials are refused. Killing it twice is allowed.
func (s *Server) Kill() {
	if s.proc != nil {
		s.proc.Kill()
	}
}

// Shutdown ends the server by SIGTERM, so that an append-only file is complete on disk.
func (s *Server) Shutdown() {
	s.t.Helper()

	if err := s.proc.Stop(syscall.SIGTERM, stopGrace); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
}

// Restart starts the server again on the same port after Kill or Shutdown, or instead of a running one. Without persistence
// arguments it comes back empty.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()

	if err := s.launch(); err != nil {
		s.t.Fatalf("redistest: restart: %v", err)
	}
}

// Pid is the process id of the server.
func (s *Server) Pid() int { return s.proc.Pid() }

func (s *Server) usePort(port int) {
	s.Port = port
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.URL = "redis://" + s.Addr
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()

	if err := s.proc.Signal(sig); err != nil {
		s.t.Fatalf("redistest: signal %v: %v", sig, err)
	}
}

// launch starts one process and waits until it answers; it leaves none behind when it fails.
func (s *Server) launch() error {
	args := append([]string{
		"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--logfile", "",
	}, s.args...)

	proc, err := child.Start(exec.Command(s.program, args...))
	if err != nil {
		return err
	}

	if err := s.awaitReady(proc); err != nil {
		proc.Kill()

		return fmt.Errorf("%w\n%s", err, proc.Output())
	}

	s.proc = proc

	return nil
}

// awaitReady polls until this very process answers: a stranger on the same port would answer PING as well.
func (s *Server) awaitReady(proc *child.Process) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), startTimeout)
	defer cancel()

	client := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	defer client.Close()

	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()

	for {
		if s.answers(ctx, client, proc.Pid()) {
			return nil
		}

		select {
		case <-tick.C:
		case <-proc.Done():
			return fmt.Errorf("redis-server ended at start: %w", proc.Err())
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not answer: %w", context.Cause(ctx))
		}
	}
}

func (s *Server) answers(ctx context.Context, client *redis.Client, pid int) bool {
	info := client.InfoMap(ctx, "server")

	return info.Err() == nil && info.Item("Server", "process_id") == strconv.Itoa(pid)
}
