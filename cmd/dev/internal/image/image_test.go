package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
)

func TestBaseNamesOfTheDockerfile(t *testing.T) {
	t.Parallel()

	names, err := baseNames(filepath.Join(need.ModuleRoot(t), "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}

	if !strings.Contains(names.slim, release) || !strings.Contains(names.golang, release) {
		t.Errorf("base images %+v are not Debian %s, which the check builds them of", names, release)
	}
}

// Whatever the build copies must exist, or the image breaks unseen on machines that have no engine.
func TestDockerfileCopiesWhatIsThere(t *testing.T) {
	t.Parallel()

	root := need.ModuleRoot(t)

	raw, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}

	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "COPY" || strings.HasPrefix(f[1], "--") {
			continue
		}

		for _, name := range f[1 : len(f)-1] {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestPartOf(t *testing.T) {
	t.Parallel()

	tests := []struct{ path, want string }{
		{"usr/local/bin/posefleet", "posefleet"},
		{"usr/local/bin/posefleet-extract", "posefleet-extract"},
		{"usr/share/posefleet/pose_landmark_full.onnx", "pose models"},
		{"usr/share/posefleet/libonnxruntime.so.1", "inference library"},
		{"usr/lib/posefleet/libavcodec.so.59", "ffmpeg"},
		{"usr/lib/x86_64-linux-gnu/libx264.so.164", "ffmpeg"},
		{"usr/lib/x86_64-linux-gnu/libopencv_core.so.406", "OpenCV and its libraries"},
		{"usr/bin/bash", "Debian's base"},
	}

	list := parts()

	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()

			if got := list[partOf(list, tt.path)].name; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestCount(t *testing.T) {
	t.Parallel()

	frames, people, err := count([]byte(`{"clips":[{"frames":[{"people":[{},{}]},{"people":[]}]}]}`))
	if err != nil || frames != 2 || people != 2 {
		t.Errorf("got %d frames, %d people, %v", frames, people, err)
	}

	if _, _, err := count([]byte("no document")); err == nil {
		t.Error("text counts as a pose document")
	}
}
