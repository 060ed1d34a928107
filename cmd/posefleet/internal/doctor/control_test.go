package doctor

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// controlPlane runs a real control plane that knows the secrets and returns its base URL.
func controlPlane(t *testing.T, secrets []webhook.Secret) string {
	t.Helper()

	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())

	s, err := control.New(ctx, control.Config{
		RedisURL: "redis://127.0.0.1:1", Prefix: "bull", Queue: "pose", Listen: "127.0.0.1:0",
		DatabaseURL: "sqlite:" + filepath.Join(dir, "test.db"), StorageURL: "file:" + filepath.Join(dir, "storage"), WorkerSecrets: secrets,
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }() // ends with the test

	t.Cleanup(func() {
		cancel()

		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	return "http://" + s.Addr()
}

func TestControlPlane(t *testing.T) {
	t.Parallel()

	known, other := secret(t), secret(t)
	base := controlPlane(t, known)

	found := examineControl(t.Context(), base, "THE_URL", known)
	expect(t, one(t, found, "control plane"), OK, base)
	expect(t, one(t, found, "control clock"), OK)
	expect(t, one(t, found, "signature"), OK, known[0].Fingerprint())

	found = examineControl(t.Context(), base, "THE_URL", other)
	expect(t, one(t, found, "control plane"), OK)
	expect(t, one(t, found, "signature"), Fail, other[0].Fingerprint(), "POSEFLEET_WORKER_SECRET")

	// In the middle of a rotation: each secret is tried alone.
	found = examineControl(t.Context(), base, "THE_URL", append(other, known...))
	expect(t, one(t, found, "signature"), Warn, "accepts "+known[0].Fingerprint(), "not "+other[0].Fingerprint())

	found = examineControl(t.Context(), base+"/somewhere/else?token=canary", "THE_URL", known)
	if len(found) != 1 || strings.Contains(found[0].String(), "canary") {
		t.Error(found)
	}

	expect(t, found[0], Fail, "no control plane", "/somewhere/else")

	found = examineControl(t.Context(), "http://127.0.0.1:1", "THE_URL", known)
	if len(found) != 1 {
		t.Error(found)
	}

	expect(t, found[0], Fail, "refused")
}

// skewed is a control plane whose clock is off: it verifies as the real one does and says its time.
func skewed(t *testing.T, secrets []webhook.Secret, off time.Duration) string {
	t.Helper()

	v := webhook.NewVerifier(secrets)
	v.Now = func() time.Time { return time.Now().Add(off) }

	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", v.Now().UTC().Format(http.TimeFormat))

		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = v.Verify(r.Header, body)
		}

		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)

			return
		}

		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(protocol.Problem{Status: http.StatusNotFound, Code: protocol.CodeUnknownAnalysis}) // the client looks
	}))
	t.Cleanup(s.Close)

	return s.URL
}

func TestClocks(t *testing.T) {
	t.Parallel()

	known := secret(t)

	tests := []struct {
		name       string
		off        time.Duration
		secrets    []webhook.Secret
		clock      Level
		clockWords string
		signature  Level
		words      string
	}{
		{"agree", 0, known, OK, "agree", OK, ""},
		{"a little", 40 * time.Second, known, Warn, "behind", OK, ""},
		{"behind", 20 * time.Minute, known, Fail, "20m0s behind", Fail, "is right, but this clock is off"},
		{"ahead", -6 * time.Minute, known, Fail, "6m0s ahead of", Fail, "is right, but this clock is off"},
		{"clock and secret", -20 * time.Minute, secret(t), Fail, "ahead of", Fail, "another secret"},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			found := examineControl(t.Context(), skewed(t, known, tt.off), "THE_URL", tt.secrets)
			expect(t, one(t, found, "control clock"), tt.clock, tt.clockWords)
			expect(t, one(t, found, "signature"), tt.signature, tt.words)
		})
	}
}

func TestWhatIsNoControlPlane(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name   string
		answer http.HandlerFunc
		level  Level
		words  string
	}{
		{"nothing there", http.NotFound, Fail, "no control plane"},
		{"redirect", http.RedirectHandler("https://elsewhere/?canary", http.StatusPermanentRedirect).ServeHTTP, Fail, "redirect (308)"},
		{"trouble", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, Fail, "answers 503"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, Fail, "no control plane"},
		{"anything goes", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(protocol.Problem{Code: protocol.CodeUnknownAnalysis})
		}, Fail, "accepts a signature by a secret that it can't know"},
		{"no date", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Date"] = nil
			w.WriteHeader(http.StatusForbidden)
		}, Warn, "no Date"},
		{"silence", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
			<-r.Context().Done()
		}, Fail, "no answer in time"},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			s := httptest.NewServer(tt.answer)
			t.Cleanup(s.Close)

			limit := patience
			if tt.name == "silence" {
				limit = 200 * time.Millisecond
			}

			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()

			found := examineControl(ctx, s.URL, "THE_URL", secret(t))
			i := 0

			for found[i].Level == OK {
				i++
			}

			expect(t, found[i], tt.level, tt.words)
		})
	}

	// TLS that is not to be trusted.
	s := httptest.NewTLSServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(s.Close)
	expect(t, examineControl(t.Context(), s.URL, "THE_URL", secret(t))[0], Fail, "certificate is not trusted: the authority is unknown")
}
