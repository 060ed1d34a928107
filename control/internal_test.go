package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// pipes is a listener in memory, so that a server runs in a bubble of fake time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)

	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server

	return client, nil
}

// after waits in fake time; false if ctx ended.
func after(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// slowly writes n pieces with a pause before each.
func slowly(n int, pause time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range n {
			if !after(r.Context(), pause) {
				return
			}
			if _, err := io.WriteString(w, "piece "); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	})
}

// D10: a slow but steady transfer takes as long as it takes; one that stands still is cut off.
func TestPatient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.Handler
		whole   bool
	}{
		"steady for 10 minutes":         {patient(slowly(30, 20*time.Second)), true},
		"standing still":                {patient(slowly(2, idleLimit+time.Second)), false},
		"the same without the patience": {slowly(30, 20*time.Second), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				body, err := fetch(t, c.handler, nil)
				if whole := err == nil && strings.Count(body, "piece") == 30; whole != c.whole {
					t.Fatalf("%d pieces, %v", strings.Count(body, "piece"), err)
				}
			})
		})
	}
}

// An upload that trickles in is patience's other half.
func TestPatientUpload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pause time.Duration
		whole bool
	}{"steady": {20 * time.Second, true}, "standing still": {idleLimit + time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got := make(chan error, 1)
				in, out := io.Pipe()
				go func() { // ends with its last piece, or when nobody reads
					for range 20 {
						if !after(t.Context(), c.pause) {
							return
						}
						if _, err := io.WriteString(out, "piece "); err != nil {
							return
						}
					}
					_ = out.Close()
				}()
				_, _ = fetch(t, patient(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					got <- err
				})), in)
				_ = in.Close()
				if err := <-got; (err == nil) != c.whole {
					t.Fatal(err)
				}
			})
		})
	}
}

// fetch serves one request in memory, with the limits of the real server.
func fetch(t *testing.T, h http.Handler, body io.Reader) (string, error) {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 30 * time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	transport := &http.Transport{DialContext: l.dial}
	defer func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		synctest.Wait()
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://x/", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)

	return string(text), err
}

func TestHubForgets(t *testing.T) {
	t.Parallel()
	h := newHub()
	a, stopA := h.watch("an_1")
	b, stopB := h.watch("an_1")
	h.notify("an_1")
	h.notify("an_1") // a second hint before the first was read is the same hint
	h.notify("an_2")
	for _, c := range []<-chan struct{}{a, b} {
		<-c
		select {
		case <-c:
			t.Error("two tokens")
		default:
		}
	}
	stopA()
	h.notify("an_1")
	if len(a) != 0 || len(b) != 1 {
		t.Errorf("%d and %d tokens after the first stopped", len(a), len(b))
	}
	stopB()
	if len(h.watchers) != 0 {
		t.Errorf("left: %v", h.watchers)
	}
}

func TestKeeperBatches(t *testing.T) {
	t.Parallel()
	k := &keeper{log: slog.New(slog.DiscardHandler)}
	answers := []int{keepBatch, keepBatch, 3}
	n := k.batches(t.Context(), "test", func() (int, error) {
		next := answers[0]
		answers = answers[1:]

		return next, nil
	})
	if n != 2*keepBatch+3 || len(answers) != 0 {
		t.Errorf("%d, left %v", n, answers)
	}
	if n := k.batches(t.Context(), "test", func() (int, error) { return keepBatch, errors.New("no") }); n != keepBatch {
		t.Errorf("after a fault it goes on: %d", n)
	}
}

func TestAsProblem(t *testing.T) {
	t.Parallel()
	wrapped := func(err error) error { return fmt.Errorf("somewhere: %w", err) }
	for _, c := range []struct {
		err    error
		status int
		code   protocol.Code
	}{
		{refuse(418, protocol.CodeConflict, "x"), 418, protocol.CodeConflict},
		{wrapped(store.ErrUnknown), 404, protocol.CodeUnknownAnalysis},
		{wrapped(store.ErrBadCursor), 400, protocol.CodeInvalidRequest},
		{wrapped(protocol.NewFault(protocol.CodeUnauthorized, "x")), 401, protocol.CodeUnauthorized},
		{wrapped(protocol.NewFault(protocol.CodeInvalidID, "x")), 400, protocol.CodeInvalidID},
		{wrapped(&http.MaxBytesError{}), 413, protocol.CodeRequestTooLarge},
		{wrapped(context.Canceled), 503, protocol.CodeInternal},
		{errors.New("disk on fire at /secret/path"), 503, protocol.CodeInternal},
	} {
		w := httptest.NewRecorder()
		p := asProblem(c.err)
		p.write(w)
		if p.status != c.status || p.code != c.code || w.Code != c.status || w.Header().Get("Content-Type") != protocol.ProblemContentType {
			t.Errorf("%v: %d %s", c.err, p.status, p.code)
		}
		if strings.Contains(w.Body.String(), "secret") {
			t.Errorf("the cause is shown: %s", w.Body)
		}
	}
}

func TestTakesGzip(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"": false, "gzip": true, "br, gzip": true, "GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.000": false, "*": true, "identity": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", header)
		if got := takesGzip(r); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}

// A handler that panics is a 500 for its caller and a line in the log, and the server lives.
func TestPanic(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
	w := httptest.NewRecorder()
	s.logged(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") })).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/x?X-Pf-Signature=secret", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(log.String(), "oh") || strings.Contains(log.String(), "secret") {
		t.Fatalf("%d %s", w.Code, log.String())
	}
}
