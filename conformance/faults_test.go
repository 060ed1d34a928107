package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// TestWrongVariable: a value that can't be right stops the worker at once, with exit code 2 and one line that names it.
func TestWrongVariable(t *testing.T) {
	t.Parallel()

	right := map[string]string{
		"POSEFLEET_CONTROL_URL": "http://127.0.0.1:1", "POSEFLEET_ALLOW_INSECURE": "true", "POSEFLEET_STORAGE_HOSTS": "127.0.0.1",
		"POSEFLEET_WORKER_SECRET": webhook.Generate(), "POSEFLEET_DOOR_SECRET": webhook.Generate(),
		"POSEFLEET_EXTRACTOR": stopwatch{}.command(), "POSEFLEET_LISTEN": "127.0.0.1:0", "POSEFLEET_ADMIN_LISTEN": "127.0.0.1:0",
	}
	tests := []struct{ name, variable, value string }{
		{"renewal not shorter than the lock", "POSEFLEET_LOCK_RENEW_TIME", "40s"},
		{"drain longer than a job", "POSEFLEET_DRAIN_TIMEOUT", "31m"},
		{"secret too short", "POSEFLEET_WORKER_SECRET", "whsec_c2hvcnQ="},
		{"secret not base64", "POSEFLEET_DOOR_SECRET", "whsec_not base64"},
		{"no control plane", "POSEFLEET_CONTROL_URL", ""},
		{"no truth", "POSEFLEET_ALLOW_INSECURE", "perhaps"},
		{"no log format", "POSEFLEET_LOG_FORMAT", "xml"},
		{"no duration", "POSEFLEET_LOCK_DURATION", "30"},
		{"no size", "POSEFLEET_MAX_INPUT_BYTES", "2 apples"},
		{"no slots", "POSEFLEET_SLOTS", "0"},
		{"no program", "POSEFLEET_EXTRACTOR", "/nowhere/posefleet-extract serve"},
		{"protection required without ECS", "POSEFLEET_TASK_PROTECTION", "required"},
		{"work directory that is none", "POSEFLEET_WORK_DIR", "/proc/self"},
		{"traces to nowhere", "OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			vars := maps.Clone(right)
			vars[test.variable] = test.value

			var complaint strings.Builder

			ctx, cancel := context.WithTimeout(t.Context(), startLimit)
			defer cancel()

			cmd := exec.CommandContext(ctx, posefleet(t), "worker")
			cmd.Env, cmd.Stderr = environment(vars), &complaint
			err := cmd.Run()

			if code := cmd.ProcessState.ExitCode(); code != 2 {
				t.Errorf("exit code %d (%v), want 2", code, err)
			}

			lines := strings.Split(strings.TrimSpace(complaint.String()), "\n")
			if len(lines) != 1 || !strings.Contains(lines[0], test.variable) {
				t.Errorf("stderr is not one line that names %s:\n%s", test.variable, complaint.String())
			}

			if strings.Contains(complaint.String(), "whsec_c2hvcnQ=") || strings.Contains(complaint.String(), "not base64\"") {
				t.Errorf("the secret is shown:\n%s", complaint.String())
			}
		})
	}
}

// TestFaults: what goes wrong around a worker gets the code of the contract and leaves slots, Redis and disk as they were; in the end the
// same worker still does its job.
func TestFaults(t *testing.T) {
	t.Parallel()
	realExtractor(t)

	s := newSystem(t, posefleet(t))
	w := s.startWorker("worker", nil)

	t.Run("bad signature at the door", func(t *testing.T) { s.faultBadSignature(t, w) })
	t.Run("unknown id", func(t *testing.T) { s.faultUnknown(t, w) })
	t.Run("media", func(t *testing.T) { s.faultMedia(t, w) })
	t.Run("changed in storage", func(t *testing.T) { s.faultChanged(t, w) })
	t.Run("dead control plane", func(t *testing.T) { s.faultControlDead(t, w) })
	t.Run("bad signature at the control plane", func(t *testing.T) { s.faultBadWorkerSecret(t) })
	t.Run("still able", func(t *testing.T) {
		s.prepare("an_probe", clip{"probe.mp4", need.Media(t, "videos/decord_phone_rot90.mov")}, &protocol.Params{Model: "lite"})
		s.add("an_probe", 1)

		if job := s.awaitJob("an_probe"); job.FailedReason != "" {
			t.Errorf("a good clip fails: %s", job.FailedReason)
		}

		s.checkQuiet(w)
	})
}

func (s *system) faultBadSignature(t *testing.T, w *worker) {
	t.Helper()
	s.prepare("an_signed", s.textClip(), nil)

	stranger := newKnock(t, w.door, webhook.Generate())
	mixed := newKnock(t, w.door, s.workerSecret) // the secret of the other direction is no key to this door

	for name, k := range map[string]*knock{"stranger": stranger, "other direction": mixed} {
		a, err := k.start(t.Context(), "an_signed")
		if err != nil {
			t.Fatal(err)
		}

		if a.status != http.StatusUnauthorized || a.problem.Code != protocol.CodeUnauthorized {
			t.Errorf("%s: status %d, code %q", name, a.status, a.problem.Code)
		}

		if a.header.Get("Content-Type") != protocol.ProblemContentType || a.header.Get("X-Worker-Id") == "" {
			t.Errorf("%s: headers %v", name, a.header)
		}
	}

	if seen := s.front.seen("redeem", "an_signed"); len(seen) > 0 {
		t.Error("the claim was redeemed for a stranger")
	}

	s.checkQuiet(w)
}

