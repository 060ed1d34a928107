package demo

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// TestTerminal: one line per fact; bars only on a terminal, replaced by the line that follows and never left behind.
func TestTerminal(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name string
		bars bool
		want string
	}{
		{"file", false, "  redis      up\n  extract    done\n"},
		{"terminal", true, "  redis      up\n" +
			"\r\x1b[K  extract    " + strings.Repeat("█", 15) + strings.Repeat("░", 15) + "  50 %" +
			"\r\x1b[K  extract    " + strings.Repeat("█", 30) + " 100 %" +
			"\r\x1b[K  extract    done\n"},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			var out strings.Builder

			term := &terminal{w: &out, bars: test.bars}
			term.line("redis", "up")
			term.bar("extract", 0.5)
			term.bar("extract", 0.5) // the same again is not drawn again
			term.bar("extract", 7)
			term.line("extract", "done")
			term.clear()

			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("terminal (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStackStops: parts end in the reverse order, all of them, also after a fault of one; the end of a process that is expected is none.
func TestStackStops(t *testing.T) {
	t.Parallel()

	var order []string

	s := newStack()
	broken := errors.New("broken")
	proc := sleeper(t)
	expect := s.watch("control plane", proc)

	s.onStop(func() error { order = append(order, "folder"); return nil })
	s.onStop(func() error { order = append(order, "redis"); return broken })
	s.onStop(func() error {
		expect()
		proc.Kill()

		order = append(order, "control plane")

		return nil
	})

	if err := s.stop(); !errors.Is(err, broken) {
		t.Errorf("stop: %v", err)
	}

	if diff := cmp.Diff([]string{"control plane", "redis", "folder"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}

	if err := s.err(); err != nil {
		t.Errorf("a part that was stopped counts as a fault: %v", err)
	}
}

func sleeper(t *testing.T) *child.Process {
	t.Helper()

	proc, err := child.Start(exec.CommandContext(t.Context(), "sleep", "600"))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(proc.Kill)

	return proc
}

// TestStackTellsWhoDied: a part that ends by itself is a fault that names it.
func TestStackTellsWhoDied(t *testing.T) {
	t.Parallel()

	s := newStack()
	proc := sleeper(t)
	s.watch("control plane", proc)
	proc.Kill()

	select {
	case <-s.died:
	case <-time.After(time.Minute):
		t.Fatal("nobody is told")
	}

	if err := s.err(); err == nil || !strings.Contains(err.Error(), "control plane ended by itself: signal: killed") {
		t.Errorf("fault: %v", err)
	}
}

// TestPlayable: which clips are shown as they are.
func TestPlayable(t *testing.T) {
	t.Parallel()

	tests := []struct {
		name string
		info *media.Info
		want bool
	}{
		{"phone", &media.Info{Container: "mov", Codec: "h264"}, true},
		{"web", &media.Info{Container: "webm", Codec: "vp9"}, true},
		{"old", &media.Info{Container: "avi", Codec: "msmpeg4v3"}, false},
		{"iPhone HEVC", &media.Info{Container: "mov", Codec: "hevc"}, false},
		{"front camera, mirrored", &media.Info{Container: "mov", Codec: "h264", Mirrored: true}, false},
		{"no clip", nil, false},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			if got := (&clip{info: test.info}).playable(); got != test.want {
				t.Errorf("playable %t, want %t", got, test.want)
			}
		})
	}
}

// TestPreviewKeepsTimes: a rendition shows each frame at its own time, upright and with square pixels, whatever the clip is like.
func TestPreviewKeepsTimes(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")

	for _, name := range []string{"odd/vfr_dropped.mp4", "odd/anamorphic_sar.mp4", "odd/mirror_flag.mp4", "odd/rot90.mp4", "odd/mpeg4.avi"} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()

			path := need.Media(t, name)

			preview, err := renderPreview(t.Context(), path, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}

			want, got := times(t, path), times(t, preview)
			if len(got) != len(want) {
				t.Fatalf("%d frames, want %d", len(got), len(want))
			}

			for i := range want {
				if d := got[i] - want[i]; d > 1 || d < -1 {
					t.Fatalf("frame %d at %.2f ms, want %.2f", i, got[i], want[i])
				}
			}

			whole, err := media.Probe(t.Context(), path, media.Config{})
			if err != nil {
				t.Fatal(err)
			}

			part, err := media.Probe(t.Context(), preview, media.Config{})
			if err != nil {
				t.Fatal(err)
			}

			if part.Codec != "h264" || part.Width != whole.Width || part.Height != whole.Height || part.Rotation != 0 || part.PixelAspect != 1 {
				t.Errorf("preview %s %d×%d turned %d aspect %v, the clip is %d×%d", part.Codec, part.Width, part.Height, part.Rotation,
					part.PixelAspect, whole.Width, whole.Height)
			}
		})
	}
}

