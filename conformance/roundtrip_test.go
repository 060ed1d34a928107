package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// TestNodeAddsGoWorks is the main job as an installation has it: Node adds claim-check jobs, the Go worker analyses real clips, Node verifies
// every message with npm standardwebhooks over the raw bytes and reads the job back.
func TestNodeAddsGoWorks(t *testing.T) {
	t.Parallel()

	for _, library := range []string{bullmq5, bullmq6} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()

			person := need.Media(t, "videos/tfjs_synthetic_pose_1.mp4")
			text := need.Media(t, "odd/text.mp4")

			s := newSystem(t, posefleet(t))
			gateway := s.behindGateway()
			realExtractor(t)
			w := s.startWorker("worker", nil)
			client := nodeClient(t, library, s.redis.URL, queueName)

			s.prepare("an_person", clip{"person.mp4", person}, &protocol.Params{Model: "lite"})
			s.prepare("an_text", clip{"text.mp4", text}, nil)
			client.addAnalyses(t, "an_person", "an_text")

			checkCompleted(t, client, "an_person")
			checkFailed(t, client, "an_text")
			checkCallbacks(t, gateway, map[string]string{"an_person": "pose.completed", "an_text": "pose.failed"})
			s.checkQuiet(w)

			if got := s.status("an_person"); got != "delivered" {
				t.Errorf("an_person is %s at the control plane", got)
			}
		})
	}
}

// behindGateway puts the Node gateway between the front and the control plane.
func (s *system) behindGateway() *script {
	s.t.Helper()

	g := startScript(s.t, "gateway.cjs", nil, map[string]string{"TARGET": s.controlURL, "SECRET": s.workerSecret})
	line := g.await(nodeTimeout, "address", func(line map[string]any) bool { return line["listening"] != nil })
	s.front.pointTo(s.t, fmt.Sprint(line["listening"]))

	return g
}

// addAnalyses adds claim-check jobs as the contract says.
func (s *script) addAnalyses(t *testing.T, ids ...string) {
	t.Helper()

	jobs := make([]map[string]any, 0, len(ids))
	for _, id := range ids {
		jobs = append(jobs, map[string]any{
			"name": protocol.JobName, "data": protocol.NewJobData(id),
			"opts": map[string]any{"jobId": id, "attempts": 3, "backoff": map[string]any{"type": "exponential", "delay": 200}},
		})
	}

	var got []string
	if err := s.call(&got, "add", map[string]any{"jobs": jobs}); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(ids, got); diff != "" {
		t.Fatalf("ids as Node sees them (-want +got):\n%s", diff)
	}
}

func checkCompleted(t *testing.T, client *script, id string) {
	t.Helper()

	var value protocol.ReturnValue
	if err := client.call(&value, "wait", map[string]any{"job": id, "timeoutMs": jobLimit.Milliseconds()}); err != nil {
		t.Fatalf("waitUntilFinished: %v", err)
	}

	epoch := int64(1)
	if diff := cmp.Diff(protocol.ReturnValue{Outcome: protocol.OutcomeCompleted, Epoch: &epoch}, value); diff != "" {
		t.Errorf("return value (-want +got):\n%s", diff)
	}

	job := client.readJob(id)
	if job.State != "completed" || job.AttemptsStarted != 1 || job.FinishedOn == 0 {
		t.Errorf("state %s, starts %d, finished on %d", job.State, job.AttemptsStarted, job.FinishedOn)
	}

	checkProgress(t, job)
	checkEvents(t, client, id, "completed")

	var workers []string
	if err := client.call(&workers, "workers", nil); err != nil || len(workers) != 1 {
		t.Errorf("workers as Node sees them: %v, %v", workers, err)
	}
}

// checkProgress: the stages in the log, one line each and in order; the progress in its shape.
func checkProgress(t *testing.T, job nodeJob) {
	t.Helper()

	var progress protocol.Progress
	if err := json.Unmarshal(job.Progress, &progress); err != nil || progress.Stage == "" || progress.Done < 0 || progress.Done > 1 {
		t.Errorf("progress %s: %v", job.Progress, err)
	}

	rest := job.Logs
	for _, stage := range []string{"redeem", "download", "extract", "upload", "report"} {
		at := slices.IndexFunc(rest, func(line string) bool { return strings.Contains(line, stage) })
		if at < 0 {
			t.Errorf("no line for stage %s, in order, in the job's log %q", stage, job.Logs)

			return
		}

		rest = rest[at+1:]
	}
}

