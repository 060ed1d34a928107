// Package pgtest gives a test a real PostgreSQL server of its own, with one empty database per call of Database.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/internal/need"
)

const (
	initTimeout  = time.Minute
	startTimeout = time.Minute
	startTries   = 5
	stopGrace    = 30 * time.Second
)

// superuser is the only role; connections over loopback need no password.
const superuser = "postgres"

// Server is a PostgreSQL child of the test.
type Server struct {
	Addr string // host:port
	Port int

	t         testing.TB
	bin       string // folder of the programs
	dir       string // data folder and socket folder are below it
	account   *syscall.Credential
	proc      *child.Process
	databases atomic.Int64
}

// Start makes an empty cluster in a temporary folder, runs a server on it and waits until it answers. It ends in the test's
// cleanup. PostgreSQL refuses to run as root: then it runs as the user postgres, or nobody.
func Start(t testing.TB) *Server {
	t.Helper()

	s := &Server{t: t, bin: filepath.Dir(findProgram(t, "postgres"))}

	var err error
	if s.account, err = account(); err != nil {
		t.Fatalf("pgtest: %v", err)
	}

	s.makeDir()
	t.Cleanup(s.stop)

	if err := s.init(); err != nil {
		t.Fatalf("pgtest: %v", err)
	}

	for try := 1; ; try++ {
		err := s.launch()
		if err == nil {
			return s
		}

		// Another process may have taken the port between our look and the server's bind.
		if try == startTries {
			t.Fatalf("pgtest: %v", err)
		}
	}
}

// Database makes an empty database and gives its URL.
func (s *Server) Database() string {
	s.t.Helper()

	name := fmt.Sprintf("test%d", s.databases.Add(1))

	ctx, cancel := context.WithTimeout(s.t.Context(), startTimeout)
	defer cancel()

	if out, err := s.command(ctx, "createdb", "-h", "127.0.0.1", "-p", strconv.Itoa(s.Port), "-U", superuser, name).CombinedOutput(); err != nil {
		s.t.Fatalf("pgtest: create database: %v\n%s", err, out)
	}

	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", superuser, s.Addr, name)
}

// Kill ends the server at once and leaves its clients with broken connections.
func (s *Server) Kill() {
	if s.proc != nil {
		s.proc.Kill()
	}
}

// Restart starts the server again on the same port and data, after Kill or instead of the running one.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()

	for try := 1; ; try++ {
		err := s.launchOn(s.Port)
		if err == nil {
			return
		}

		// Backends of a killed server hold its shared memory until they notice.
		if try == startTries {
			s.t.Fatalf("pgtest: restart: %v", err)
		}
	}
}

// makeDir makes the folder outside t.TempDir, because the server's user must be able to enter it and to own it.
func (s *Server) makeDir() {
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		s.t.Fatalf("pgtest: %v", err)
	}

	s.dir = dir

	if s.account != nil {
		if err := os.Chown(dir, int(s.account.Uid), int(s.account.Gid)); err != nil {
			s.t.Fatalf("pgtest: %v", err)
		}
	}
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }

func (s *Server) init() error {
	ctx, cancel := context.WithTimeout(s.t.Context(), initTimeout)
	defer cancel()

	out, err := s.command(ctx, "initdb", "-D", s.dataDir(), "-U", superuser, "--auth", "trust", "--encoding", "UTF8", "--locale", "C",
		"--no-sync", "--no-instructions").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}

	return nil
}

func (s *Server) launch() error {
	port, err := freeport.Find()
	if err != nil {
		return err
	}

	return s.launchOn(port)
}

// launchOn starts the server on the port; it leaves no process behind when it fails. fsync is off: the cluster does not outlive the
// test, and a killed process (not a lost machine) loses nothing by it.
func (s *Server) launchOn(port int) error {
	s.Port = port
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))

	proc, err := child.Start(s.command(context.Background(), "postgres", "-D", s.dataDir(), "-p", strconv.Itoa(port), "-h", "127.0.0.1",
		"-k", s.dir, "-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "dynamic_shared_memory_type=mmap"))
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

// awaitReady asks over the socket in our own folder, so that a stranger on the same port cannot answer for us.
func (s *Server) awaitReady(proc *child.Process) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), startTimeout)
	defer cancel()

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for {
		if s.command(ctx, "pg_isready", "-q", "-h", s.dir, "-p", strconv.Itoa(s.Port)).Run() == nil {
			return nil
		}

		select {
		case <-tick.C:
		case <-proc.Done():
			return fmt.Errorf("postgres ended at start: %w", proc.Err())
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w", context.Cause(ctx))
		}
	}
}

func (s *Server) stop() {
	if s.proc != nil {
		// SIGQUIT is PostgreSQL's immediate shutdown: children end too. What had to be killed has nothing left to lose.
		_ = s.proc.Stop(syscall.SIGQUIT, stopGrace)
	}

	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Errorf("pgtest: %v", err)
	}
}

// command runs a program of PostgreSQL's as the server's user in its own folder, which that user can enter.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "LC_ALL=C", "TZ=UTC"}

	if s.account != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	}

	return cmd
}

// findProgram looks where Debian keeps the server programs, which are not on the PATH, newest version first; then on the PATH.
func findProgram(t testing.TB, name string) string {
	t.Helper()

	// The pattern is constant and valid.
	found, _ := filepath.Glob(filepath.Join("/usr/lib/postgresql/*/bin", name))
	if len(found) == 0 {
		return need.Program(t, name)
	}

	return slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
}

// version is the 15 of /usr/lib/postgresql/15/bin/postgres; 0 if there is none.
func version(path string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}

	return n
}

// account is the user to run as; nil means the user of this process.
func account() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}

	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}

		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)

		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(uidErr, gidErr)
	}

	return nil, errors.New("neither of the users postgres and nobody exists")
}
