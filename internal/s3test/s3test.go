// Package s3test gives a test a real S3 server of its own (versitygw), which refuses wrong signatures, expired URLs, wrong lengths
// and stale conditions as AWS does. A fake that accepts everything would prove nothing about claim checks.
package s3test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/internal/need"
)

const (
	buildTimeout = 5 * time.Minute // the first build on a machine takes about a minute
	startTimeout = time.Minute
	startTries   = 5
	stopGrace    = 30 * time.Second
)

// DefaultBucket exists in every server from its start.
const DefaultBucket = "posefleet"

// Server is an S3 server child of the test. It speaks path-style addresses over plain HTTP on loopback.
type Server struct {
	URL       string // http://127.0.0.1:port
	Addr      string // host:port
	Region    string
	AccessKey string
	SecretKey string
	Bucket    string // DefaultBucket

	t       testing.TB
	program string
	data    string
	meta    string
	proc    *child.Process
}

// Start runs a server with an empty bucket and waits until it answers. It ends in the test's cleanup. The first call on a machine
// builds the server program.
func Start(t testing.TB) *Server {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()

	program, err := build(ctx, filepath.Join(need.ModuleRoot(t), "internal", "s3test", "server"))
	if err != nil {
		t.Fatalf("s3test: %v", err)
	}

	s := &Server{
		Region: "us-east-1", AccessKey: "test" + rand.Text()[:12], SecretKey: rand.Text(), Bucket: DefaultBucket,
		t: t, program: program, data: t.TempDir(), meta: t.TempDir(),
	}
	t.Cleanup(s.stop)
	s.MakeBucket(DefaultBucket)

	for try := 1; ; try++ {
		err := s.launch()
		if err == nil {
			return s
		}

		// Another process may have taken the port between our look and the server's bind.
		if try == startTries {
			t.Fatalf("s3test: %v", err)
		}
	}
}

// MakeBucket makes an empty bucket; one that exists is left as it is.
func (s *Server) MakeBucket(name string) {
	s.t.Helper()

	if err := os.MkdirAll(filepath.Join(s.data, name), 0o755); err != nil {
		s.t.Fatalf("s3test: make bucket: %v", err)
	}
}

// Env is the environment with which AWS clients find and are let into the server.
func (s *Server) Env() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=" + s.AccessKey,
		"AWS_SECRET_ACCESS_KEY=" + s.SecretKey,
		"AWS_REGION=" + s.Region,
		"AWS_ENDPOINT_URL_S3=" + s.URL,
	}
}

// Pause stops the process without closing its connections; Resume ends it.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// Kill ends the server at once, so that later dials are refused.
func (s *Server) Kill() {
	if s.proc != nil {
		s.proc.Kill()
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()

	if err := s.proc.Signal(sig); err != nil {
		s.t.Fatalf("s3test: signal %v: %v", sig, err)
	}
}

func (s *Server) stop() {
	if s.proc == nil {
		return
	}

	_ = s.proc.Signal(syscall.SIGCONT) // a paused process cannot end

	// A server that had to be killed has nothing left to lose: its folders go with the test.
	_ = s.proc.Stop(syscall.SIGTERM, stopGrace)
}

// launch starts the server on a free port; it leaves no process behind when it fails.
func (s *Server) launch() error {
	port, err := freeport.Find()
	if err != nil {
		return err
	}

	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.URL = "http://" + s.Addr

	cmd := exec.Command(s.program, "-addr", s.Addr, "-data", s.data, "-meta", s.meta)
	cmd.Env = append(os.Environ(), s.Env()...)

	proc, err := child.Start(cmd)
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

func (s *Server) awaitReady(proc *child.Process) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), startTimeout)
	defer cancel()

	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

	for {
		if healthy(ctx, client, s.URL+"/healthz") {
			return nil
		}

		select {
		case <-tick.C:
		case <-proc.Done():
			return fmt.Errorf("S3 server ended at start: %w", proc.Err())
		case <-ctx.Done():
			return fmt.Errorf("S3 server does not answer: %w", context.Cause(ctx))
		}
	}
}

func healthy(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}

	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()

	return resp.StatusCode == http.StatusOK
}
