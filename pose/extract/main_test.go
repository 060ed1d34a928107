package extract_test

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newExtractor returns an extractor with a model loaded.
func newExtractor(t *testing.T, model string) *extract.Extractor {
	t.Helper()
	need.Program(t, "ffmpeg")
	x, err := extract.New(extract.Config{Assets: need.Assets(t), Model: model})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// extractClip extracts one clip and reads the document back as a reader would.
func extractClip(t *testing.T, x *extract.Extractor, path string, params protocol.Params) (*pose.Document, []byte) {
	t.Helper()
	r, err := x.Run(t.Context(), extract.Request{Clips: []extract.Input{{ID: "c1", Path: path}}, Params: params, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if err := r.WriteDocument(&b); err != nil {
		t.Fatal(err)
	}
	d, err := pose.Decode(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return d, b.Bytes()
}

// track yields the person with the given id in each frame; nil where absent.
func track(c pose.Clip, id int) []*pose.Person {
	out := make([]*pose.Person, len(c.Frames))
	for i, f := range c.Frames {
		for j := range f.People {
			if f.People[j].Track == id {
				out[i] = &f.People[j]
			}
		}
	}
	return out
}
