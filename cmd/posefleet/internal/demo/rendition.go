package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopGrace is how long a cancelled ffmpeg may take to end its file.
const stopGrace = 2 * time.Second

// errNoFFmpeg says where ffmpeg comes from.
var errNoFFmpeg = errors.New("ffmpeg and ffprobe are not installed: install them (Debian: apt-get install ffmpeg)")

// findFFmpeg tells whether the programs are there that demo and extractor read clips with.
func findFFmpeg() error {
	for _, name := range []string{"ffmpeg", "ffprobe"} {
		if _, err := exec.LookPath(name); err != nil {
			return errNoFFmpeg
		}
	}

	return nil
}

// cut copies a part of a clip to a file in dir, frame data untouched, and returns its path. The part begins at the last key frame before from.
func cut(ctx context.Context, path, dir string, from, length time.Duration) (string, error) {
	out := filepath.Join(dir, filepath.Base(path))

	return out, ffmpeg(ctx, "-ss", seconds(from), "-i", "file:"+path, "-t", seconds(length), "-map", "0:v:0", "-c", "copy", "file:"+out)
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// renderPreview makes a rendition of the clip that any browser plays: H.264, each frame once and at its own time, upright, with square
// pixels and, as H.264 demands, sides of an even length.
func renderPreview(ctx context.Context, path, dir string) (string, error) {
	out := filepath.Join(dir, "preview-"+filepath.Base(path)+".mp4")
	filter := "scale=trunc(iw*sar/2+0.5)*2:trunc(ih/2+0.5)*2,setsar=1"

	return out, ffmpeg(ctx, "-i", "file:"+path, "-map", "0:v:0", "-an", "-vf", filter, "-fps_mode", "passthrough",
		"-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p", "-bf", "0",
		"-video_track_timescale", "90000", "-movflags", "+faststart", "file:"+out)
}

// ffmpeg runs ffmpeg without a terminal, in a group of its own (Ctrl-C is for the demo, which cancels ctx).
func ffmpeg(ctx context.Context, args ...string) error {
	var complaints bytes.Buffer

	cmd := exec.CommandContext(ctx, "ffmpeg", append([]string{"-nostdin", "-v", "error", "-y", "-protocol_whitelist", "file"}, args...)...)
	cmd.Stderr = &complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace

	err := cmd.Run()
	if err == nil {
		return nil
	}

	if first, _, _ := strings.Cut(complaints.String(), "\n"); first != "" {
		return fmt.Errorf("ffmpeg: %w: %s", err, first)
	}

	return fmt.Errorf("ffmpeg: %w", err)
}