func checkEvents(t *testing.T, client *script, id, last string) {
	t.Helper()
	client.await(nodeTimeout, last+" event", func(line map[string]any) bool {
		args, ok := line["args"].(map[string]any)

		return ok && args["jobId"] == id && line["event"] == last
	})

	got := slices.Compact(client.events(id))
	if last == "failed" { // whether there was time for a progress message does not matter
		got = slices.DeleteFunc(got, func(e string) bool { return e == "progress" })
	}

	want := map[string][]string{
		"completed": {"added", "waiting", "active", "progress", "completed"},
		"failed":    {"added", "waiting", "active", "failed"},
	}[last]
	if got = slices.DeleteFunc(got, func(e string) bool { return e == "retries-exhausted" }); !slices.Equal(got, want) {
		t.Errorf("events of %s: %v, want %v", id, got, want)
	}
}

func checkFailed(t *testing.T, client *script, id string) {
	t.Helper()

	err := client.call(nil, "wait", map[string]any{"job": id, "timeoutMs": jobLimit.Milliseconds()})
	if err == nil || !strings.Contains(err.Error(), "invalid_media: ") {
		t.Errorf("waitUntilFinished of a text: %v", err)
	}

	job := client.readJob(id)
	if job.State != "failed" || !strings.HasPrefix(job.FailedReason, "invalid_media: ") || job.AttemptsStarted != 1 {
		t.Errorf("state %s, reason %q, starts %d: a text is no clip, however often it is tried", job.State, job.FailedReason, job.AttemptsStarted)
	}

	checkEvents(t, client, id, "failed")
}

// checkCallbacks: every signed message verified in Node, and one result for each analysis.
func checkCallbacks(t *testing.T, gateway *script, want map[string]string) {
	t.Helper()

	got := map[string]string{}

	for _, line := range gateway.all(func(line map[string]any) bool { return line["path"] != nil }) {
		if line["verified"] != true {
			t.Errorf("not verified by standardwebhooks: %v %v: %v", line["method"], line["path"], line["reason"])
		}

		id, ok := strings.CutPrefix(fmt.Sprint(line["path"]), "/v1/results/")
		if !ok {
			continue
		}

		body, _ := line["body"].(map[string]any)
		if _, twice := got[id]; twice {
			t.Errorf("more than one result for %s", id)
		}

		got[id] = fmt.Sprint(body["type"])

		if line["webhookId"] != "res_"+id+"_1" || line["status"] != float64(200) {
			t.Errorf("result of %s: webhook-id %v, status %v", id, line["webhookId"], line["status"])
		}
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestGoAddsNodeWorks: what our producer writes is a job like any other for Node's workers, and what they write is read by us.
func TestGoAddsNodeWorks(t *testing.T) {
	t.Parallel()

	for _, library := range []string{bullmq5, bullmq6} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()

			s := newQueueOnly(t)
			node := s.nodeWorker(library, "n1", map[string]string{"WORK_MS": "10"})

			_, err := s.queue.Add(t.Context(), "greet", map[string]string{"to": "Node"}, queue.JobOptions{JobID: "job-a", Attempts: 2})
			if err != nil {
				t.Fatal(err)
			}

			job := s.awaitJob("job-a")
			if string(job.ReturnValue) != `{"by":"n1"}` || job.FailedReason != "" || job.AttemptsStarted != 1 || job.ProcessedBy != "n1" {
				t.Errorf("return value %s, reason %q, starts %d, by %q", job.ReturnValue, job.FailedReason, job.AttemptsStarted, job.ProcessedBy)
			}

			s.awaitState("job-a", queue.StateCompleted)
			node.await(nodeTimeout, "completed", func(line map[string]any) bool { return line["event"] == "completed" })

			counts, err := s.queue.Counts(t.Context())
			if err != nil || counts.Completed != 1 || counts.Active != 0 {
				t.Errorf("counts %+v, %v", counts, err)
			}
		})
	}
}

// nodeWorker starts worker.cjs and waits until it is ready.
func (s *system) nodeWorker(library, name string, env map[string]string) *script {
	s.t.Helper()

	vars := map[string]string{
		"REDIS_URL": s.redis.URL, "PREFIX": "bull", "QUEUE": queueName, "NAME": name, "LOCK_MS": "30000", "STALLED_MS": "30000",
	}
	maps.Copy(vars, env)

	w := startScript(s.t, "worker.cjs", []string{library}, vars)
	w.await(nodeTimeout, "ready", func(line map[string]any) bool { return line["event"] == "ready" })

	return w
}

// count is how many lines there are of an event.
func (s *script) count(event string) int {
	return len(s.all(func(line map[string]any) bool { return line["event"] == event }))
}

// lockLost are the faults that tell of a lock that was another's, or nobody's, at the finish.
func (s *script) lockLost() int {
	return len(s.all(func(line map[string]any) bool {
		text := fmt.Sprint(line["message"])

		return line["event"] == "error" && (strings.Contains(text, "Missing lock") || strings.Contains(text, "Lock mismatch"))
	}))
}
