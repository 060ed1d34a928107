package ecs_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/control/fleet"
	"github.com/posefleet/posefleet/control/fleet/ecs"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
	"github.com/posefleet/posefleet/internal/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// driver returns a driver of the api.
func driver(t *testing.T, a *api, secret, name string) *ecs.Fleet {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	f, err := ecs.New(t.Context(), ecs.Config{Cluster: cluster, Service: name, Options: func(o *sdk.Options) {
		o.Region, o.BaseEndpoint = region, aws.String(a.url)
		o.Credentials = credentials.NewStaticCredentialsProvider(accessKey, secret, "")
		o.HTTPClient = &http.Client{Transport: transport}
	}})
	if err != nil {
		t.Fatal(err)
	}

	return f
}

func (a *api) with(fn func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn()
}

func TestLookAndSet(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	f := driver(t, a, secretKey, service)
	if err := f.Set(t.Context(), 3, nil); err != nil || a.desired != 3 {
		t.Fatalf("desired %d, %v", a.desired, err)
	}
	// The service shows it late, and tasks are ready when they are healthy, or old without a check.
	now := time.Now()
	a.tasks = []*fakeTask{
		{id: "t1", health: "HEALTHY", started: now}, {id: "t2", health: "UNKNOWN", started: now}, {id: "t3", health: "UNHEALTHY", started: now.Add(-time.Hour)},
	}
	if s, err := f.Look(t.Context()); err != nil || s != (fleet.Seen{Desired: 0, Running: 3, Ready: 1}) {
		t.Fatalf("%+v, %v", s, err)
	}
	a.with(func() { a.shown, a.tasks[1].started = 3, now.Add(-2*time.Minute) })
	if s, err := f.Look(t.Context()); err != nil || s != (fleet.Seen{Desired: 3, Running: 3, Ready: 2}) {
		t.Fatalf("%+v, %v", s, err)
	}
}

// What is protected stays; a busy task without protection keeps all others.
func TestSpare(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	f := driver(t, a, secretKey, service)
	if n, err := f.Spare(t.Context(), 0, nil); n != 0 || err != nil {
		t.Fatalf("no tasks: %d, %v", n, err)
	}
	a.tasks = []*fakeTask{{id: "t1", protected: true}, {id: "t2"}, {id: "t3"}}
	for _, test := range []struct {
		name string
		n    int
		busy []string
		want int
	}{
		{"idle, one still protected", 0, nil, 1},
		{"the busy one is protected", 1, []string{"t1"}, 1},
		{"a busy one is not", 2, []string{"t1", "t2"}, 3},
		{"another's worker", 0, []string{"host-1-abc"}, 1},
		{"more are wanted anyway", 2, []string{"t1"}, 2},
	} {
		if n, err := f.Spare(t.Context(), test.n, test.busy); n != test.want || err != nil {
			t.Errorf("%s: %d, %v; want %d", test.name, n, err, test.want)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	if _, err := driver(t, a, "wrong", service).Look(t.Context()); code(err) != "InvalidSignatureException" {
		t.Errorf("wrong key: %v", err)
	}
	if _, err := driver(t, a, secretKey, "another").Look(t.Context()); !errors.Is(err, ecs.ErrNoService) {
		t.Errorf("another service: %v", err)
	}
	f := driver(t, a, secretKey, service)
	// One refusal is tried again at once, more are the pass's to wait for.
	a.with(func() { a.throttle, a.calls = 1, nil })
	if err := f.Set(t.Context(), 1, nil); err != nil || len(a.calls) != 2 {
		t.Errorf("throttled once: %v after %v", err, a.calls)
	}
	a.with(func() { a.throttle, a.calls = 9, nil })
	if err := f.Set(t.Context(), 2, nil); code(err) != "ThrottlingException" || len(a.calls) != 2 {
		t.Errorf("throttled: %v after %v", err, a.calls)
	}
	a.with(func() { a.throttle, a.refuse, a.calls = 0, "AccessDeniedException", nil })
	if _, err := f.Spare(t.Context(), 0, nil); code(err) != "AccessDeniedException" || len(a.calls) != 1 {
		t.Errorf("denied: %v after %v", err, a.calls)
	}
	a.with(func() { a.refuse = "ServiceNotFoundException" })
	if err := f.Set(t.Context(), 1, nil); !isA[*types.ServiceNotFoundException](err) {
		t.Errorf("gone: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Set(ended, 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

func code(err error) string {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}

	return ""
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)

	return ok
}

// The whole way with a real database: from zero by work alone, with a lost answer on the way, and back to zero in spite of throttling.
func TestFromZeroAndBack(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := fleet.New(fleet.Config{Max: 3, Slots: 2, Interval: time.Second, Owner: "test"}, s, driver(t, a, secretKey, service),
		slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})

	a.with(func() { a.lostReply = true })
	for _, id := range []string{"an_1", "an_2", "an_3"} {
		n := storetest.NewAnalysis(id)
		if _, _, err := s.CreateAnalysis(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(t.Context(), store.Submission{ID: id, Clips: n.Clips}); err != nil {
			t.Fatal(err)
		}
	}
	r.Kick()
	a.await(t, 2)
	a.with(func() {
		a.shown = 2
		a.tasks = []*fakeTask{{id: "t1", health: "HEALTHY"}, {id: "t2", health: "HEALTHY"}}
	})
	wait.For(t, time.Minute, func() bool {
		status, err := r.Status(t.Context(), time.Time{}, 10)

		return err == nil && status.Running == 2 && status.Ready == 2 && status.Desired == 2 && status.Waiting == 3
	}, "never ready")

	a.with(func() { a.throttle = 3 })
	for _, id := range []string{"an_1", "an_2", "an_3"} {
		if _, err := s.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	a.await(t, 0)
}

// await waits until so many tasks are asked for.
func (a *api) await(t *testing.T, n int) {
	t.Helper()
	wait.For(t, time.Minute, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()

		return a.desired == n
	}, "never %d tasks asked for", n)
}
