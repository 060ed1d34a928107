package worker_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/queue"
)

// TestMetricsMatchTheContract compares names and labels with section 8.
func TestMetricsMatchTheContract(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	w := b.start()
	b.plane.Add("an_secret_id", "ok")
	b.add("an_secret_id", 1)
	b.awaitState("an_secret_id", queue.StateCompleted)
	if got := w.post("an_secret_id"); got.Code != 200 {
		t.Errorf("%d", got.Code)
	}
	w.awaitIdle()
	want := map[string]string{
		"jobs_total": "outcome source", "job_duration_seconds": "outcome", "job_stage_duration_seconds": "stage", "job_queue_wait_seconds": "",
		"slots": "", "slots_in_use": "", "state": "state", "door_requests_total": "code", "claim_requests_total": "result",
		"callback_attempts_total": "result", "download_bytes_total": "", "lock_extensions_total": "result",
		"lock_remaining_seconds": "", "extractor_restarts_total": "reason", "frames_total": "", "task_protected": "",
		"last_fetch_timestamp_seconds": "", "start_to_ready_seconds": "", "build_info": "goversion model revision version",
	}
	code, text := w.admin("/metrics", "")
	if code != 200 {
		t.Fatalf("status %d", code)
	}
	got := map[string]string{}
	series := regexp.MustCompile(`^posefleet_([a-z_]+?)(_bucket|_sum|_count)?(?:\{(.*)\})? `)
	label := regexp.MustCompile(`([a-z]+)="`)
	for line := range strings.Lines(text) {
		m := series.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		var labels []string
		for _, l := range label.FindAllStringSubmatch(m[3], -1) {
			if l[1] != "le" {
				labels = append(labels, l[1])
			}
		}
		slices.Sort(labels)
		got[m[1]] = strings.Join(labels, " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(text, "an_secret_id") {
		t.Error("an id is in the metrics")
	}
	for _, le := range []string{`le="1"`, `le="3600"`} {
		if !strings.Contains(text, `posefleet_job_duration_seconds_bucket{outcome="completed",`+le) {
			t.Errorf("no job bucket %s", le)
		}
	}
	if v := w.metric("posefleet_last_fetch_timestamp_seconds"); time.Since(time.UnixMilli(int64(v*1000))) > time.Minute {
		t.Errorf("last fetch %v", v)
	}
	if _, om := w.admin("/metrics", "application/openmetrics-text;version=1.0.0"); !strings.HasSuffix(om, "# EOF\n") {
		t.Error("no OpenMetrics when it is asked for")
	}
}

func TestVersionAndHealth(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	w := b.start()
	code, text := w.admin("/version", "")
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); code != 200 || err != nil || v["extractor"] != "fake" || v["workerId"] == "" {
		t.Errorf("%d %s", code, text)
	}
	if code, _ := w.admin("/healthz", ""); code != 200 {
		t.Errorf("healthz %d", code)
	}
	wait.For(t, long, func() bool { code, _ := w.admin("/readyz", ""); return code == 200 }, "not ready")
	if code, _ := w.admin("/nothing", ""); code != 404 {
		t.Errorf("unknown path %d", code)
	}
}

// TestReadinessWithoutRedis: a worker that never reached Redis lives, and says that it can't take work.
func TestReadinessWithoutRedis(t *testing.T) {
	t.Parallel()
	b := newBench(t, true)
	b.redis.Kill()
	w := b.start()
	if code, text := w.admin("/readyz", ""); code != 503 {
		t.Errorf("readyz %d %s", code, text)
	}
	if code, _ := w.admin("/healthz", ""); code != 200 {
		t.Errorf("healthz %d", code)
	}
	b.plane.Add("an_1", "ok")
	if got := w.post("an_1"); got.Code != 202 { // the other door does not need Redis
		t.Errorf("%d %v", got.Code, got.Body)
	}
	w.awaitStatus("an_1", "delivered")
	b.redis.Restart()
	wait.For(t, long, func() bool { code, _ := w.admin("/readyz", ""); return code == 200 }, "not ready after Redis came")
	b.plane.Add("an_2", "ok")
	b.add("an_2", 1)
	b.awaitState("an_2", queue.StateCompleted)
}

// TestSeriesOfAlarms: what alarms watch is there before anything has happened, since the first event of a series that is new would go
// unnoticed. A worker without the queue's door has no fetch that could stand still.
func TestSeriesOfAlarms(t *testing.T) {
	t.Parallel()
	for _, withQueue := range []bool{true, false} {
		w := newBench(t, withQueue).start()
		_, text := w.admin("/metrics", "")
		for _, series := range []string{
			`posefleet_claim_requests_total{result="refused"} 0`, `posefleet_claim_requests_total{result="unavailable"} 0`,
			`posefleet_callback_attempts_total{result="retried"} 0`, `posefleet_callback_attempts_total{result="stored"} 0`,
			`posefleet_jobs_total{outcome="lost_lock",source="queue"} 0`, `posefleet_extractor_restarts_total{reason="crash"} 0`,
		} {
			if !strings.Contains(text, "\n"+series+"\n") {
				t.Errorf("%s is missing", series)
			}
		}
		if strings.Contains(text, "\nposefleet_last_fetch_timestamp_seconds ") != withQueue {
			t.Errorf("queue's door open: %t; the last fetch is shown: %t", withQueue, !withQueue)
		}
	}
}

// TestEvictionIsSaid: a Redis that may throw locks away is named at the start, and as soon as it is there; any other is not.
func TestEvictionIsSaid(t *testing.T) {
	t.Parallel()
	const words = `"level":"WARN","msg":"Redis may evict`
	for policy, want := range map[string]bool{"volatile-lru": true, "noeviction": false} {
		b := newBench(t, false)
		b.redis = redistest.Start(t, "--maxmemory-policy", policy)
		b.start()
		q, err := queue.NewQueue(queue.Options{RedisURL: b.redis.URL, Name: "pose"})
		if err != nil {
			t.Fatal(err)
		}
		b.queue = q
		t.Cleanup(func() { _ = q.Close() })
		b.plane.Add("an_1", "ok")
		b.add("an_1", 1)
		b.awaitState("an_1", queue.StateCompleted)
		if want {
			wait.For(t, long, func() bool { return strings.Contains(b.log.String(), words) }, "nothing is said of %s", policy)
		} else if strings.Contains(b.log.String(), words) {
			t.Errorf("%s is called a danger", policy)
		}
	}
}
