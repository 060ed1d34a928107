package worker_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker/internal/controltest"
	"github.com/posefleet/posefleet/worker/internal/extractortest"
)

// operations returns the operations of an analysis in their order.
func operations(p *controltest.Plane, id string) []string {
	var out []string
	for _, c := range p.Calls("", id) {
		if c.Operation != "renew" {
			out = append(out, c.Operation)
		}
	}
	return out
}

func TestQueueJobFromEndToEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.plane.Add("an_1", "ok\nfirst clip", "ok\nsecond clip")
	w := b.start()
	b.add("an_1", 3)
	job := b.awaitState("an_1", queue.StateCompleted)

	var got protocol.ReturnValue
	if err := json.Unmarshal(job.ReturnValue, &got); err != nil || got.Outcome != protocol.OutcomeCompleted || got.Epoch == nil || *got.Epoch != 1 {
		t.Errorf("return value %s (%v)", job.ReturnValue, err)
	}
	if diff := cmp.Diff([]string{"redeem", "get", "get", "artifact", "put", "result"}, operations(b.plane, "an_1")); diff != "" {
		t.Errorf("order of effects:\n%s", diff)
	}
	results := b.plane.Results("an_1")
	if len(results) != 1 || results[0].WebhookID != "res_an_1_1" {
		t.Fatalf("results %+v", results)
	}
	data := results[0].Parsed.Data
	if results[0].Parsed.Type != protocol.ResultCompleted || data.Attempt != 1 || data.Model.Name != "fake" ||
		len(data.Clips) != 2 || data.Clips[0].Frames != extractortest.Frames || data.WorkerID == "" {
		t.Errorf("result %s", results[0].Body)
	}
	if blob := b.plane.Blob(data.Artifact.Key); int64(len(blob)) != data.Artifact.Size {
		t.Errorf("stored %d bytes, the result says %d", len(blob), data.Artifact.Size)
	}
	redeem := b.plane.Calls("redeem", "an_1")[0].Redeem
	want := protocol.RedeemRequest{AnalysisID: "an_1", WorkerID: data.WorkerID, Source: protocol.SourceQueue, JobID: "an_1", Attempt: 1}
	if diff := cmp.Diff(want, redeem); diff != "" {
		t.Errorf("redeem:\n%s", diff)
	}
	logs, err := b.queue.Logs(t.Context(), "an_1")
	if err != nil {
		t.Fatal(err)
	}
	var stages []string
	for _, line := range logs {
		stage, _, _ := strings.Cut(line, ":")
		stages = append(stages, stage)
	}
	if diff := cmp.Diff([]string{"redeem", "download", "extract", "upload", "report"}, stages); diff != "" {
		t.Errorf("job log:\n%s", diff)
	}
	if !strings.Contains(string(job.Progress), `"stage"`) {
		t.Errorf("progress %s", job.Progress)
	}
	w.awaitIdle()
	if n := w.metric(`posefleet_jobs_total{outcome="completed",source="queue"}`); n != 1 {
		t.Errorf("jobs_total %v, want 1", n)
	}
	if n := w.metric("posefleet_frames_total"); n != 2*extractortest.Frames {
		t.Errorf("frames_total %v", n)
	}
}

// TestQueueVerdicts holds what the control plane says of a claim to what becomes of the job.
func TestQueueVerdicts(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	w := b.start()
	b.plane.Add("an_gone", "ok")
	b.plane.Cancel("an_gone")
	b.plane.Add("an_held", "ok")
	b.plane.Steal("an_held")
	for _, id := range []string{"an_gone", "an_unknown", "an_held"} {
		b.add(id, 2)
	}
	if j := b.awaitState("an_gone", queue.StateCompleted); string(j.ReturnValue) != `{"outcome":"cancelled"}` {
		t.Errorf("cancelled: return value %s", j.ReturnValue)
	}
	if j := b.awaitState("an_unknown", queue.StateFailed); !strings.HasPrefix(j.FailedReason, "unknown_analysis: ") || j.AttemptsMade != 1 {
		t.Errorf("unknown: %q after %d attempts", j.FailedReason, j.AttemptsMade)
	}
	if j := b.awaitState("an_held", queue.StateDelayed); j.AttemptsMade != 0 {
		t.Errorf("held: %d attempts spent", j.AttemptsMade)
	}
	w.awaitIdle()

	b.plane.Add("an_done", "ok")
	b.add("an_done", 1)
	b.awaitState("an_done", queue.StateCompleted)
	if err := b.queue.Remove(t.Context(), "an_done"); err != nil {
		t.Fatal(err)
	}
	b.add("an_done", 1)
	if j := b.awaitState("an_done", queue.StateCompleted); string(j.ReturnValue) != `{"outcome":"alreadyDelivered"}` {
		t.Errorf("delivered before: return value %s", j.ReturnValue)
	}
	if n := len(b.plane.Results("an_done")); n != 1 {
		t.Errorf("%d results, want 1", n)
	}
}

func TestQueueRefusesBadJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.start()
	tests := []struct{ name, data, code string }{
		{"version", `{"v":2,"analysisId":"an_x"}`, "unsupported_version: "},
		{"no_id", `{"v":1}`, "invalid_job: "},
		{"bad_id", `{"v":1,"analysisId":"a b"}`, "invalid_id: "},
		{"no_json_object", `[1]`, "invalid_job: "},
	}
	for _, tt := range tests {
		if _, err := b.queue.Add(t.Context(), protocol.JobName, json.RawMessage(tt.data), queue.JobOptions{JobID: tt.name, Attempts: 5}); err != nil {
			t.Fatal(err)
		}
		if j := b.awaitState(tt.name, queue.StateFailed); !strings.HasPrefix(j.FailedReason, tt.code) || j.AttemptsMade != 1 {
			t.Errorf("%s: %q after %d attempts", tt.name, j.FailedReason, j.AttemptsMade)
		}
	}
	if n := len(b.plane.Calls("", "")); n != 0 {
		t.Errorf("%d requests to the control plane", n)
	}
}

// TestPoison: a clip that kills, hangs or disturbs its extractor costs its own attempts only, and its last attempt says so.
func TestPoison(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	w := b.start("SLOTS", "2", "JOB_TIMEOUT", "3s")
	tests := []struct {
		id, clip string
		attempts int
		starts   int
		code     string
		retry    bool
	}{
		{"an_crash", "crash", 2, 2, "extractor_crashed", true},
		{"an_garbage", "garbage", 2, 2, "extractor_crashed", true},
		{"an_hang", "hang", 1, 1, "extractor_timeout", true},
		{"an_media", "error no_video_stream", 5, 1, "no_video_stream", false},
		{"an_good", "ok", 1, 1, "", false},
		{"an_good_too", "slow 300ms", 1, 1, "", false},
	}
	for _, tt := range tests {
		b.plane.Add(tt.id, tt.clip)
		b.add(tt.id, tt.attempts)
	}
	for _, tt := range tests {
		if tt.code == "" {
			b.awaitState(tt.id, queue.StateCompleted)
			continue
		}
		j := b.awaitState(tt.id, queue.StateFailed)
		if !strings.HasPrefix(j.FailedReason, tt.code+": ") || j.AttemptsStarted != tt.starts {
			t.Errorf("%s: %q after %d starts, want %s after %d", tt.id, j.FailedReason, j.AttemptsStarted, tt.code, tt.starts)
		}
		results := b.plane.Results(tt.id)
		if len(results) != 1 || results[0].Parsed.Type != protocol.ResultFailed {
			t.Errorf("%s: results %+v", tt.id, results)
			continue
		}
		if e := results[0].Parsed.Data.Error; string(e.Code) != tt.code || e.Retryable != tt.retry || e.Message == "" {
			t.Errorf("%s: reported %+v", tt.id, e)
		}
	}
	w.awaitIdle()
}

func TestBadParamsAreReported(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.start()
	b.plane.Add("an_1", "ok")
	b.plane.SetParams("an_1", `{"model":"gigantic"}`)
	b.add("an_1", 5)
	b.awaitState("an_1", queue.StateFailed)
	if r := b.plane.Results("an_1"); len(r) != 1 || r[0].Parsed.Type != protocol.ResultFailed {
		t.Fatalf("results %+v", r)
	}
}

