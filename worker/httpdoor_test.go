package worker_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/worker/internal/controltest"
)

// untouched checks that a refused request left slots and disk as they were and started nothing.
func untouched(t *testing.T, b *bench, w *running) {
	t.Helper()
	if n := w.metric("posefleet_slots_in_use"); n != 0 {
		t.Errorf("%v slots in use", n)
	}
	if left := b.files(); len(left) != 0 {
		t.Errorf("left on disk: %v", left)
	}
	if n := len(b.plane.Calls("get", "")); n != 0 {
		t.Errorf("%d downloads", n)
	}
}

// TestDoorTable is the contract's table of refusals.
func TestDoorTable(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	w := b.start()
	b.plane.Add("an_held", "ok")
	b.plane.Steal("an_held")
	b.plane.Add("an_gone", "ok")
	b.plane.Cancel("an_gone")
	body := func(id string) string { return fmt.Sprintf(`{"v":1,"analysisId":%q}`, id) }
	other := webhook.Generate()
	tests := []struct {
		name string
		m    message
		code int
		want protocol.Code
	}{
		{"wrong secret", message{body: body("an_1"), secret: other}, 401, "unauthorized"},
		{"no signature", message{body: body("an_1"), header: http.Header{"Webhook-Signature": nil}}, 401, "unauthorized"},
		{"no id", message{body: body("an_1"), header: http.Header{"Webhook-Id": nil}}, 401, "unauthorized"},
		{"no timestamp", message{body: body("an_1"), header: http.Header{"Webhook-Timestamp": nil}}, 401, "unauthorized"},
		{"two signatures lines", message{body: body("an_1"), header: http.Header{"Webhook-Signature": {"v1,a", "v1,b"}}}, 401, "unauthorized"},
		{"stale", message{body: body("an_1"), at: time.Now().Add(-6 * time.Minute)}, 401, "unauthorized"},
		{"future", message{body: body("an_1"), at: time.Now().Add(6 * time.Minute)}, 401, "unauthorized"},
		{"bad signature before bad type", message{body: "x", secret: other, contentType: "text/plain"}, 401, "unauthorized"},
		{"content type", message{body: body("an_1"), contentType: "text/plain"}, 415, "unsupported_media_type"},
		{"broken JSON", message{body: `{"v":1,`}, 400, "invalid_request"},
		{"unknown field", message{body: `{"v":1,"analysisId":"an_1","extra":1}`}, 400, "invalid_request"},
		{"unknown version", message{body: `{"v":2,"analysisId":"an_1"}`}, 400, "unsupported_version"},
		{"no analysis id", message{body: `{"v":1}`}, 400, "invalid_request"},
		{"bad id", message{body: body("../etc")}, 400, "invalid_id"},
		{"integer id", message{body: body("123")}, 400, "invalid_id"},
		{"reserved id", message{body: body("meta")}, 400, "invalid_id"},
		{"far too large", message{body: `{"analysisId":"` + strings.Repeat("a", 5<<20) + `"}`}, 413, "request_too_large"},
		{"too large", message{body: `{"analysisId":"` + strings.Repeat("a", 17<<10) + `"}`}, 413, "request_too_large"},
		{"method", message{method: http.MethodPut, body: "{}"}, 405, "method_not_allowed"},
		{"path", message{path: "/v2/jobs", body: "{}"}, 404, "not_found"},
		{"held", message{body: body("an_held")}, 409, "claim_held"},
		{"gone", message{body: body("an_gone")}, 410, "claim_gone"},
		{"unknown", message{body: body("an_unknown")}, 404, "unknown_analysis"},
		{"no job to show", message{method: http.MethodGet, path: "/v1/jobs/an_1"}, 404, "not_found"},
		{"no job to cancel", message{path: "/v1/jobs/an_1/cancel", body: "{}"}, 404, "not_found"},
		{"cancel with a body", message{path: "/v1/jobs/an_1/cancel", body: `{"a":1}`}, 400, "invalid_request"},
		{"cancel unsigned", message{path: "/v1/jobs/an_1/cancel", body: "{}", secret: other}, 401, "unauthorized"},
	}
	for _, tt := range tests {
		got := w.send(tt.m)
		if got.Code != tt.code || got.Body["code"] != string(tt.want) || got.Body["status"] != float64(tt.code) {
			t.Errorf("%s: %d %v, want %d %s", tt.name, got.Code, got.Body, tt.code, tt.want)
		}
		if kind := got.Header.Get("Content-Type"); kind != protocol.ProblemContentType {
			t.Errorf("%s: content type %q", tt.name, kind)
		}
		if (tt.code == 409) != (got.Header.Get("Retry-After") != "") {
			t.Errorf("%s: Retry-After %q", tt.name, got.Header.Get("Retry-After"))
		}
		if (tt.code == 401) != (got.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: WWW-Authenticate %q", tt.name, got.Header.Get("WWW-Authenticate"))
		}
	}
	if got := w.send(message{body: body("an_gone")}); got.Body["reason"] != "cancelled" {
		t.Errorf("410 with reason %v", got.Body["reason"])
	}
	untouched(t, b, w)
}

