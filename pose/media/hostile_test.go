package media_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/pose/media"
)

// listen counts connections to a loopback port.
func listen(t *testing.T) (addr string, count *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	count = &atomic.Int32{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String(), count
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFilesThatReferToOthersOpenNothing(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffprobe")
	addr, connections := listen(t)
	other := filepath.Join(t.TempDir(), "other.mp4")
	makeClip(t, other, "-t", "0.2")
	tests := map[string]string{
		"HLS playlist":    "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://" + addr + "/secret.ts\n#EXT-X-ENDLIST\n",
		"HLS of a file":   "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile://" + other + "\n#EXT-X-ENDLIST\n",
		"concat script":   "ffconcat version 1.0\nfile '" + other + "'\n",
		"concat of a URL": "ffconcat version 1.0\nfile 'http://" + addr + "/x.mp4'\n",
		"DASH manifest": `<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" profiles="urn:mpeg:dash:profile:isoff-main:2011">` +
			`<BaseURL>http://` + addr + `/</BaseURL><Period><AdaptationSet mimeType="video/mp4"><Representation id="1"><BaseURL>v.mp4</BaseURL></Representation></AdaptationSet></Period></MPD>`,
		"SDP":      "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 5004 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n",
		"SVG":      `<svg xmlns="http://www.w3.org/2000/svg"><image href="http://` + addr + `/x.png"/></svg>`,
		"subtitle": "1\n00:00:00,000 --> 00:00:01,000\nhello\n",
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := media.Probe(t.Context(), write(t, "clip.mp4", content), media.Config{})
			f, ok := errors.AsType[*media.Fault](err)
			if !ok || f.Code != media.CodeInvalidMedia && f.Code != media.CodeImageNotVideo && f.Code != media.CodeNoVideoStream {
				t.Errorf("error %v, want a refusal", err)
			}
		})
	}
	t.Cleanup(func() {
		if n := connections.Load(); n != 0 {
			t.Errorf("%d connections were opened", n)
		}
	})
}

func TestNamesAreNeverReadAsAnythingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
			t.Error("a name was run")
		}
	})
	for _, name := range []string{"-i.mp4", "a b 'c' \"d\".mp4", "$(touch made).mp4", "http:x.mp4", "x%03d.mp4", "concat:a|b", "ü🏏\n.mp4", "clip.m3u8"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, name)
			makeClip(t, path, "-t", "0.2")
			if got, err := readAll(t, path, nil); err != nil || got.FramesDecoded != 5 {
				t.Errorf("%v frames, error %v", got, err)
			}
		})
	}
}

func TestThingsThatAreNoFilesAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		want       media.Code
	}{
		{"nothing", filepath.Join(dir, "absent"), media.CodeInputMissing},
		{"a folder", dir, media.CodeInvalidMedia},
		{"a pipe", fifo, media.CodeInvalidMedia},
		{"a device", "/dev/zero", media.CodeInvalidMedia},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := media.Probe(t.Context(), tt.path, media.Config{})
			f, ok := errors.AsType[*media.Fault](err)
			if !ok || f.Code != tt.want || strings.Contains(f.Message, dir) {
				t.Errorf("error %v, want %s without the path", err, tt.want)
			}
		})
	}
}

func TestLimitsHoldBeforeAndWhileDecoding(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	makeClip(t, path, "-t", "2")
	tests := []struct {
		name   string
		limits media.Limits
		want   media.Code
	}{
		{"side", media.Limits{MaxSide: 319, MaxPixels: 1 << 30, MaxDuration: time.Hour}, media.CodeTooLarge},
		{"area", media.Limits{MaxSide: 8192, MaxPixels: 320*240 - 1, MaxDuration: time.Hour}, media.CodeTooLarge},
		{"length", media.Limits{MaxSide: 8192, MaxPixels: 1 << 30, MaxDuration: time.Second}, media.CodeTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := media.Probe(t.Context(), path, media.Config{Limits: tt.limits})
			if f, ok := errors.AsType[*media.Fault](err); !ok || f.Code != tt.want {
				t.Errorf("probe: error %v, want %s", err, tt.want)
			}
			info, err := media.Probe(t.Context(), path, media.Config{})
			if err != nil {
				t.Fatal(err)
			}
			// The container lied: what it declared was within the limits.
			if err := drain(t.Context(), t, info, media.Config{Limits: tt.limits}); err != nil {
				if f, ok := errors.AsType[*media.Fault](err); !ok || f.Code != tt.want {
					t.Errorf("decode: error %v, want %s", err, tt.want)
				}
				return
			}
			t.Error("decode: no error")
		})
	}
}