// TestControlPlaneDown is the row "control plane gone": bounded tries, then the attempt fails retryable; slot and disk are free.
func TestControlPlaneDown(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"503": 503, "401": 401, "200 of another shape": 200} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, true)
			w := b.start()
			b.plane.Add("an_1", "ok")
			b.plane.Fault("redeem", controltest.Status(status))
			b.add("an_1", 1)
			j := b.awaitState("an_1", queue.StateFailed)
			if !strings.HasPrefix(j.FailedReason, "control_unreachable: ") && !strings.HasPrefix(j.FailedReason, "claim_refused: ") {
				t.Errorf("reason %q", j.FailedReason)
			}
			// Only a refusal of the worker itself is for people: its secret or its clock.
			warned := strings.Contains(b.log.String(), `"level":"WARN","msg":"the control plane refuses this worker: `)
			if warned != (status == http.StatusUnauthorized) {
				t.Errorf("warned %t", warned)
			}
			w.awaitIdle()
			if code, text := w.admin("/healthz", ""); code != http.StatusOK {
				t.Errorf("healthz %d %s", code, text)
			}
			b.plane.Fault("redeem", nil)
			if err := b.queue.Retry(t.Context(), "an_1"); err != nil {
				t.Fatal(err)
			}
			b.awaitState("an_1", queue.StateCompleted)
		})
	}
}

// TestStoredArtifactIsPostedAgain is the row "cut after 6": what is stored is not computed twice.
func TestStoredArtifactIsPostedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.start()
	b.plane.Add("an_1", "ok")
	refused := 0
	b.plane.Fault("result", func(w http.ResponseWriter, _ *http.Request) bool {
		refused++
		if refused > 1 {
			return false
		}
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusBadRequest)
		return true
	})
	b.add("an_1", 3)
	if j := b.awaitState("an_1", queue.StateFailed); !strings.HasPrefix(j.FailedReason, "result_refused: ") {
		t.Fatalf("reason %q", j.FailedReason)
	}
	if err := b.queue.Retry(t.Context(), "an_1"); err != nil {
		t.Fatal(err)
	}
	b.awaitState("an_1", queue.StateCompleted)
	if n := len(b.plane.Calls("get", "an_1")); n != 1 {
		t.Errorf("%d downloads, want 1", n)
	}
	if n := len(b.plane.Results("an_1")); n != 1 {
		t.Errorf("%d results, want 1", n)
	}
}

// TestDocumentTooLarge: a document that the control plane will not take is not made again, and the control plane is told.
func TestDocumentTooLarge(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.start()
	b.plane.Add("an_1", "ok")
	b.plane.Fault("artifact", controltest.Status(http.StatusRequestEntityTooLarge))
	b.add("an_1", 5)
	if j := b.awaitState("an_1", queue.StateFailed); !strings.HasPrefix(j.FailedReason, "upload_failed: ") || j.AttemptsMade != 1 {
		t.Errorf("%q after %d attempts", j.FailedReason, j.AttemptsMade)
	}
	if n := len(b.plane.Calls("get", "an_1")); n != 1 {
		t.Errorf("%d downloads, want 1", n)
	}
	if r := b.plane.Results("an_1"); len(r) != 1 || r[0].Parsed.Type != protocol.ResultFailed {
		t.Errorf("results %+v", r)
	}
	logs, err := b.queue.Logs(t.Context(), "an_1")
	if err != nil || len(logs) < 2 || !strings.HasPrefix(logs[1], "download: 1 clip, ") {
		t.Errorf("job log %q, %v", logs, err)
	}
}

// TestConceded: the callback's words end the job as done.
func TestConceded(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{409: `"alreadyDelivered"`, 410: `"cancelled"`} {
		b := newBench(t, true)
		b.start()
		b.plane.Add("an_1", "ok")
		b.plane.Fault("result", controltest.Status(status))
		b.add("an_1", 3)
		if j := b.awaitState("an_1", queue.StateCompleted); !strings.Contains(string(j.ReturnValue), want) {
			t.Errorf("%d: return value %s, want %s", status, j.ReturnValue, want)
		}
	}
}

