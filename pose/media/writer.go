package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// Writer makes an MP4 file that browsers play (H.264, 4:2:0, index in front) of pictures with free times.
type Writer struct {
	p      *process
	in     *os.File
	stderr *bounded
	logged chan struct{}
	ctx    context.Context
}

// Create starts to write path, over a file that is there. Pictures have width × height pixels; an odd side gets one more row or
// column. The writer ends with the context; the caller must Close it.
func Create(ctx context.Context, path string, width, height int, c Config) (*Writer, error) {
	c = c.withDefaults()
	in, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start ffmpeg: %w", err)
	}
	logs, logWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), write.Close())
	}
	cmd := exec.Command(c.FFmpeg, writerArgs(path, c.Threads)...)
	cmd.Stdin, cmd.Stderr = in, logWrite
	w := &Writer{in: write, stderr: &bounded{limit: 4096}, logged: make(chan struct{}), ctx: ctx}
	w.p, err = startProcess(ctx, cmd)
	in.Close()
	logWrite.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start ffmpeg: %w", err), write.Close(), logs.Close())
	}
	// Ends with the encoder, which holds the other end of the pipe.
	go func() {
		defer close(w.logged)
		defer logs.Close()
		_, _ = io.Copy(w.stderr, logs)
	}()
	if _, err := write.Write(matroskaHead(width, height)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func writerArgs(path string, threads int) []string {
	return []string{
		"-hide_banner", "-nostats", "-loglevel", "error",
		"-protocol_whitelist", "pipe", "-format_whitelist", "matroska", "-f", "matroska", "-i", "pipe:0",
		"-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2,scale=out_color_matrix=bt709:out_range=tv,format=yuv420p",
		"-fps_mode", "passthrough", "-enc_time_base", "1/90000", "-c:v", "libx264", "-preset", "veryfast", "-crf", "21", "-bf", "0",
		"-threads", strconv.Itoa(threads), "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709",
		"-color_range", "tv", "-video_track_timescale", "90000", "-movflags", "+faststart", "-f", "mp4", "-y", "file:" + path,
	}
}

// Write appends a picture (blue, green, red) that is shown from t ms on. Times must rise.
func (w *Writer) Write(t float64, picture []byte) error {
	if _, err := w.in.Write(matroskaFrame(t, len(picture))); err != nil {
		return w.broken(err)
	}
	if _, err := w.in.Write(picture); err != nil {
		return w.broken(err)
	}
	return nil
}

// Close ends the file and reports whether it is whole.
func (w *Writer) Close() error {
	w.in.Close()
	err := w.p.wait()
	<-w.logged
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return encoderFault(err, bytes.TrimSpace(w.stderr.Bytes()))
}

// encoderFault is what the encoder's end and its errors mean. Of a file that it could not write to its end it only speaks: its exit code is 0.
func encoderFault(err error, said []byte) error {
	switch {
	case bytes.Contains(said, []byte("No space left on device")):
		return fmt.Errorf("encode overlay: %w", syscall.ENOSPC)
	case err != nil:
		return fmt.Errorf("encode overlay: %w: %s", err, said)
	case len(said) > 0:
		return fmt.Errorf("encode overlay: %s", said)
	}
	return nil
}

// broken is the error of a write to an encoder that has gone.
func (w *Writer) broken(err error) error {
	if end := w.Close(); end != nil {
		return end
	}
	return fmt.Errorf("encode overlay: %w", err)
}
