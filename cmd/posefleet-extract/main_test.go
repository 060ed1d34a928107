package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/pose"
)

// envMain makes the test program be the program itself.
const envMain = "POSEFLEET_TEST_BE_EXTRACT"

func TestMain(m *testing.M) {
	if os.Getenv(envMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is a command of the program, not yet started.
func program(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), envMain+"=1")
	cmd.Dir = dir
	return cmd
}

// result is what a run of the program left.
type result struct {
	code           int
	stdout, stderr string
}

func execute(t *testing.T, dir string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := program(t.Context(), dir, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// testClip writes a clip of ten frames with nobody in it.
func testClip(t *testing.T, path, seconds string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), "-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i",
		"testsrc=size=160x120:rate=25", "-t", seconds, "-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "ultrafast", "-f", "mp4", "file:"+path).CombinedOutput()
	if err != nil {
		t.Fatalf("make clip: %v: %s", err, out)
	}
	return path
}

func TestWrongUsageEndsWithTwoAndOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{
		{},
		{"--nope"},
		{"a.mp4", "b.mp4"},
		{"a.mp4", "--format", "xml"},
		{"a.mp4", "--model", "huge"},
		{"a.mp4", "--athlete", "here"},
		{"a.mp4", "--athlete", "1,2"},
		{"a.mp4", "--athlete", "1,2,3,4"},
		{"a.mp4", "--athlete", "1,2,3px"},
		{"a.mp4", "--athlete", "1,NaN,3"},
		{"a.mp4", "--athlete", "1,2,+Inf"},
		{"a.mp4", "--capture-fps", "NaN"},
		{"a.mp4", "--capture-fps", "1e300"},
		{"a.mp4", "--max-people", "99"},
		{"a.mp4", "--format", "openpose", "-o", "-"},
		{"serve", "x"},
		{"models", "dance"},
		{"a.mp4", "--threads", "-1"},
	} {
		r := execute(t, dir, args...)
		if r.code != exitUsage || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "posefleet-extract: ") || r.stdout != "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

func TestWrongVariableIsNamed(t *testing.T) {
	t.Parallel()
	cmd := program(t.Context(), t.TempDir(), "a.mp4")
	cmd.Env = append(cmd.Env, "POSEFLEET_MAX_SIDE=big")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), "POSEFLEET_MAX_SIDE") {
		t.Errorf("%s, error %v", out, err)
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--help"}, "--overlay"},
		{[]string{"serve", "--help"}, "stdin"},
		{[]string{"models", "--help"}, "check"},
		{[]string{"--version"}, "posefleet-extract "},
		{[]string{"version"}, "posefleet-extract "},
	}
	for _, tt := range tests {
		if r := execute(t, t.TempDir(), tt.args...); r.code != exitDone || !strings.Contains(r.stdout, tt.want) || r.stderr != "" {
			t.Errorf("%q: %+v", tt.args, r)
		}
	}
}

func TestFaultIsOneLineAndNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"empty.mp4": "", "text.mp4": strings.Repeat("text\n", 300)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for clip, code := range map[string]string{"empty.mp4": "empty_file", "text.mp4": "invalid_media", "absent.mp4": "input_missing"} {
		for _, format := range []string{"json", "openpose", "csv"} {
			r := execute(t, dir, clip, "-o", "out", "--format", format, "--overlay", "o.mp4")
			if r.code != exitFailed || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "posefleet-extract: "+code+": ") {
				t.Errorf("%s as %s: %+v", clip, format, r)
			}
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v in the folder, want the two clips", left)
	}
}

