package extract

import (
	"testing"

	"github.com/posefleet/posefleet/pose/media"
)

func TestDecoderThreads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, model   string
		width, height int
		want          int
	}{
		{"the slow model keeps one decoding thread busy by a half", "blazepose-heavy", 1080, 1920, 1},
		{"stored with the rows that encoders add", "blazepose-heavy", 1920, 1088, 1},
		{"a large picture takes longer than the model", "blazepose-heavy", 3840, 2160, 0},
		{"a faster model waits for the decoder", "blazepose-full", 1080, 1920, 0},
		{"nothing is known of other models", "bowlers", 640, 480, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			info := &media.Info{StoredWidth: c.width, StoredHeight: c.height}
			if got := decoderThreads(c.model, info); got != c.want {
				t.Errorf("%d threads, want %d", got, c.want)
			}
		})
	}
}
