package control_test

import (
	"encoding/json"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// Without Redis the process lives and is not ready; with it both. Nobody needs a token to learn that, but for what was built.
func TestReady(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	with := setup(t, func(c *control.Config) { c.RedisURL = redis.URL })
	without := setup(t, nil)
	for _, tt := range []struct {
		b      *bundle
		path   string
		status int
	}{
		{with, "/healthz", 200}, {with, "/readyz", 200}, {with, "/version", 200}, {without, "/healthz", 200}, {without, "/readyz", 503},
	} {
		r := tt.b.api(t, http.MethodGet, tt.path, nil)
		if r.status != tt.status {
			t.Errorf("%s: %d, want %d: %s", tt.path, r.status, tt.status, r.body)
		}
	}
	if p := without.api(t, http.MethodGet, "/readyz", nil).want(t, http.StatusServiceUnavailable, protocol.CodeInternal).problem(t); p.Detail != "Redis does not answer." {
		t.Errorf("%+v", p)
	}
	var version struct{ Version, Go string }
	if err := json.Unmarshal(with.api(t, http.MethodGet, "/version", nil).body, &version); err != nil || version.Version == "" || version.Go != runtime.Version() {
		t.Errorf("%+v %v", version, err)
	}
}

// The queue's numbers are as fresh as promised, and say how old they are; a job that is added shows without waiting for the next census.
func TestFleetIsFresh(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	b := setup(t, func(c *control.Config) { c.RedisURL = redis.URL })
	q := b.openQueue(t)
	type fleet struct {
		Queue *struct{ Waiting int64 }
		Age   *float64 `json:"queueAgeSeconds"`
	}
	look := func() (f fleet) {
		r := b.api(t, http.MethodGet, "/v1/fleet", nil).want(t, http.StatusOK, "")
		if err := json.Unmarshal(r.body, &f); err != nil {
			t.Fatal(err)
		}

		return f
	}
	wait.For(t, patience, func() bool { return look().Queue != nil }, "no census")
	if _, err := q.Add(t.Context(), protocol.JobName, protocol.NewJobData("an_1"), queue.JobOptions{JobID: "an_1"}); err != nil {
		t.Fatal(err)
	}
	added := time.Now()
	wait.For(t, patience, func() bool {
		since := time.Since(added) // before the answer: numbers that are younger than this know the job
		f := look()
		if f.Queue == nil || *f.Age > 3 {
			return false // on a machine that stood still: not read in its second, or not said at once
		}
		if *f.Age < 0 {
			t.Fatalf("%+v", f)
		}
		if f.Queue.Waiting == 0 && *f.Age < since.Seconds()-2 {
			t.Fatalf("numbers of %v s ago do not know a job that was added %v ago", *f.Age, since)
		}

		return f.Queue.Waiting == 1
	}, "the job does not show")
	// Without a question it would show at the next census, 30 s after the one before.
	if took := time.Since(added); took > 25*time.Second {
		t.Errorf("it shows only after %v", took)
	}
}
