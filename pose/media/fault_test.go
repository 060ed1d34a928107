package media_test

import (
	"bytes"
	"errors"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose/media"
)

func TestATextIsNoUploadThatBrokeOff(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffprobe")
	for _, tt := range []struct{ name, body, says string }{
		{"text.mp4", strings.Repeat("Dear coach, here is my clip.\n", 40), "this is no video file"},
		{"broken.mp4", "\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isomiso2\x00\x00\x10\x00mdat" + strings.Repeat("x", 500), "broke off"},
	} {
		path := filepath.Join(t.TempDir(), tt.name)
		if err := os.WriteFile(path, []byte(tt.body), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := media.Probe(t.Context(), path, media.Config{})
		f, ok := errors.AsType[*media.Fault](err)
		if !ok || f.Code != media.CodeInvalidMedia || !strings.Contains(f.Message, tt.says) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
		if ok && tt.name == "text.mp4" && strings.Contains(f.Message, "moov") {
			t.Errorf("%s: %s", tt.name, f.Message)
		}
	}
}

// What a picture is does not hang on its name: one that is named as a picture goes to another demuxer than one named as a clip.
func TestPicturesByAnyName(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffprobe")
	var picture bytes.Buffer
	if err := jpeg.Encode(&picture, image.NewGray(image.Rect(0, 0, 64, 64)), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.jpg", "a.jpeg", "a.mp4", "a"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, picture.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := media.Probe(t.Context(), path, media.Config{})
		if f, ok := errors.AsType[*media.Fault](err); !ok || f.Code != media.CodeImageNotVideo {
			t.Errorf("%s: %v", name, err)
		}
	}
}