// TestLockLossKillsAndPostsNothing: another token on the lock ends the work within a renewal.
func TestLockLossKillsAndPostsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	w := b.start("LOCK_RENEW_TIME", "300ms")
	b.plane.Add("an_1", "hang")
	b.add("an_1", 3)
	wait.For(t, long, func() bool { return w.get("an_1").Body["stage"] == "extract" }, "not extracting")
	if err := b.redis.Client().Set(t.Context(), "bull:pose:an_1:lock", "thief", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	w.awaitIdle()
	if r := b.plane.Results("an_1"); len(r) != 0 {
		t.Fatalf("posted %+v after the loss of the lock", r)
	}
	if n := w.metric(`posefleet_jobs_total{outcome="lost_lock",source="queue"}`); n != 1 {
		t.Errorf("lost_lock %v, want 1", n)
	}
	if s := b.state("an_1"); s != queue.StateActive {
		t.Errorf("job is %s: something was written without the lock", s)
	}
	b.plane.Add("an_2", "ok")
	b.add("an_2", 1)
	b.awaitState("an_2", queue.StateCompleted)
}

// TestLeaseLoss: a claim that went to somebody else stops the work; the job waits and asks again.
func TestLeaseLoss(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.plane.Lease = 2 * time.Second
	w := b.start()
	b.plane.Add("an_1", "hang")
	b.add("an_1", 3)
	wait.For(t, long, func() bool { return w.get("an_1").Body["stage"] == "extract" }, "not extracting")
	b.plane.Steal("an_1")
	if j := b.awaitState("an_1", queue.StateDelayed); j.AttemptsMade != 0 {
		t.Errorf("%d attempts spent", j.AttemptsMade)
	}
	w.awaitIdle()
	if r := b.plane.Results("an_1"); len(r) != 0 {
		t.Fatalf("posted %+v after the loss of the claim", r)
	}
	if slices.Contains(operations(b.plane, "an_1"), "release") {
		t.Error("released a claim that was not ours")
	}
}

// TestCancelledAtTheControlPlane: a renewal that answers 410 ends the job as cancelled.
func TestCancelledAtTheControlPlane(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.plane.Lease = 2 * time.Second
	w := b.start()
	b.plane.Add("an_1", "hang")
	b.add("an_1", 3)
	wait.For(t, long, func() bool { return w.get("an_1").Body["stage"] == "extract" }, "not extracting")
	b.plane.Cancel("an_1")
	if j := b.awaitState("an_1", queue.StateCompleted); !strings.Contains(string(j.ReturnValue), `"cancelled"`) {
		t.Errorf("return value %s", j.ReturnValue)
	}
	w.awaitIdle()
}

// TestDeliveredByAnother: a 410 in the middle says which end the analysis had.
func TestDeliveredByAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.plane.Lease = 2 * time.Second
	w := b.start()
	b.plane.Add("an_1", "hang")
	b.add("an_1", 3)
	wait.For(t, long, func() bool { return w.get("an_1").Body["stage"] == "extract" }, "not extracting")
	b.plane.Fault("renew", func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", "application/problem+json")
		rw.WriteHeader(http.StatusGone)
		_, _ = rw.Write([]byte(`{"type":"about:blank","title":"Gone","status":410,"code":"claim_gone","reason":"delivered"}`))
		return true
	})
	if j := b.awaitState("an_1", queue.StateCompleted); strings.Contains(string(j.ReturnValue), `"cancelled"`) {
		t.Errorf("return value %s", j.ReturnValue)
	}
	if w.get("an_1").Body["status"] != "delivered" {
		t.Errorf("door shows %v", w.get("an_1").Body)
	}
}

// TestStalledTooOften: a job that every worker dies over is reported, so that nobody waits for ever.
func TestStalledTooOften(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.plane.Add("an_1", "hang")
	b.plane.Add("an_2", "ok")
	b.add("an_1", 5)
	pairs := []string{"MAX_STALLED_COUNT", "1", "LOCK_DURATION", "3s", "LOCK_RENEW_TIME", "300ms", "STALLED_INTERVAL", "300ms"}
	for range 2 {
		c := b.spawn(pairs...)
		starts := len(b.plane.Calls("get", "an_1"))
		wait.For(t, long, func() bool { return len(b.plane.Calls("get", "an_1")) > starts }, "not started")
		c.kill(t)
	}
	w := b.start(pairs...)
	b.awaitState("an_1", queue.StateFailed)
	results := b.plane.Results("an_1")
	if len(results) != 1 || results[0].Parsed.Type != protocol.ResultFailed || results[0].Parsed.Data.Error.Code != protocol.CodeLockLost {
		t.Fatalf("results %+v", results)
	}
	b.add("an_2", 1)
	b.awaitState("an_2", queue.StateCompleted)
	w.awaitIdle()
}
