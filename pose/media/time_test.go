package media_test

import (
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/media"
)

// makeClip writes a clip of 25 frames a second with 320×240 pixels. The arguments go before the output.
func makeClip(t *testing.T, path string, args ...string) {
	t.Helper()
	full := slices.Concat([]string{"-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25"}, args,
		[]string{"-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "ultrafast", "-f", "mp4", "file:" + path})
	if out, err := exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), full...).CombinedOutput(); err != nil {
		t.Fatalf("make clip: %v: %s", err, out)
	}
}

// containerTimes are the presentation times that ffprobe reads, in ms from the first.
func containerTimes(t *testing.T, path string) []float64 {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), need.Program(t, "ffprobe"), "-v", "quiet", "-select_streams", "v:0", "-of", "json",
		"-show_entries", "stream=time_base:frame=best_effort_timestamp", "file:"+path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Streams []struct {
			Base string `json:"time_base"`
		}
		Frames []struct {
			TS *int64 `json:"best_effort_timestamp"`
		}
	}
	if err := json.Unmarshal(out, &p); err != nil {
		t.Fatal(err)
	}
	den, err := strconv.ParseFloat(p.Streams[len(p.Streams)-1].Base[2:], 64)
	if err != nil {
		t.Fatal(err)
	}
	var times []float64
	for _, f := range p.Frames {
		if f.TS == nil {
			t.Fatal("a frame without a time")
		}
		times = append(times, float64(*f.TS-*p.Frames[0].TS)*1000/den)
	}
	return times
}

func TestTimesAreTheContainers(t *testing.T) {
	t.Parallel()
	files := []string{
		"odd/vfr_dropped.mp4", "odd/vfr_60_then_24.mp4", "odd/bframes.mp4", "odd/editlist_trim.mp4", "odd/editlist_hides_start.mp4",
		"odd/starts_at_3600s.ts", "odd/webm_named.mp4", "odd/mpeg4.avi", "odd/squats.gif", "odd/fps240.mp4", "odd/trunc_half_faststart.mp4",
		"odd/hevc10_hlg.mov", "videos/decord_unordered.mov", "videos/sports2d_jump_two_people_vp9.mp4",
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			compareTimes(t, need.Media(t, file))
		})
	}
}

func compareTimes(t *testing.T, path string) {
	t.Helper()
	want := containerTimes(t, path)
	got, err := readAll(t, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.times) != len(want) {
		t.Fatalf("%d frames, ffprobe has %d", len(got.times), len(want))
	}
	for i := range want {
		if math.Abs(got.times[i]-want[i]) > 0.01 {
			t.Errorf("frame %d is at %.3f ms, ffprobe says %.3f", i, got.times[i], want[i])
		}
	}
	if got.Timestamps != pose.TimestampsPTS {
		t.Errorf("timestamps are %s", got.Timestamps)
	}
}

func TestTimesOfAClipThatTheTestMakes(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"constant rate": {"-t", "1"},
		"variable rate": {"-t", "2", "-vf", "select='not(mod(n\\,3))+gt(n\\,30)'", "-fps_mode", "vfr"},
		"far offset":    {"-t", "1", "-output_ts_offset", "86400.123"},
		"B-frames":      {"-t", "1", "-bf", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "clip.mp4")
			makeClip(t, path, args...)
			compareTimes(t, path)
		})
	}
}

func TestFramesAreTheFilesOwn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	// A red left half and a blue right half, stored turned and mirrored.
	paint := "drawbox=0:0:160:240:red:fill,drawbox=160:0:160:240:blue:fill"
	makeClip(t, path, "-t", "0.2", "-vf", paint)
	got, err := readAll(t, path, func(s media.Stamp, pixels []byte, r *media.Reader) {
		at := func(x, y int) [3]byte { return [3]byte(pixels[3*(y*r.Width+x):]) }
		left, right := at(40, 120), at(280, 120)
		if left[2] < 200 || left[0] > 60 || right[0] < 200 || right[2] > 60 {
			t.Errorf("frame %d: left %v, right %v (blue, green, red)", s.Index, left, right)
		}
	})
	if err != nil || got.FramesDecoded != 5 {
		t.Errorf("%v, error %v", got, err)
	}
}

func TestLargePicturesAreScaledWhileDecoding(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	makeClip(t, path, "-t", "0.2", "-vf", "setsar=3/2")
	info, err := media.Probe(t.Context(), path, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := media.Open(t.Context(), info, media.Config{LongSide: 160})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if info.Width != 480 || info.Height != 240 || info.PixelAspect != 1.5 || r.Width != 160 || r.Height != 80 || r.ScaleX != 3 || r.ScaleY != 3 {
		t.Errorf("picture %d×%d (aspect %v), frames %d×%d, scale %v %v", info.Width, info.Height, info.PixelAspect, r.Width, r.Height, r.ScaleX, r.ScaleY)
	}
	if _, err := r.Read(make([]byte, r.FrameBytes())); err != nil {
		t.Error(err)
	}
}

func TestWrittenVideoHasTheTimesThatItWasGiven(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.mp4")
	w, err := media.Create(t.Context(), path, 101, 51, media.Config{FFmpeg: need.Program(t, "ffmpeg")})
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{0, 10, 40.5, 41.25, 1000, 2500}
	for _, at := range want {
		if err := w.Write(at, make([]byte, 3*101*51)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := containerTimes(t, path)
	if len(got) != len(want) {
		t.Fatalf("times %v, want %v", got, want)
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 0.05 {
			t.Errorf("times %v, want %v", got, want)
		}
	}
	info, err := media.Probe(t.Context(), path, media.Config{})
	if err != nil || info.Codec != "h264" || info.Width != 102 || info.Height != 52 {
		t.Errorf("%+v, error %v", info, err)
	}
}

func TestWriterThatCannotWriteSaysSo(t *testing.T) {
	t.Parallel()
	w, err := media.Create(t.Context(), filepath.Join(t.TempDir(), "absent", "out.mp4"), 64, 64, media.Config{FFmpeg: need.Program(t, "ffmpeg")})
	for i := 0; err == nil && i < 200; i++ {
		err = w.Write(float64(i), make([]byte, 3*64*64))
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		t.Error("no error")
	}
}

func TestLimitsFromTheEnvironment(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		env  map[string]string
		want media.Limits
		ok   bool
	}{
		{"none", nil, media.DefaultLimits(), true},
		{
			"all",
			map[string]string{"POSEFLEET_MAX_SIDE": "100", "POSEFLEET_MAX_PIXELS": "5000", "POSEFLEET_MAX_DURATION": "90s"},
			media.Limits{MaxSide: 100, MaxPixels: 5000, MaxDuration: 90e9},
			true,
		},
		{"no number", map[string]string{"POSEFLEET_MAX_SIDE": "big"}, media.Limits{}, false},
		{"no duration", map[string]string{"POSEFLEET_MAX_DURATION": "30"}, media.Limits{}, false},
		{"too small", map[string]string{"POSEFLEET_MAX_PIXELS": "0"}, media.Limits{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := media.LimitsFromEnv(func(name string) string { return tt.env[name] })
			if (err == nil) != tt.ok || tt.ok && got != tt.want {
				t.Errorf("%+v, error %v", got, err)
			}
		})
	}
}
