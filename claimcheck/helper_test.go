package claimcheck_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	// canary stands for what must never be shown; each URL of these tests has it in its query.
	canary = "X-Amz-Signature=c0ffee5ecret"
	// host is a name that nothing resolves: these tests stay in memory.
	host = "peer.test"
)

// network is a server and the way to it, in memory, so that it lives inside a synctest bubble: real requests by
// real net/http on both sides, and a clock that jumps over every wait.
type network struct {
	t        *testing.T
	accept   chan net.Conn
	done     chan struct{}
	mu       sync.Mutex
	dials    int
	requests []seen
	server   *http.Server
}

// seen is one request as it arrived.
type seen struct {
	at     time.Time
	method string
	path   string
	header http.Header
	host   string
	body   []byte
	length int64
}

// serve starts handler; each request is recorded before the handler sees it.
func serve(t *testing.T, handler http.Handler) *network {
	t.Helper()
	n := &network{t: t, accept: make(chan net.Conn), done: make(chan struct{})}
	n.server = &http.Server{Handler: n.record(handler), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	ended := make(chan struct{})
	go func() { // ends with Close below
		defer close(ended)
		_ = n.server.Serve(n)
	}()
	t.Cleanup(func() {
		_ = n.server.Close()
		<-ended
	})
	return n
}

// steps answers the first request by the first handler and so on; the last one answers all that follow.
func steps(handlers ...http.HandlerFunc) http.Handler {
	var mu sync.Mutex
	next := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handlers[min(next, len(handlers)-1)]
		next++
		mu.Unlock()
		h(w, r)
	})
}

func (n *network) record(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, err := body.ReadFrom(r.Body)
		n.mu.Lock()
		n.requests = append(n.requests, seen{time.Now(), r.Method, r.URL.Path, r.Header.Clone(), r.Host, body.Bytes(), r.ContentLength})
		n.mu.Unlock()
		if err == nil {
			handler.ServeHTTP(w, r)
		}
	})
}

func (n *network) seen() []seen {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]seen(nil), n.requests...)
}

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	n.dials++
	n.mu.Unlock()
	ours, theirs := net.Pipe()
	select {
	case n.accept <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-n.done:
		return nil, errors.New("the server is gone")
	}
}

// Accept implements net.Listener.
func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.accept:
		return c, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (n *network) Close() error {
	select {
	case <-n.done:
	default:
		close(n.done)
	}
	return nil
}

// Addr implements net.Listener.
func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

// client returns a client of n whose log goes into a buffer that is searched for secrets at the end.
func (n *network) client(change func(*claimcheck.Config)) *claimcheck.Client {
	n.t.Helper()
	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		n.t.Fatal(err)
	}
	log := &safeBuffer{}
	config := claimcheck.Config{
		ControlURL: "http://" + host, Signer: webhook.NewSigner(secrets), WorkerID: "w1",
		StorageHosts: []string{host}, CallbackHosts: []string{host}, AllowInsecure: true,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&config)
	}
	client, err := claimcheck.NewWithDial(config, n.dial)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		client.Close()
		checkShown(n.t, log.String())
	})
	return client
}

// checkShown fails if text holds a secret or the query of a URL.
func checkShown(t *testing.T, text string) {
	t.Helper()
	for _, word := range []string{"c0ffee", "X-Amz", "whsec_", strings.TrimPrefix(secret, "whsec_"), "v1,"} {
		if strings.Contains(text, word) {
			t.Errorf("%q is shown: %s", word, text)
		}
	}
}

// checkError searches all of err's chain for secrets.
func checkError(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		checkShown(t, fmt.Sprintf("%v %+v %q", e, e, e.Error()))
	}
}

// wantFault fails unless err is a fault with this code and verdict.
func wantFault(t *testing.T, err error, code protocol.Code, retryable bool) {
	t.Helper()
	checkError(t, err)
	fault, ok := errors.AsType[*protocol.Fault](err)
	if !ok {
		t.Fatalf("no fault: %v", err)
	}
	if fault.Code != code || fault.Retryable != retryable {
		t.Fatalf("got %v (retryable %v), want %s (%v)", err, fault.Retryable, code, retryable)
	}
}

// status answers with a status, and optionally header lines and a body.
func status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

// cut ends the connection without an answer.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// silent accepts and never answers.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
