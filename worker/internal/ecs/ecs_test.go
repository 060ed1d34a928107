package ecs_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/worker/internal/ecs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent is the part of the ECS agent that a task sees, with its odd habits: a refusal has status 200, unknown fields
// are refused.
type agent struct {
	*httptest.Server
	mu    sync.Mutex
	mode  string // ok blocked denied throttled timeout garbage
	calls []string
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	a := &agent{mode: "ok"}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

func (a *agent) set(mode string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mode = mode
}

func (a *agent) seen() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.calls...)
}

func (a *agent) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, string(body))
	var wish struct {
		ProtectionEnabled *bool
		ExpiresInMinutes  int
	}
	if r.Method != http.MethodPut || r.URL.Path != "/task-protection/v1/state" || json.Unmarshal(body, &wish) != nil || wish.ProtectionEnabled == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch a.mode {
	case "ok":
		_ = json.NewEncoder(w).Encode(map[string]any{"protection": map[string]any{"ProtectionEnabled": *wish.ProtectionEnabled, "TaskArn": "arn"}})
	case "blocked":
		_, _ = io.WriteString(w, `{"failure":{"Arn":"arn","Reason":"DEPLOYMENT_BLOCKED"}}`)
	case "invalid":
		_, _ = io.WriteString(w, `{"failure":{"Arn":"arn","Reason":"TASK_NOT_VALID"}}`)
	case "denied":
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":{"Code":"AccessDeniedException"}}`)
	case "garbage":
		_, _ = io.WriteString(w, `ok`)
	}
}

func TestProtectorEdges(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	p := ecs.NewProtector(a.URL, false, 30*time.Minute, func() bool { return false }, slog.New(slog.DiscardHandler))
	for range 5 {
		if err := p.Hold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{`{"ExpiresInMinutes":40,"ProtectionEnabled":true}`}, a.seen()); diff != "" {
		t.Error(diff) // one call for the edge, longer than the longest job
	}
	if !p.Protected() {
		t.Error("not protected")
	}
}

func TestProtectorRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		mode     string
		required bool
		want     error
	}{
		{"blocked", false, ecs.ErrBlocked},
		{"blocked", true, ecs.ErrBlocked},
		{"denied", false, nil},
		{"denied", true, ecs.ErrUnprotected},
		{"invalid", false, nil},
		{"invalid", true, ecs.ErrUnprotected},
		{"garbage", false, nil},
		{"garbage", true, ecs.ErrUnprotected},
	}
	for _, tt := range tests {
		a := newAgent(t)
		a.set(tt.mode)
		p := ecs.NewProtector(a.URL, tt.required, time.Minute, func() bool { return false }, slog.New(slog.DiscardHandler))
		if err := p.Hold(t.Context()); !errors.Is(err, tt.want) {
			t.Errorf("%s, required %t: %v, want %v", tt.mode, tt.required, err, tt.want)
		}
		if p.Protected() {
			t.Errorf("%s: counts as protected", tt.mode)
		}
		if tt.mode == "blocked" {
			calls := len(a.seen())
			if err := p.Hold(t.Context()); !errors.Is(err, ecs.ErrBlocked) || len(a.seen()) != calls {
				t.Error("asked again at once while blocked")
			}
			continue
		}
		a.set("ok")
		if err := p.Hold(t.Context()); err != nil || !p.Protected() {
			t.Errorf("%s: not protected after it healed: %v", tt.mode, err)
		}
	}
}

func TestReadTask(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) == 1 || r.URL.Path != "/v4/x/task" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{"TaskARN":"arn:aws:ecs:eu-west-1:1:task/fleet/0123abcd","Revision":"7","Limits":{"CPU":0.5,"Memory":1024},
			"ClockDrift":{"ClockErrorBound":0.5}}`)
	}))
	defer s.Close()
	got, err := ecs.ReadTask(t.Context(), s.URL+"/v4/x")
	if err != nil || got.ID() != "0123abcd" || got.Limits.CPU != 0.5 || got.Limits.Memory != 1024 || got.Revision != "7" {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := ecs.ReadTask(t.Context(), "http://127.0.0.1:1"); err == nil {
		t.Fatal("no error without an endpoint")
	}
}

func TestProtectorRunEnds(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	p := ecs.NewProtector(a.URL, false, time.Minute, func() bool { return true }, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }() // ends with cancel
	if err := p.Hold(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	wait.For(t, time.Minute, func() bool { return len(done) == 1 }, "Run does not end")
	if diff := cmp.Diff([]string{`{"ExpiresInMinutes":15,"ProtectionEnabled":true}`}, a.seen()); diff != "" {
		t.Error(diff) // protection is left alone at the end
	}
}
