// Package redistest gives a test a real redis-server of its own: up in about 40 ms, on a free loopback port, without persistence,
// gone with the test. A whole Cluster, a master with Sentinels, and a server that speaks TLS are there too.
package redistest

import (
	"context"
	"crypto/tls"
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
	startTimeout = time.Minute
	startTries   = 5
	stopGrace    = 30 * time.Second
)

// Server is a redis-server child of the test.
type Server struct {
	Addr string // host:port
	URL  string // redis://host:port
	Port int

	t         testing.TB
	program   string
	dir       string
	arguments func(*Server) []string // of the command line; asked at each launch
	tls       *tls.Config            // nil: plain connections
	proc      *child.Process
}

// Start runs redis-server with the extra arguments ("--maxmemory-policy", "noeviction", …) and waits until it answers. The server
// ends in the test's cleanup. Its data folder is t.TempDir, so that a Restart with "--appendonly yes" finds the data again.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()

	s := newServer(t, func(s *Server) []string { return append(s.plainPort(), args...) })
	s.start()

	return s
}

func newServer(t testing.TB, arguments func(*Server) []string) *Server {
	t.Helper()

	return &Server{t: t, program: need.Program(t, "redis-server"), dir: t.TempDir(), arguments: arguments}
}

// start launches the server on a free port.
func (s *Server) start() {
	s.t.Helper()
	s.t.Cleanup(s.Kill)

	for try := 1; ; try++ {
		s.usePort(s.freePort())

		err := s.launch()
		if err == nil {
			return
		}

		// Another process may have taken the port between our look and the server's bind.
		if try == startTries {
			s.t.Fatalf("redistest: %v", err)
		}
	}
}

func (s *Server) freePort() int {
	s.t.Helper()

	port, err := freeport.Find()
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}

	return port
}

// Client is a client of the server with retries off; it is closed in the test's cleanup.
func (s *Server) Client() *redis.Client {
	client := s.newClient()
	s.t.Cleanup(func() { _ = client.Close() }) // a second Close by the test is no fault

	return client
}

func (s *Server) newClient() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, TLSConfig: s.tls})
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

	if s.tls != nil {
		s.URL = "rediss://" + s.Addr
	}
}

func (s *Server) plainPort() []string {
	return append([]string{"--port", strconv.Itoa(s.Port)}, s.common()...)
}

// common are the arguments of every server that keeps data.
func (s *Server) common() []string {
	return []string{
		"--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", "",
		"--repl-diskless-sync-delay", "0",
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()

	if err := s.proc.Signal(sig); err != nil {
		s.t.Fatalf("redistest: signal %v: %v", sig, err)
	}
}

// launch starts one process and waits until it answers; it leaves none behind when it fails.
func (s *Server) launch() error {
	proc, err := child.Start(exec.Command(s.program, s.arguments(s)...))
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

	client := s.newClient()
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
