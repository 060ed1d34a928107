package media

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Info is what a clip says about itself before anything is decoded. Of unknown rates and lengths the value is 0.
type Info struct {
	// Path is absolute.
	Path      string
	Container string
	Codec     string
	// Stream is the index of the video track.
	Stream int
	// StoredWidth and StoredHeight are of the picture as stored, Width and Height of the upright one with square pixels.
	StoredWidth, StoredHeight int
	Width, Height             int
	Rotation                  int
	Mirrored                  bool
	PixelAspect               float64
	// Pixels is the stored form of the pixels as ffmpeg names it, Matrix how brightness and colour differences make colours there;
	// FullRange says that black is 0 and white 255.
	Pixels, Matrix string
	FullRange      bool
	// NominalFPS is the declared rate, AverageFPS declared frames by length, CaptureFPS the camera's rate where the metadata
	// tell it.
	NominalFPS, AverageFPS, CaptureFPS float64
	// DurationMs is the declared length of the video track.
	DurationMs float64
	// FramesDeclared is nil where the container says nothing.
	FramesDeclared *int
	// MissingStamps says that frames at the start have no time.
	MissingStamps bool
}

const (
	probeTimeout = 60 * time.Second
	probeBytes   = 4 << 20
	probePackets = 64
)

// Probe looks at a file and checks it against the limits. The error is a *Fault if the file is to blame.
func Probe(ctx context.Context, path string, c Config) (*Info, error) {
	c = c.withDefaults()
	head, err := sniff(path)
	if err != nil {
		return nil, err
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	out, err := runProbe(ctx, path, head, c)
	if err != nil {
		return nil, err
	}
	return describe(path, head, out, c.Limits)
}

// probeOutput is the part of ffprobe's JSON that is used.
type probeOutput struct {
	Streams []probeStream `json:"streams"`
	Format  struct {
		Name     string            `json:"format_name"`
		Duration string            `json:"duration"`
		Tags     map[string]string `json:"tags"`
	} `json:"format"`
	Packets []struct {
		Stream int    `json:"stream_index"`
		PTS    *int64 `json:"pts"`
	} `json:"packets"`
}

type probeStream struct {
	Index       int               `json:"index"`
	Type        string            `json:"codec_type"`
	Codec       string            `json:"codec_name"`
	Width       int               `json:"width"`
	Height      int               `json:"height"`
	Aspect      string            `json:"sample_aspect_ratio"`
	Pixels      string            `json:"pix_fmt"`
	Matrix      string            `json:"color_space"`
	Range       string            `json:"color_range"`
	Rate        string            `json:"r_frame_rate"`
	AverageRate string            `json:"avg_frame_rate"`
	Duration    string            `json:"duration"`
	Frames      string            `json:"nb_frames"`
	Tags        map[string]string `json:"tags"`
	Disposition map[string]int    `json:"disposition"`
	SideData    []struct {
		Matrix string `json:"displaymatrix"`
	} `json:"side_data_list"`
}

func runProbe(ctx context.Context, path string, head []byte, c Config) (*probeOutput, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errors.New("ffprobe took too long"))
	defer cancel()
	args := append([]string{
		"-v", "error", "-hide_banner", "-of", "json", "-show_format", "-show_streams",
		"-show_entries", "packet=stream_index,pts", "-read_intervals", fmt.Sprintf("%%+#%d", probePackets),
	}, inputArgs(path)...)
	stdout, stderr, err := capture(ctx, exec.Command(c.FFprobe, args...), probeBytes)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("probe: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, probeFault(err, stderr, path, head)
	}
	var out probeOutput
	if err := json.Unmarshal(stdout, &out); err != nil {
		return nil, faultf(CodeInvalidMedia, "the file's description can't be read")
	}
	return &out, nil
}

