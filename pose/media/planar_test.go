package media_test

import (
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose/media"
)

// Planar frames must show the colours that frames of blue, green and red show, whatever the form and the tags of the stored pixels: the two
// ways are ffmpeg's own conversion and ours.
func TestPlanarFramesShowTheSameColours(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, pixels string
		args         []string
		size         string
		side         int // the long side of the frames; where they are made smaller ffmpeg converts them
	}{
		{"no tags", "yuv420p", nil, "64x48", 0},
		{"made smaller", "yuv420p", nil, "64x48", 32},
		{"odd size", "yuv420p", nil, "63x47", 0},
		{"BT.709", "yuv420p", []string{"-colorspace", "bt709"}, "64x48", 0},
		{"full range", "yuvj420p", []string{"-color_range", "pc"}, "64x48", 0},
		{"full range, made smaller", "yuvj420p", []string{"-color_range", "pc"}, "64x48", 32},
		{"full range by the tag", "yuv420p", []string{"-color_range", "pc"}, "64x48", 0},
		{"more colours", "yuv444p", nil, "64x48", 0},
		{"10 bits, BT.2020", "yuv420p10le", []string{"-colorspace", "bt2020nc"}, "64x48", 32},
		{"10 bits, full range", "yuv420p10le", []string{"-color_range", "pc"}, "64x48", 0},
		{"grey", "gray", nil, "64x48", 0},
		{"red, green, blue", "bgr0", nil, "64x48", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "clip.mkv")
			args := append([]string{
				"-v", "error", "-nostdin", "-f", "lavfi", "-i", "color=0xC86428:size=" + c.size + ":rate=10:duration=0.2", "-vf", "format=" + c.pixels,
				"-c:v", "ffv1",
			}, c.args...)
			if out, err := exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), append(args, path)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			info, err := media.Probe(t.Context(), path, media.Config{})
			if err != nil {
				t.Fatal(err)
			}
			want, got := firstPixel(t, info, media.Config{LongSide: c.side}), firstPixel(t, info, media.Config{LongSide: c.side, Planar: true})
			for i := range want {
				if math.Abs(want[i]-got[i]) > 4 {
					t.Fatalf("%.0f, ffmpeg's own conversion gives %.0f", got, want)
				}
			}
		})
	}
}

// firstPixel is the red, green and blue of a pixel in the middle of the first frame.
func firstPixel(t *testing.T, info *media.Info, c media.Config) (colour [3]float64) {
	t.Helper()
	r, err := media.Open(t.Context(), info, c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	frame := make([]byte, r.FrameBytes())
	if _, err := r.Read(frame); err != nil {
		t.Fatal(err)
	}
	at := r.Height/2*r.Width + r.Width/2
	if !c.Planar {
		return [3]float64{float64(frame[3*at+2]), float64(frame[3*at+1]), float64(frame[3*at])}
	}
	w, h := (r.Width+1)/2, (r.Height+1)/2
	half := r.Width*r.Height + r.Height/4*w + r.Width/4
	return colourOf(r.Colours(), float64(frame[at]), float64(frame[half])-128, float64(frame[half+w*h])-128)
}

func colourOf(c media.Colours, light, first, second float64) (colour [3]float64) {
	light, first, second = light/255, first/255, second/255
	if !c.Full {
		light, first, second = (light-16.0/255)*255/219, first*255/224, second*255/224
	}
	red, blue := light+2*(1-c.Red)*second, light+2*(1-c.Blue)*first
	green := (light - c.Red*red - c.Blue*blue) / (1 - c.Red - c.Blue)
	for i, v := range []float64{red, green, blue} {
		colour[i] = 255 * min(max(v, 0), 1)
	}
	return colour
}

// Frames that have the planar form already must come as they are stored, byte for byte: a conversion would cost more than the decoding.
func TestPlanarFramesPassThrough(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clip.mkv")
	out, err := exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), "-v", "error", "-nostdin", "-f", "lavfi", "-i", "testsrc2=size=98x54:rate=10:duration=0.1",
		"-pix_fmt", "yuv420p", "-c:v", "ffv1", "-colorspace", "bt709", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want, err := exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), "-v", "error", "-i", path, "-f", "rawvideo", "pipe:1").Output()
	if err != nil {
		t.Fatal(err)
	}
	c := media.Config{Planar: true}
	info, err := media.Probe(t.Context(), path, c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := media.Open(t.Context(), info, c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	frame := make([]byte, r.FrameBytes())
	if _, err := r.Read(frame); err != nil || string(frame) != string(want) {
		t.Errorf("error %v, the frame's bytes are other ones than those stored", err)
	}
}