// drain reads a clip to its end.
func drain(ctx context.Context, t *testing.T, info *media.Info, c media.Config) error {
	t.Helper()
	r, err := media.Open(ctx, info, c)
	if err != nil {
		return err
	}
	defer r.Close()
	buf := make([]byte, r.FrameBytes())
	for {
		if _, err := r.Read(buf); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestDecoderDiesWithItsContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	makeClip(t, path, "-t", "20")
	info, err := media.Probe(t.Context(), path, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	r, err := media.Open(ctx, info, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, r.FrameBytes())
	if _, err := r.Read(buf); err != nil {
		t.Fatal(err)
	}
	if len(decoders(t, path)) == 0 {
		t.Fatal("no decoder runs")
	}
	cancel(stopped)
	for err == nil {
		_, err = r.Read(buf)
	}
	if !errors.Is(err, stopped) {
		t.Errorf("error %v, want the cause", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	wait.For(t, time.Minute, func() bool { return len(decoders(t, path)) == 0 }, "decoder still there")
}

func TestClosedReaderLeavesNoDecoder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	makeClip(t, path, "-t", "20")
	info, err := media.Probe(t.Context(), path, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, err := media.Open(t.Context(), info, media.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	}
	if left := decoders(t, path); len(left) != 0 {
		t.Errorf("decoders %v are left", left)
	}
}

// decoders are the processes that have the path on their command line.
func decoders(t *testing.T, path string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, l := range lines {
		if data, err := os.ReadFile(l); err == nil && strings.Contains(string(data), path) {
			found = append(found, l)
		}
	}
	return found
}

func TestTalkativeDecoderBlocksNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	makeClip(t, path, "-t", "4", "-g", "10")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(data) / 3; i < len(data); i += 97 {
		data[i] ^= 0x55
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(t, path, nil)
	if err == nil && got.DecodeErrors == 0 {
		t.Errorf("damage was not noticed: %+v", got.Media)
	}
	if f, ok := errors.AsType[*media.Fault](err); err != nil && (!ok || f.Code != media.CodeInvalidMedia) {
		t.Errorf("error %v", err)
	}
}

// stub writes a program that stands in for ffmpeg.
func stub(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ffmpeg")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDecoderThatMisbehavesIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	makeClip(t, path, "-t", "0.2")
	info, err := media.Probe(t.Context(), path, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, script string
		fault        media.Code // "" = no fault of the clip
	}{
		{"dies at once", "exit 1", media.CodeInvalidMedia},
		{"is killed", "kill -9 $$", ""},
		{"has no decoder", "echo '[error] Decoding requested, but no decoder found for: foo' >&2; exit 1", media.CodeUnsupportedCodec},
		{"says nothing about its frames", fmt.Sprintf("head -c %d /dev/zero", 320*240*3), ""},
		{"prints lines without end", "head -c 3000000 /dev/zero >&2; exit 1", media.CodeInvalidMedia},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := drain(t.Context(), t, info, media.Config{FFmpeg: stub(t, tt.script)})
			f, ok := errors.AsType[*media.Fault](err)
			if err == nil || ok != (tt.fault != "") || ok && f.Code != tt.fault {
				t.Errorf("error %v, want fault %q", err, tt.fault)
			}
		})
	}
}

// A decoder that somebody stops in the middle of a clip leaves no result that lacks the rest, but an error that is no word about the file. One
// that crashes does so at the same place each time: what it gave until then is all that there is.
func TestDecoderThatIsStoppedIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	makeClip(t, path, "-t", "0.2")
	ffmpeg := need.Program(t, "ffmpeg")
	info, err := media.Probe(t.Context(), path, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, end string
		stopped   bool
	}{
		{"killed", "kill -KILL $$", true},
		{"told to stop", "kill -TERM $$", true},
		{"told to stop, and ends in order", "exit 255", true},
		{"crashes", "kill -SEGV $$", false},
		{"fails", "exit 1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := drain(t.Context(), t, info, media.Config{FFmpeg: stub(t, "'"+ffmpeg+"' \"$@\"\n"+tt.end)})
			if _, ok := errors.AsType[*media.Fault](err); ok || (err != nil) != tt.stopped {
				t.Errorf("error %v", err)
			}
		})
	}
}

// An encoder that can't write its file to the end ends as if nothing were amiss; the file is none, and is said to be none.
func TestEncoderWithoutSpaceIsAnError(t *testing.T) {
	t.Parallel()
	ffmpeg := need.Program(t, "ffmpeg")
	tests := []struct {
		name, script string
		full, ok     bool
	}{
		{"enough", "exec '" + ffmpeg + "' \"$@\"", false, true},
		{"the file may not grow", "trap '' XFSZ; ulimit -f 4; exec '" + ffmpeg + "' \"$@\"", false, false},
		{"the disk is full", "cat > /dev/null; echo 'Error writing trailer of file:x: No space left on device' >&2", true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := encodeNoise(t, media.Config{FFmpeg: stub(t, tt.script)})
			if (err == nil) != tt.ok || errors.Is(err, syscall.ENOSPC) != tt.full {
				t.Errorf("error %v", err)
			}
		})
	}
}

// encodeNoise makes a clip that can't be small.
func encodeNoise(t *testing.T, c media.Config) error {
	t.Helper()
	w, err := media.Create(t.Context(), filepath.Join(t.TempDir(), "out.mp4"), 160, 120, c)
	if err != nil {
		t.Fatal(err)
	}
	source := rand.NewChaCha8([32]byte{})
	picture := make([]byte, 160*120*3)
	for i := range 10 {
		_, _ = source.Read(picture) // it has no faults
		if err := w.Write(float64(40*i), picture); err != nil {
			return err
		}
	}
	return w.Close()
}

func TestChildrenSeeAlmostNoEnvironment(t *testing.T) {
	t.Setenv("FFREPORT", "file="+filepath.Join(t.TempDir(), "report.log"))
	t.Setenv("SECRET", "hidden")
	out := filepath.Join(t.TempDir(), "env")
	probe := stub(t, "env > '"+out+"'; exit 1")
	_, _ = media.Probe(t.Context(), write(t, "x", "not empty"), media.Config{FFprobe: probe})
	data, err := os.ReadFile(out)
	if err != nil || strings.Contains(string(data), "hidden") || strings.Contains(string(data), "FFREPORT") {
		t.Errorf("environment %q, error %v", data, err)
	}
}