// capture runs a child to its end and returns the first limit bytes of what it printed.
func capture(ctx context.Context, cmd *exec.Cmd, limit int) (stdout, stderr []byte, err error) {
	outBuf, errBuf := &bounded{limit: limit}, &bounded{limit: 16 << 10}
	cmd.Stdout, cmd.Stderr = outBuf, errBuf
	p, err := startProcess(ctx, cmd)
	if err != nil {
		return nil, nil, err
	}
	err = p.wait()
	return outBuf.Bytes(), errBuf.Bytes(), err
}

// bounded keeps the first limit bytes and drops the rest, so that a talkative child never blocks.
type bounded struct {
	bytes.Buffer
	limit int
}

func (b *bounded) Write(data []byte) (int, error) {
	if room := b.limit - b.Len(); room > 0 {
		b.Buffer.Write(data[:min(room, len(data))])
	}
	return len(data), nil
}

// probeFault says why ffprobe refused a file. Only an exit code says something about the file.
func probeFault(err error, stderr []byte, path string, head []byte) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() < 0 {
		return fmt.Errorf("run ffprobe: %w", err)
	}
	text := string(stderr)
	switch {
	case strings.Contains(text, "moov atom not found") && isMP4(head):
		return faultf(CodeInvalidMedia, "the upload broke off, or the file is damaged: there is no index (moov)")
	case strings.Contains(text, "moov atom not found"):
		// The demuxer goes by the name; the bytes say something else.
		return faultf(CodeInvalidMedia, "this is no video file")
	case isJPEG(head): // of one that is named so another demuxer makes a list of pictures, which is none of ours
		return faultf(CodeImageNotVideo, "this is a picture (jpeg), not a video")
	case strings.Contains(text, "not on whitelist"), strings.Contains(text, "Format not on"):
		return faultf(CodeInvalidMedia, "this is no video file, but something that refers to others")
	}
	return faultf(CodeInvalidMedia, "this is no video file: %s", reason(text, path))
}

// reason is the last line of what a child printed, without the path.
func reason(text, path string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := strings.ReplaceAll(lines[len(lines)-1], "file:"+path, "the file")
	last = strings.TrimPrefix(last, "the file: ")
	if last == "" {
		return "it can't be opened"
	}
	return last[:min(len(last), 200)]
}

func describe(path string, head []byte, out *probeOutput, limits Limits) (*Info, error) {
	if kind, ok := strings.CutSuffix(out.Format.Name, "_pipe"); ok {
		return nil, faultf(CodeImageNotVideo, "this is a picture (%s), not a video", kind)
	}
	s, err := videoStream(out.Streams)
	if err != nil {
		return nil, err
	}
	info := &Info{Path: path, Container: container(out, head), Codec: s.Codec, Stream: s.Index, StoredWidth: s.Width, StoredHeight: s.Height}
	if s.Width <= 0 || s.Height <= 0 {
		return nil, faultf(CodeInvalidMedia, "the video track has no picture size")
	}
	if err := limits.size(s.Width, s.Height); err != nil {
		return nil, err
	}
	if !codecs[s.Codec] {
		return nil, faultf(CodeUnsupportedCodec, "the video codec %q is not supported", cmpOr(s.Codec, "unknown"))
	}
	info.space(s)
	if err := limits.size(info.Width, info.Height); err != nil {
		return nil, err
	}
	info.time(s, out)
	return info, limits.duration(info.DurationMs)
}