func TestDocumentGoesWhereItIsWanted(t *testing.T) {
	t.Parallel()
	need.Assets(t)
	dir := t.TempDir()
	testClip(t, filepath.Join(dir, "-my clip.mp4"), "0.4")
	piped := execute(t, dir, "-my clip.mp4", "--model", "lite")
	d, err := pose.Decode(strings.NewReader(piped.stdout))
	if err != nil || piped.code != exitDone || len(d.Clips[0].Frames) != 10 || d.AnalysisID != nil || d.Clips[0].ID != "c1" {
		t.Fatalf("%+v, error %v", piped, err)
	}
	if !strings.Contains(piped.stderr, "10 frames of 160×120") || !strings.Contains(piped.stderr, "nobody found") || strings.Count(piped.stderr, "\n") != 1 {
		t.Errorf("summary %q", piped.stderr)
	}
	execute(t, dir, "-my clip.mp4", "--model", "lite", "-o", "out.json", "-q")
	if data, err := os.ReadFile(filepath.Join(dir, "out.json")); err != nil || string(data) != piped.stdout {
		t.Errorf("the file differs from stdout (error %v)", err)
	}
	r := execute(t, dir, "-my clip.mp4", "--model", "lite", "--picture", "sheet.png")
	if _, err := os.Stat(filepath.Join(dir, "sheet.png")); err != nil || r.stdout != "" {
		t.Errorf("%+v, error %v", r, err)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	need.Assets(t)
	dir := t.TempDir()
	testClip(t, filepath.Join(dir, "clip.mp4"), "0.4")
	for format, start := range map[string]string{"csv": "frame,time_s,", "coco": "[\n]\n", "trc": "PathFileType\t4\t(X/Y/Z)\tclip.trc\n"} {
		if r := execute(t, dir, "clip.mp4", "--model", "lite", "--format", format); r.code != exitDone || !strings.HasPrefix(r.stdout, start) {
			t.Errorf("%s: %+v", format, r)
		}
	}
	if r := execute(t, dir, "clip.mp4", "--model", "lite", "--format", "openpose"); r.code != exitDone || r.stdout != "" {
		t.Errorf("openpose: %+v", r)
	}
	for i := range 10 {
		if _, err := os.Stat(filepath.Join(dir, "clip_openpose", fmt.Sprintf("clip_%012d_keypoints.json", i))); err != nil {
			t.Error(err)
		}
	}
	execute(t, dir, "clip.mp4", "--model", "lite", "-o", "out.json.gz")
	if data, err := os.ReadFile(filepath.Join(dir, "out.json.gz")); err != nil || !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		t.Errorf("no gzip file: %.10q, error %v", data, err)
	}
}

// served is a running serve command.
type served struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startServe(t *testing.T, env ...string) *served {
	t.Helper()
	need.Assets(t)
	cmd := program(context.WithoutCancel(t.Context()), t.TempDir(), "serve", "--model", "lite")
	cmd.Env = append(cmd.Env, env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s := &served{cmd, in, json.NewDecoder(out)}
	if m := s.next(t); m["type"] != "hello" {
		t.Fatalf("hello %v", m)
	}
	return s
}

func (s *served) next(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := s.out.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *served) job(t *testing.T, clip string) {
	t.Helper()
	if _, err := fmt.Fprintf(s.in, `{"type":"job","job":"an_1","clips":[{"id":"c1","path":%q}],"outDir":%q,"params":{}}`+"\n", clip, t.TempDir()); err != nil {
		t.Fatal(err)
	}
}

func TestServeAnswersAndEndsWithStdin(t *testing.T) {
	t.Parallel()
	s := startServe(t)
	clip := testClip(t, filepath.Join(t.TempDir(), "clip.mp4"), "0.4")
	for range 2 {
		s.job(t, clip)
		m := s.next(t)
		for m["type"] == "progress" {
			m = s.next(t)
		}
		if m["type"] != "result" || m["artifact"] != "pose.json.gz" {
			t.Fatalf("%v", m)
		}
	}
	s.in.Close()
	var rest map[string]any
	if err := s.out.Decode(&rest); !errors.Is(err, io.EOF) {
		t.Errorf("%v, error %v after the end of stdin", rest, err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestServeTakesItsDecoderAlong(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := startServe(t)
			clip := testClip(t, filepath.Join(t.TempDir(), "clip.mp4"), "200")
			s.job(t, clip)
			s.next(t) // progress: the decoder runs
			if !running(t, clip) {
				t.Fatal("no decoder runs")
			}
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			err := s.cmd.Wait()
			if (err == nil) != (sig == syscall.SIGTERM) {
				t.Errorf("ended with %v", err)
			}
			wait.For(t, time.Minute, func() bool { return !running(t, clip) }, "the decoder is still there")
		})
	}
}

// running reports whether a process has the path on its command line.
func running(t *testing.T, path string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if data, err := os.ReadFile(l); err == nil && strings.Contains(string(data), path) {
			return true
		}
	}
	return false
}

func TestStoppedRunLeavesNoFile(t *testing.T) {
	t.Parallel()
	need.Assets(t)
	// Where hangups are ignored, as under nohup, the program ignores them too. It is not to inherit that here.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(heard) })
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir, scratch := t.TempDir(), t.TempDir()
			clip := testClip(t, filepath.Join(dir, "clip.mp4"), "200")
			cmd := program(t.Context(), dir, clip, "--model", "lite", "-o", "out.json")
			cmd.Env = append(cmd.Env, "TMPDIR="+scratch)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			wait.For(t, time.Minute, func() bool { return len(entries(t, scratch)) > 0 }, "the work has not begun")
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed || !strings.HasPrefix(errs.String(), "posefleet-extract: interrupted: ") {
				t.Errorf("ended with %v, stderr %q", err, errs.String())
			}
			if left := append(entries(t, dir), entries(t, scratch)...); len(left) != 1 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
