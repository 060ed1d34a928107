package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Codecs that phones and cameras write: without the first ones hardly any clip can be read.
var (
	neededCodecs = []string{"h264", "hevc"}
	wantedCodecs = []string{"av1", "vp9", "vp8", "mpeg4", "prores", "mjpeg"}
)

// errSlow says that a program had to be ended.
var errSlow = errors.New("does not end in time")

// examineDecoder runs ffprobe and ffmpeg as the extractor finds them and asks what they can decode.
func examineDecoder(ctx context.Context, e extractorArea) []Finding {
	f := e.decoder(ctx)
	if f.Level == Fail && !e.own() {
		f.Level = Warn
		f.What += ", if " + e.command[0] + " needs it at all"
	}

	return []Finding{f}
}

func (e extractorArea) decoder(ctx context.Context) Finding {
	const name = "decoder"

	var outputs []string

	for _, call := range [][]string{{"ffprobe", "-version"}, {"ffmpeg", "-version"}, {"ffmpeg", "-decoders"}} {
		text, err := e.output(ctx, call[0], "-hide_banner", call[1])
		if errors.Is(err, errSlow) {
			return failure(name, "look at the load of this machine, and run it by hand", "%s %s", call[0], err)
		}

		if err != nil {
			return failure(name, "install ffmpeg and ffprobe where PATH finds them", "%s %s", call[0], err)
		}

		outputs = append(outputs, text)
	}

	known := decoders(outputs[2])
	title := "ffmpeg " + ffmpegVersion(outputs[1])

	if missing := lacking(known, neededCodecs); len(missing) > 0 {
		return failure(name, "install an ffmpeg that is built with them", "%s can't decode %s", title, strings.Join(missing, ", "))
	}

	if missing := lacking(known, wantedCodecs); len(missing) > 0 {
		return warning(name, "install an ffmpeg that is built with them, if clips come in them", "%s can't decode %s", title, strings.Join(missing, ", "))
	}

	return good(name, "%s decodes %s and others", title, strings.Join(neededCodecs, ", "))
}

// output runs a program of the extractor's PATH. Its error is a phrase to follow the program's name.
func (e extractorArea) output(ctx context.Context, program string, args ...string) (string, error) {
	path, err := e.lookPath(program)
	if err != nil {
		return "", err
	}

	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = e.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second

	var out bytes.Buffer
	cmd.Stdout = &out

	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return "", errSlow
	case err != nil:
		return "", fmt.Errorf("does not run: %w", err)
	}

	return out.String(), nil
}

// lookPath finds a program as the extractor would.
func (e extractorArea) lookPath(program string) (string, error) {
	for _, dir := range filepath.SplitList(e.variable("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}

		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}

	return "", errors.New("is not there")
}

// decoders reads the table of ffmpeg -decoders: flags, name, description. A decoder by another library is called after it
// (libdav1d) and names its codec at the end of the line.
func decoders(text string) []string {
	var names []string

	for row := range strings.Lines(text) {
		fields := strings.Fields(row)
		if len(fields) < 2 || len(fields[0]) != 6 || fields[0][0] != 'V' {
			continue
		}

		names = append(names, fields[1])

		if _, codec, ok := strings.Cut(row, "(codec "); ok {
			codec, _, _ = strings.Cut(codec, ")")
			names = append(names, codec)
		}
	}

	return names
}

func lacking(have, want []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(codec string) bool { return slices.Contains(have, codec) })
}

// ffmpegVersion is the third word of "ffmpeg version 5.1.6 Copyright …".
func ffmpegVersion(text string) string {
	if fields := strings.Fields(text); len(fields) > 2 && fields[1] == "version" {
		return fields[2]
	}

	return "of an unknown version"
}
