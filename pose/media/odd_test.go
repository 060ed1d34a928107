package media_test

import (
	"errors"
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/media"
)

// oddCase is one file of the media folder and what its index asks for.
type oddCase struct {
	file string
	code media.Code // refused with this code; else accepted with what follows
	want want
}

type want struct {
	frames, width, height int
	container             string
	declared              int // 0: not checked
	rotation              int
	mirrored              bool
	estimated             bool
	partial, damaged      bool
	variable              bool
	sizeChanges           int
	capture, nominal      float64 // 0: not checked
	durationMs            float64 // 0: not checked
	at                    map[int]float64
}

func refused(file string, code media.Code) oddCase { return oddCase{file: "odd/" + file, code: code} }

func accepted(file string, w want) oddCase { return oddCase{file: "odd/" + file, want: w} }

var oddCases = []oddCase{
	accepted("rot90.mp4", want{frames: 100, width: 540, height: 960, rotation: 90, container: "mp4"}),
	accepted("rot180.mp4", want{frames: 100, width: 540, height: 960, rotation: 180}),
	accepted("mirror_flag.mp4", want{frames: 100, width: 540, height: 960, mirrored: true}),
	accepted("sideways_noflag.mp4", want{frames: 100, width: 960, height: 540}),
	accepted("vfr_dropped.mp4", want{frames: 71, width: 540, height: 960, variable: true}),
	accepted("vfr_60_then_24.mp4", want{frames: 120, width: 576, height: 576, variable: true, at: map[int]float64{60: 1000, 119: 3458.333}}),
	accepted("hevc8_hvc1.mp4", want{frames: 100, width: 720, height: 1280}),
	accepted("hevc10_hlg.mov", want{frames: 100, width: 720, height: 1280, container: "mov"}),
	refused("trunc_no_moov.mp4", media.CodeInvalidMedia),
	accepted("trunc_half_faststart.mp4", want{frames: 45, declared: 100, width: 540, height: 960, partial: true, damaged: true}),
	refused("trunc_100_bytes.mp4", media.CodeInvalidMedia),
	refused("zero.mp4", media.CodeEmptyFile),
	refused("text.mp4", media.CodeInvalidMedia),
	refused("jpeg_named.mp4", media.CodeImageNotVideo),
	refused("png_named.mp4", media.CodeImageNotVideo),
	refused("gzip_named.mp4", media.CodeInvalidMedia),
	refused("random_bytes.mp4", media.CodeInvalidMedia),
	refused("hls_playlist_named.mp4", media.CodeInvalidMedia),
	refused("ffconcat_named.mp4", media.CodeInvalidMedia),
	refused("audio_only.mp4", media.CodeNoVideoStream),
	refused("audio_with_cover.m4a", media.CodeNoVideoStream),
	accepted("audio_longer_than_video.mp4", want{frames: 120, width: 576, height: 576, durationMs: 4000}),
	accepted("one_frame.mp4", want{frames: 1, width: 540, height: 960}),
	accepted("two_frames.mp4", want{frames: 2, width: 540, height: 960}),
	accepted("uhd_2s.mp4", want{frames: 60, width: 3840, height: 2160}),
	accepted("fps240.mp4", want{frames: 100, width: 540, height: 960, nominal: 240}),
	accepted("slowmo_240_played_at_30.mp4", want{frames: 100, width: 540, height: 960, nominal: 30, capture: 240}),
	accepted("odd_641x359_vp9.mp4", want{frames: 120, width: 641, height: 359}),
	accepted("odd_641x359_h264_444.mp4", want{frames: 120, width: 641, height: 359}),
	accepted("tiny_16x16.mp4", want{frames: 120, width: 16, height: 16}),
	accepted("black_no_person.mp4", want{frames: 60, width: 320, height: 240}),
	accepted("testcard_no_person.mp4", want{frames: 60, width: 640, height: 360}),
	refused("one_hour_1fps.mp4", media.CodeTooLong),
	refused("bomb_16384x8192.mov", media.CodeTooLarge),
	accepted("webm_named.mp4", want{frames: 120, width: 576, height: 576, container: "webm"}),
	accepted("mp4_named.webm", want{frames: 120, width: 576, height: 576, container: "mp4"}),
	accepted("mp4_no_extension", want{frames: 120, width: 576, height: 576, container: "mp4"}),
	accepted("bframes.mp4", want{frames: 100, width: 540, height: 960, at: map[int]float64{0: 0, 99: 1650}}),
	accepted("editlist_trim.mp4", want{frames: 57, declared: 70, width: 540, height: 960}),
	accepted("mkv_lost_pts.mkv", want{frames: 120, width: 576, height: 576, estimated: true, at: map[int]float64{119: 3966.667}}),
	accepted("editlist_hides_start.mp4", want{frames: 105, declared: 120, width: 576, height: 576, durationMs: 3500}),
	accepted("starts_at_3600s.ts", want{frames: 120, width: 576, height: 576, container: "mpegts", at: map[int]float64{119: 3966.667}}),
	accepted("anamorphic_sar.mp4", want{frames: 100, width: 540, height: 960}),
	accepted("size_change.ts", want{frames: 110, width: 320, height: 320, sizeChanges: 1, estimated: true, variable: true, damaged: true}),
	accepted("trailing_garbage.mp4", want{frames: 100, width: 540, height: 960}),
	accepted("hard_cut.mp4", want{frames: 200, width: 540, height: 960}),
	accepted("bowler $(id) 'q' ü 🏏.mp4", want{frames: 120, width: 576, height: 576}),
	accepted("-starts with dash.mp4", want{frames: 120, width: 576, height: 576}),
	accepted("av1.mp4", want{frames: 120, width: 576, height: 576}),
	accepted("mpeg4.avi", want{frames: 120, width: 576, height: 576, at: map[int]float64{60: 2000}}),
	accepted("mjpeg.avi", want{frames: 120, width: 288, height: 288}),
	accepted("prores.mov", want{frames: 12, width: 288, height: 288}),
	accepted("vp8.webm", want{frames: 120, width: 576, height: 576}),
	accepted("squats.gif", want{frames: 65, width: 180, height: 320, container: "gif"}),
	{file: "videos/decord_corrupted.mp4", want: want{frames: 49, declared: 50, width: 1280, height: 720, partial: true, damaged: true, variable: true}},
	{file: "videos/decord_unordered.mov", want: want{frames: 4, width: 50, height: 50}},
	{file: "videos/decord_phone_rot270.mov", want: want{frames: 3, width: 320, height: 568, rotation: 270, container: "mov"}},
}