func TestDoorAcceptsAndShows(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	w := b.start()
	b.plane.Add("an_1", "slow 4s")
	got := w.send(message{body: `{"analysisId":"an_1"}`}) // no v means 1
	want := map[string]any{"analysisId": "an_1", "status": "accepted"}
	if diff := cmp.Diff(want, got.Body); got.Code != 202 || diff != "" || got.Header.Get("Location") != "/v1/jobs/an_1" {
		t.Fatalf("%d %s %s", got.Code, got.Header.Get("Location"), diff)
	}
	again := w.post("an_1")
	if diff := cmp.Diff(want, again.Body); again.Code != 202 || diff != "" {
		t.Errorf("while it runs: %d %s", again.Code, diff)
	}
	wait.For(t, long, func() bool {
		s := w.get("an_1").Body
		p, _ := s["progress"].(float64)
		return s["status"] == "running" && s["stage"] == "extract" && p > 0 && p < 1
	}, "never running with a progress")
	w.awaitStatus("an_1", protocol.DoorDelivered)
	if got := w.post("an_1"); got.Code != 200 || got.Body["status"] != "delivered" || got.Body["progress"] != 1.0 || got.Body["attempt"] != 1.0 {
		t.Errorf("after the end: %d %v", got.Code, got.Body)
	}
	if n := len(b.plane.Calls("redeem", "an_1")); n != 1 {
		t.Errorf("%d redemptions, want 1", n)
	}
	w.awaitIdle()
}

func TestDoorBusyAndCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	w := b.start()
	b.plane.Add("an_1", "hang")
	b.plane.Add("an_2", "ok")
	if got := w.post("an_1"); got.Code != 202 {
		t.Fatalf("%d %v", got.Code, got.Body)
	}
	busyID := webhook.NewID("msg")
	busy := w.send(message{body: `{"analysisId":"an_2"}`, id: busyID})
	after, err := strconv.Atoi(busy.Header.Get("Retry-After"))
	if busy.Code != 429 || busy.Body["code"] != "worker_busy" || err != nil || after < 5 || after > 120 {
		t.Fatalf("%d %v, Retry-After %q", busy.Code, busy.Body, busy.Header.Get("Retry-After"))
	}
	if code, text := w.admin("/readyz", ""); code != 200 {
		t.Errorf("busy: readyz %d %s", code, text)
	}
	if got := w.cancel("an_1"); got.Code != 202 {
		t.Fatalf("cancel: %d %v", got.Code, got.Body)
	}
	w.awaitStatus("an_1", protocol.DoorCancelled)
	w.awaitIdle()
	if b.plane.Held("an_1") {
		t.Error("the claim was not released")
	}
	if r := b.plane.Results("an_1"); len(r) != 0 {
		t.Errorf("posted %+v", r)
	}
	// A repetition of the request that met a busy worker is judged anew: "busy" was no decision.
	if got := w.send(message{body: `{"analysisId":"an_2"}`, id: busyID}); got.Code != 202 {
		t.Fatalf("after the slot was free: %d %v", got.Code, got.Body)
	}
	w.awaitStatus("an_2", protocol.DoorDelivered)
}

func TestDoorReplays(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	w := b.start("SLOTS", "2")
	b.plane.Add("an_1", "hang") // until it is cancelled
	b.plane.Add("an_2", "slow 2s")
	m := message{body: `{"analysisId":"an_1"}`, id: "msg_fixed"}
	var wg sync.WaitGroup
	for range 10 { // also at once
		wg.Go(func() {
			if got := w.send(m); got.Code != 202 {
				t.Errorf("repetition: %d %v", got.Code, got.Body)
			}
		})
	}
	wg.Wait()
	if got := w.send(message{body: `{"analysisId":"an_2"}`, id: "msg_fixed"}); got.Code != 401 {
		t.Errorf("the same id with another body: %d", got.Code)
	}
	if n := len(b.plane.Calls("redeem", "")); n != 1 {
		t.Errorf("%d redemptions, want 1", n)
	}
	// A captured cancel must not work for another job: the path is not signed.
	if got := w.post("an_2"); got.Code != 202 {
		t.Fatalf("%d %v", got.Code, got.Body)
	}
	if got := w.send(message{path: "/v1/jobs/an_1/cancel", body: "{}", id: "msg_cancel"}); got.Code != 202 {
		t.Fatalf("cancel: %d", got.Code)
	}
	if got := w.send(message{path: "/v1/jobs/an_2/cancel", body: "{}", id: "msg_cancel"}); got.Code != 401 {
		t.Errorf("a captured cancel for another job: %d", got.Code)
	}
	w.awaitStatus("an_2", protocol.DoorDelivered)
}

