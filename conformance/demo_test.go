package conformance

import (
	"bytes"
	"context"
	"flag"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
)

// allClips runs the demo on every clip that shows a person, not only on the short ones.
var allClips = flag.Bool("all-clips", false, "run the demo on every clip that shows a person (minutes)")

// demoLimit is for the longest clip, 230 frames of 1768×994 with two people, on a busy machine.
const demoLimit = 5 * time.Minute

// TestDemoOnce: posefleet demo --once ends 0 on clips that show a person, with people found, and leaves nothing behind.
func TestDemoOnce(t *testing.T) {
	t.Parallel()
	realExtractor(t)

	tests := []struct {
		file string
		long bool
	}{
		{"videos/tfjs_synthetic_pose_1.mp4", false},
		{"videos/tfjs_squats_5fps.mp4", false},
		{"odd/mpeg4.avi", false}, // for the preview: no browser plays it
		{"videos/pose2sim_balance_cam01.mp4", true},
		{"videos/pose2sim_balance_cam02.mp4", true},
		{"videos/pose2sim_two_people_cam01.mp4", true},
		{"videos/sports2d_jump_two_people_vp9.mp4", true},
	}

	for _, test := range tests {
		if test.long && !*allClips {
			continue
		}

		t.Run(filepath.Base(test.file), func(t *testing.T) {
			t.Parallel()

			tmp := t.TempDir()
			out, code := runDemo(t, tmp, "--once", "--model", "lite", need.Media(t, test.file))

			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, out)
			}

			t.Log("\n" + out)
			checkSummary(t, out, filepath.Base(test.file))
			checkEmpty(t, tmp)

			if strings.HasSuffix(test.file, ".avi") && !strings.Contains(out, "preview") {
				t.Error("no preview for a clip that browsers can't play")
			}
		})
	}
}

// runDemo runs posefleet demo to its end and returns what it showed.
func runDemo(t *testing.T, tmp string, args ...string) (string, int) {
	t.Helper()

	return runDemoIn(t, map[string]string{"TMPDIR": tmp}, args...)
}

// runDemoIn is runDemo with other variables.
func runDemoIn(t *testing.T, env map[string]string, args ...string) (string, int) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), demoLimit)
	defer cancel()

	var out, log bytes.Buffer

	cmd := exec.CommandContext(ctx, posefleet(t), append([]string{"demo"}, args...)...)
	cmd.Env = environment(env)
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second

	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}

	if log.Len() > 0 {
		t.Logf("stderr:\n%s", log.String())
	}

	return out.String(), cmd.ProcessState.ExitCode()
}

// summaryLine is clip, state, people, at once, frames, with people.
var summaryLine = regexp.MustCompile(`(?m)^\s+(\S+)\s+delivered\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s.*sha256:[0-9a-f]{12}$`)

func checkSummary(t *testing.T, out, name string) {
	t.Helper()

	m := summaryLine.FindStringSubmatch(out)
	if m == nil || m[1] != name {
		t.Fatalf("no summary line for %s:\n%s", name, out)
	}

	if m[2] == "0" || m[5] == "0" {
		t.Errorf("nobody found in a clip that shows a person: %s", m[0])
	}
}

// checkEmpty: the demo's folder, scratch space and sockets are gone.
func checkEmpty(t *testing.T, dir string) {
	t.Helper()

	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != dir {
			t.Errorf("left behind: %s", path)
		}

		return nil
	})
}