// times are the times of the frames in ms from the first.
func times(t *testing.T, path string) []float64 {
	t.Helper()

	info, err := media.Probe(t.Context(), path, media.Config{})
	if err != nil {
		t.Fatal(err)
	}

	reader, err := media.Open(t.Context(), info, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()

	var all []float64

	for frame := make([]byte, reader.FrameBytes()); ; {
		stamp, err := reader.Read(frame)
		if errors.Is(err, io.EOF) {
			return all
		}

		if err != nil {
			t.Fatal(err)
		}

		all = append(all, stamp.T)
	}
}

// TestCut: the excerpt begins with a key frame and holds exactly the frames of its length.
func TestCut(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")

	path, err := cut(t.Context(), need.Media(t, "odd/mjpeg.avi"), t.TempDir(), time.Second, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}

	if got := len(times(t, path)); got != 60 {
		t.Errorf("%d frames of 2 s at 30 fps", got)
	}
}

// TestOwnProducer: without Node the demo enqueues by itself, the same job under the same id.
func TestOwnProducer(t *testing.T) {
	t.Parallel()

	server := redistest.Start(t)
	o := queue.Options{RedisURL: server.URL, Prefix: "bull", Name: "demo"}

	q, err := queue.NewQueue(o)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()

	if err := enqueueOurselves(t.Context(), q, "demo_1"); err != nil {
		t.Fatal(err)
	}

	job, err := q.Job(t.Context(), "demo_1")
	if err != nil {
		t.Fatal(err)
	}

	data, err := protocol.ParseJobData(job.Data)
	if err != nil || job.Name != protocol.JobName || data.AnalysisID != "demo_1" {
		t.Errorf("job %s %s: %v", job.Name, job.Data, err)
	}

	// A Redis that is not the demo's gets back what was its, and keeps the rest.
	other := queue.Options{RedisURL: server.URL, Prefix: "bull", Name: "demo-of-another"}

	keep, err := queue.NewQueue(other)
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()

	if err := enqueueOurselves(t.Context(), keep, "theirs"); err != nil {
		t.Fatal(err)
	}

	if err := clearQueue(o); err != nil {
		t.Fatal(err)
	}

	client := server.Client()
	if left := client.Keys(t.Context(), "bull:demo:*").Val(); len(left) > 0 {
		t.Errorf("left in Redis: %v", left)
	}

	if _, err := keep.Job(t.Context(), "theirs"); err != nil {
		t.Errorf("another queue was cleared as well: %v", err)
	}
}

// TestRedisChild: a server of the demo's own, on loopback, gone after stop.
func TestRedisChild(t *testing.T) {
	t.Parallel()
	need.Program(t, "redis-server")

	server, err := startRedis(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	pid := server.proc.Pid()

	if err := server.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}

	wait.For(t, time.Minute, func() bool {
		_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))

		return err != nil
	}, "redis-server %d lives on", pid)
}