func (s *system) faultUnknown(t *testing.T, w *worker) {
	t.Helper()

	a, err := s.door(w).start(t.Context(), "an_unknown_door")
	if err != nil {
		t.Fatal(err)
	}

	if a.status != http.StatusNotFound || a.problem.Code != protocol.CodeUnknownAnalysis {
		t.Errorf("door: status %d, code %q", a.status, a.problem.Code)
	}

	s.add("an_unknown", 3)
	s.checkFailedFor(t, s.awaitJob("an_unknown"), protocol.CodeUnknownAnalysis, 1)
	s.checkQuiet(w)
}

func (s *system) faultMedia(t *testing.T, w *worker) {
	t.Helper()

	tests := []struct {
		id, file string
		code     protocol.Code
	}{
		{"an_text", "odd/text.mp4", protocol.CodeInvalidMedia},
		{"an_cut_off", "odd/trunc_no_moov.mp4", protocol.CodeInvalidMedia},
		{"an_head", "odd/trunc_100_bytes.mp4", protocol.CodeInvalidMedia},
		{"an_sound", "odd/audio_only.mp4", protocol.CodeNoVideoStream},
		{"an_empty", "odd/zero.mp4", protocol.CodeEmptyFile},
	}
	for _, test := range tests {
		s.prepare(test.id, clip{filepath.Base(test.file), need.Media(t, test.file)}, nil)
		s.add(test.id, 3)
	}

	for _, test := range tests {
		s.checkFailedFor(t, s.awaitJob(test.id), test.code, 1)

		results := s.front.seen("result", test.id)
		if len(results) != 1 || results[0].resultType() != protocol.ResultFailed {
			t.Errorf("%s: %d results, want one pose.failed", test.id, len(results))
		}

		if got := s.status(test.id); got != "failed" {
			t.Errorf("%s is %s at the control plane", test.id, got)
		}
	}

	s.checkQuiet(w)
}

// faultChanged: what lies in storage is not what was submitted: a zero in the place of each byte of the second half, as after a transfer
// that was cut off into a file made in advance.
func (s *system) faultChanged(t *testing.T, w *worker) {
	t.Helper()
	s.prepare("an_changed", clip{"person.mp4", need.Media(t, "videos/tfjs_synthetic_pose_1.mp4")}, nil)
	blankHalf(t, filepath.Join(s.dir, "storage"), "an_changed")
	s.add("an_changed", 3)
	s.checkFailedFor(t, s.awaitJob("an_changed"), protocol.CodeInputMismatch, 1)
	s.checkQuiet(w)
}

// blankHalf blanks the second half of the stored clip of an analysis.
func blankHalf(t *testing.T, dir, id string) {
	t.Helper()

	files := slices.DeleteFunc(leftovers(dir), func(path string) bool { return !strings.Contains(path, id+"/") })
	if len(files) == 0 {
		t.Fatalf("nothing stored for %s", id)
	}

	largest := slices.MaxFunc(files, func(a, b string) int { return int(size(a) - size(b)) })
	whole := size(largest)

	if err := errors.Join(os.Truncate(largest, whole/2), os.Truncate(largest, whole)); err != nil {
		t.Fatal(err)
	}
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}

	return info.Size()
}

func (s *system) faultControlDead(t *testing.T, w *worker) {
	t.Helper()
	s.prepare("an_dead", clip{"phone.mov", need.Media(t, "videos/decord_phone_rot90.mov")}, &protocol.Params{Model: "lite"})
	s.control.Kill()

	a, err := s.door(w).start(t.Context(), "an_dead")
	if err != nil {
		t.Fatal(err)
	}

	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("door: status %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
	}

	s.add("an_dead", 1)
	s.checkFailedFor(t, s.awaitJob("an_dead"), protocol.CodeControlUnreachable, 1)
	s.checkQuiet(w)
	s.startControl(posefleet(t))
}

// faultBadWorkerSecret: a worker whose secret the control plane does not know gets nothing, and says so.
func (s *system) faultBadWorkerSecret(t *testing.T) {
	t.Helper()

	const other = "pose-other"

	q, err := queue.NewQueue(queue.Options{RedisURL: s.redis.URL, Name: other})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	w := s.startWorker("stranger", extra{"POSEFLEET_WORKER_SECRET": webhook.Generate(), "POSEFLEET_QUEUE": other})

	s.prepare("an_refused", s.textClip(), nil)

	if _, err := q.Add(t.Context(), protocol.JobName, protocol.NewJobData("an_refused"), queue.JobOptions{JobID: "an_refused"}); err != nil {
		t.Fatal(err)
	}

	mine := *s
	mine.queue = q
	s.checkFailedFor(t, mine.awaitJob("an_refused"), protocol.CodeClaimRefused, 1)
	s.checkQuiet(w)

	if err := w.Stop(os.Interrupt, startLimit); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// checkFailedFor checks that the job failed for good with this code, after so many starts.
func (s *system) checkFailedFor(t *testing.T, job *queue.Job, code protocol.Code, starts int) {
	t.Helper()

	if prefix := fmt.Sprintf("%s: ", code); !strings.HasPrefix(job.FailedReason, prefix) || job.AttemptsStarted != starts {
		t.Errorf("job %s: reason %q after %d starts, want %s… after %d", job.ID, job.FailedReason, job.AttemptsStarted, prefix, starts)
	}
}