// TestDemoKill: the control plane is killed while a worker extracts; the next process goes on with the same run, which delivers once.
func TestDemoKill(t *testing.T) {
	t.Parallel()
	realExtractor(t)

	tmp := t.TempDir()

	out, code := runDemo(t, tmp, "--once", "--kill", "--model", "full", need.Media(t, "videos/tfjs_squats_5fps.mp4"))
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}

	t.Log("\n" + out)

	killed := regexp.MustCompile(`kill -9 +control plane \(process (\d+)\).*; the run is "dispatched", the analysis "processing"`).FindStringSubmatch(out)
	again := regexp.MustCompile(`started again as process (\d+)`).FindStringSubmatch(out)

	if killed == nil || again == nil || killed[1] == again[1] {
		t.Fatalf("not killed and started again: %v, %v", killed, again)
	}

	if !strings.Contains(out, "process "+killed[1]+" is killed, process "+again[1]+" started") || !regexp.MustCompile(`s  delivered, epoch 2`).MatchString(out) {
		t.Error("the timeline does not show both processes and the delivery")
	}

	if n := len(summaryLine.FindAllString(out, -1)); n != 2 {
		t.Errorf("%d of 2 analyses delivered", n)
	}

	checkEmpty(t, tmp)
}

// TestDemoFailure: a file that is no clip ends the demo 1, with the system's own words.
func TestDemoFailure(t *testing.T) {
	t.Parallel()
	realExtractor(t)

	out, code := runDemo(t, t.TempDir(), "--once", need.Media(t, "odd/text.mp4"))
	if code != 1 || !strings.Contains(out, "invalid_media: ") {
		t.Errorf("exit code %d\n%s", code, out)
	}

	if out, code := runDemo(t, t.TempDir(), "--once", "/nowhere/clip.mp4"); code != 2 {
		t.Errorf("a missing file: exit code %d\n%s", code, out)
	}
}

// TestDemoInterrupted: Ctrl-C ends the demo in the middle of an analysis, with all of its children, and leaves nothing behind.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	realExtractor(t)

	tmp := t.TempDir()
	p := startProcess(t, "demo", map[string]string{"TMPDIR": tmp}, posefleet(t), "demo", need.Media(t, "videos/pose2sim_two_people_cam01.mp4"))
	p.awaitLog(t, startLimit, "enqueued")

	children := descendants(p.Pid())
	if len(children) < 2 {
		t.Errorf("children %v: Redis and an extractor were expected", children)
	}

	p.send(t, syscall.SIGINT)

	if code := p.awaitExit(t, startLimit); code != 1 {
		t.Errorf("exit code %d, want 1: there was no result yet", code)
	}

	for _, pid := range children {
		wait.For(t, time.Minute, func() bool { return !alive(pid) }, "process %d lives on", pid)
	}

	checkEmpty(t, tmp)
}

// TestDemoGivenRedis: with a Redis of the user's and no Node packages the demo enqueues by itself, says so, and leaves nothing in that Redis.
func TestDemoGivenRedis(t *testing.T) {
	t.Parallel()
	realExtractor(t)

	server := redistest.Start(t)
	env := map[string]string{"TMPDIR": t.TempDir(), "XDG_CACHE_HOME": t.TempDir(), "POSEFLEET_ASSETS": need.Assets(t)}

	out, code := runDemoIn(t, env, "--once", "--model", "lite", "--redis-url", server.URL, need.Media(t, "videos/decord_phone_rot90.mov"))
	if code != 0 || !strings.Contains(out, "posefleet's own producer") {
		t.Errorf("exit code %d\n%s", code, out)
	}

	if left := server.Client().Keys(t.Context(), "*").Val(); len(left) > 0 {
		t.Errorf("left in Redis: %v", left)
	}
}

// TestDemoServes: without --once the page stays up until Ctrl-C, which is no failure then.
func TestDemoServes(t *testing.T) {
	t.Parallel()
	realExtractor(t)

	tmp := t.TempDir()
	p := startProcess(t, "demo", map[string]string{"TMPDIR": tmp}, posefleet(t), "demo", "--model", "lite",
		need.Media(t, "videos/decord_phone_rot90.mov"))
	p.awaitLog(t, jobLimit, "Ctrl-C")

	page := regexp.MustCompile(`http://\S+/analyses/\S+`).FindString(p.log.String())
	if got := get(page); got != 200 {
		t.Errorf("page %q: status %d", page, got)
	}

	p.send(t, syscall.SIGINT)

	if code := p.awaitExit(t, startLimit); code != 0 {
		t.Errorf("exit code %d", code)
	}

	checkEmpty(t, tmp)
}