func cmpOr(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// videoStream picks the default video track, else the first. Cover pictures and thumbnails are no video.
func videoStream(streams []probeStream) (*probeStream, error) {
	if len(streams) == 0 {
		return nil, faultf(CodeInvalidMedia, "the file is cut off: it has no tracks")
	}
	var first *probeStream
	for i := range streams {
		s := &streams[i]
		d := s.Disposition
		if s.Type != "video" || d["attached_pic"] == 1 || d["timed_thumbnails"] == 1 || d["still_image"] == 1 {
			continue
		}
		if d["default"] == 1 {
			return s, nil
		}
		if first == nil {
			first = s
		}
	}
	if first == nil {
		return nil, faultf(CodeNoVideoStream, "the file has no video track")
	}
	return first, nil
}

// container is the short name of the format. ffprobe has one name for a family; brand and document type tell them apart.
func container(out *probeOutput, head []byte) string {
	first, _, _ := strings.Cut(out.Format.Name, ",")
	switch {
	case first == "mov" && strings.TrimSpace(out.Format.Tags["major_brand"]) != "qt" && out.Format.Tags["major_brand"] != "":
		return "mp4"
	case first == "matroska" && isWebM(head):
		return "webm"
	}
	return first
}

// space fills in the picture's geometry: the stored height is kept, the width follows the pixel aspect, then it is turned.
func (i *Info) space(s *probeStream) {
	i.Pixels, i.Matrix, i.FullRange = s.Pixels, s.Matrix, s.Range == "pc"
	i.PixelAspect = 1
	if a := ratio(s.Aspect, ":"); a > 1.0/16 && a < 16 {
		i.PixelAspect = a
	}
	for _, d := range s.SideData {
		if o, ok := parseMatrix(d.Matrix); ok {
			i.Rotation, i.Mirrored = o.rotation, o.mirrored
		}
	}
	i.Width = max(1, int(math.Round(float64(s.Width)*i.PixelAspect)))
	i.Height = s.Height
	if i.orientation().sideways() {
		i.Width, i.Height = i.Height, i.Width
	}
}

func (i *Info) orientation() orientation { return orientation{i.Mirrored, i.Rotation} }

// maxRate is the highest frame rate that is believed: containers without a rate declare their clock's.
const maxRate = 1001

func (i *Info) time(s *probeStream, out *probeOutput) {
	if r := ratio(s.Rate, "/"); r > 0 && r < maxRate {
		i.NominalFPS = r
	}
	if r := ratio(s.AverageRate, "/"); r > 0 && r < maxRate {
		i.AverageFPS = r
	}
	for _, tags := range []map[string]string{s.Tags, out.Format.Tags} {
		if v, err := strconv.ParseFloat(tags["com.android.capture.fps"], 64); err == nil && v > 0 && v < 100*maxRate {
			i.CaptureFPS = v
		}
	}
	i.DurationMs = declaredDuration(s, out)
	if n, err := strconv.Atoi(s.Frames); err == nil && n > 0 {
		i.FramesDeclared = &n
	}
	for _, p := range out.Packets {
		if p.Stream == s.Index && p.PTS == nil {
			i.MissingStamps = true
		}
	}
}

// declaredDuration is the length of the video track in ms; that of the whole file only where there is no other track.
func declaredDuration(s *probeStream, out *probeOutput) float64 {
	if d, err := strconv.ParseFloat(s.Duration, 64); err == nil && d > 0 {
		return d * 1000
	}
	if d, ok := clockTime(s.Tags["DURATION"]); ok {
		return d
	}
	alone := !slices.ContainsFunc(out.Streams, func(o probeStream) bool { return o.Index != s.Index })
	if d, err := strconv.ParseFloat(out.Format.Duration, 64); err == nil && d > 0 && alone {
		return d * 1000
	}
	return 0
}

// clockTime reads Matroska's hh:mm:ss.fraction as ms.
func clockTime(text string) (float64, bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return 0, false
	}
	total := 0.0
	for _, p := range parts {
		v, err := strconv.ParseFloat(p, 64)
		if err != nil || v < 0 {
			return 0, false
		}
		total = total*60 + v
	}
	return total * 1000, total > 0
}

// ratio reads a fraction such as 30000/1001; 0 if it is none.
func ratio(text, sep string) float64 {
	num, den, ok := strings.Cut(text, sep)
	if !ok {
		return 0
	}
	n, err1 := strconv.ParseFloat(num, 64)
	d, err2 := strconv.ParseFloat(den, 64)
	if err1 != nil || err2 != nil || d == 0 || n <= 0 {
		return 0
	}
	return n / d
}