func TestOddFilesAreReadOrRefusedAsTheirIndexSays(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	for _, c := range oddCases {
		t.Run(filepath.Base(c.file), func(t *testing.T) {
			t.Parallel()
			m, err := readAll(t, need.Media(t, c.file), nil)
			if c.code != "" {
				f, ok := errors.AsType[*media.Fault](err)
				if !ok || f.Code != c.code {
					t.Fatalf("error %v, want code %s", err, c.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.want.check(t, m)
		})
	}
}

// reading is a clip that was read to its end.
type reading struct {
	pose.Media
	times []float64
}

// readAll reads a clip to its end; each, if set, sees the frames.
func readAll(t *testing.T, path string, each func(media.Stamp, []byte, *media.Reader)) (*reading, error) {
	t.Helper()
	info, err := media.Probe(t.Context(), path, media.Config{})
	if err != nil {
		return nil, err
	}
	r, err := media.Open(t.Context(), info, media.Config{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	buf := make([]byte, r.FrameBytes())
	out := &reading{}
	for {
		s, err := r.Read(buf)
		if errors.Is(err, io.EOF) {
			out.Media = r.Media()
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if s.Index != len(out.times) {
			t.Errorf("frame %d has index %d", len(out.times), s.Index)
		}
		out.times = append(out.times, s.T)
		if each != nil {
			each(s, buf, r)
		}
	}
}

func (w want) check(t *testing.T, got *reading) {
	t.Helper()
	type row struct {
		name      string
		got, want any
	}
	rows := []row{
		{"frames", got.FramesDecoded, w.frames},
		{"width", got.Width, w.width},
		{"height", got.Height, w.height},
		{"rotation", got.Rotation, w.rotation},
		{"mirrored", got.Mirrored, w.mirrored},
		{"partial", got.Partial, w.partial},
		{"estimated", got.Timestamps == pose.TimestampsEstimated, w.estimated},
		{"damaged", got.DecodeErrors > 0, w.damaged},
		{"variable rate", got.VariableRate, w.variable},
		{"size changes", got.SizeChanges, w.sizeChanges},
		{"times", len(got.times), w.frames},
	}
	if w.container != "" {
		rows = append(rows, row{"container", got.Container, w.container})
	}
	if w.declared != 0 && got.FramesDeclared != nil {
		rows = append(rows, row{"declared", *got.FramesDeclared, w.declared})
	}
	for _, r := range rows {
		if r.got != r.want {
			t.Errorf("%s is %v, want %v", r.name, r.got, r.want)
		}
	}
	near(t, "capture rate", got.FPS.Capture, w.capture, 0.01)
	near(t, "nominal rate", got.FPS.Nominal, w.nominal, 0.01)
	near(t, "duration", &got.DurationMs, w.durationMs, 1)
	for i, at := range w.at {
		near(t, "time of a frame", &got.times[i], at, 1)
	}
	for i := 1; i < len(got.times); i++ {
		if !(got.times[i] > got.times[i-1]) {
			t.Errorf("time of frame %d is %v after %v", i, got.times[i], got.times[i-1])
		}
	}
}

func near(t *testing.T, name string, got *float64, want, tolerance float64) {
	t.Helper()
	if want == 0 {
		return
	}
	if got == nil || math.Abs(*got-want) > tolerance {
		t.Errorf("%s is %v, want %v", name, deref(got), want)
	}
}

func deref(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}