func TestDoorControlPlaneDown(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // the server looks for the client's end only after that
		<-r.Context().Done()
		return true
	}
	faults := map[string]func(http.ResponseWriter, *http.Request) bool{
		"500": controltest.Status(500), "401": controltest.Status(401), "403": controltest.Status(403),
		"200 of another shape": controltest.Status(200), "silence": hang,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, false)
			w := b.start()
			b.plane.Add("an_1", "ok")
			b.plane.Fault("redeem", fault)
			begin := time.Now()
			got := w.post("an_1")
			if got.Code != 503 || got.Header.Get("Retry-After") == "" {
				t.Errorf("%d %v", got.Code, got.Body)
			}
			if took := time.Since(begin); took > 30*time.Second {
				t.Errorf("answered after %s", took)
			}
			untouched(t, b, w)
			b.plane.Fault("redeem", nil)
			if got := w.post("an_1"); got.Code != 202 {
				t.Errorf("healed: %d %v", got.Code, got.Body)
			}
			w.awaitStatus("an_1", protocol.DoorDelivered)
		})
	}
}

func TestDoorFailureIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	w := b.start()
	b.plane.Add("an_1", "crash")
	if got := w.post("an_1"); got.Code != 202 {
		t.Fatalf("%d", got.Code)
	}
	w.awaitStatus("an_1", protocol.DoorFailed)
	r := b.plane.Results("an_1")
	if len(r) != 1 || r[0].Parsed.Type != protocol.ResultFailed || r[0].Parsed.Data.Error.Code != protocol.CodeExtractorCrashed {
		t.Fatalf("results %+v", r)
	}
	w.awaitIdle()
}

func TestDoorBeforeTheExtractorIsReady(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	w := b.launch("EXTRACTOR", strings.Join(b.command("late", "8s"), " "))
	b.plane.Add("an_1", "ok")
	if got := w.post("an_1"); got.Code != 503 || got.Body["code"] != "worker_starting" || got.Header.Get("Retry-After") == "" {
		t.Errorf("starting: %d %v", got.Code, got.Body)
	}
	if code, _ := w.admin("/readyz", ""); code != 503 {
		t.Errorf("starting: readyz %d", code)
	}
	if code, _ := w.admin("/healthz", ""); code != 200 {
		t.Errorf("starting: healthz %d", code)
	}
	if w.metric(`posefleet_state{state="starting"}`) != 1 {
		t.Error("state is not starting")
	}
	<-w.Ready()
	if got := w.post("an_1"); got.Code != 202 {
		t.Errorf("ready: %d %v", got.Code, got.Body)
	}
	w.awaitStatus("an_1", protocol.DoorDelivered)
}

// TestDoorCapacityNeverLeaks mixes every refusal with clients that hang up, and then asks for full capacity.
func TestDoorCapacityNeverLeaks(t *testing.T) {
	t.Parallel()
	b := newBench(t, false)
	w := b.start("SLOTS", "2", "LOG_LEVEL", "warn")
	b.plane.Add("an_gone", "ok")
	b.plane.Cancel("an_gone")
	b.plane.Add("an_held", "ok")
	b.plane.Steal("an_held")
	var wg sync.WaitGroup
	for i := range 300 {
		id := fmt.Sprintf("an_mix_%d", i)
		wg.Go(func() {
			switch i % 6 {
			case 0:
				w.post("an_gone")
			case 1:
				w.post("an_held")
			case 2:
				w.post("an_unknown")
			case 3:
				w.send(message{body: "{", secret: webhook.Generate()})
			case 4:
				b.plane.Add(id, "error invalid_media")
				w.post(id)
			case 5:
				b.plane.Add(id, "ok")
				w.abort(id)
			}
		})
		if i%20 == 19 {
			wg.Wait()
		}
	}
	wg.Wait()
	w.awaitIdle()
	for _, id := range []string{"an_a", "an_b"} {
		b.plane.Add(id, "hang")
		if got := w.post(id); got.Code != 202 {
			t.Fatalf("capacity leaked: %d %v", got.Code, got.Body)
		}
	}
	for _, id := range []string{"an_a", "an_b"} {
		w.cancel(id)
		w.awaitStatus(id, protocol.DoorCancelled)
	}
}

// abort sends a signed job and hangs up before the answer.
func (r *running) abort(id string) {
	body := fmt.Sprintf(`{"v":1,"analysisId":%q}`, id)
	keys, _ := webhook.ParseSecrets(r.b.secrets.Door)
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.Addr())
	if err != nil {
		r.b.t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/jobs HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	for k, v := range webhook.NewSigner(keys).Header(webhook.NewID("msg"), time.Now(), []byte(body)) {
		fmt.Fprintf(conn, "%s: %s\r\n", k, v[0])
	}
	fmt.Fprintf(conn, "\r\n%s", body)
}
