package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/pose"
)

// storedDocument writes a document of two clips, of ten frames with one person each.
func storedDocument(t *testing.T, path string) *pose.Document {
	t.Helper()
	fps := 50.0
	doc := &pose.Document{Schema: pose.Schema, Model: pose.ModelInfo{Name: "blazepose-lite", Version: "1"}, Skeleton: pose.BlazePose33()}
	for _, id := range []string{"c1", "c2"} {
		c := pose.Clip{ClipHead: pose.ClipHead{ID: id, Athlete: &pose.Athlete{Track: 1, Reason: "the only person", Margin: 1}}}
		c.Media = pose.Media{Container: "mp4", Codec: "h264", Width: 640, Height: 480, PixelAspect: 1, FPS: pose.FPS{Average: &fps}, FramesDecoded: 10, Timestamps: pose.TimestampsPTS}
		for f := range 10 {
			points := make([]pose.Keypoint, 33)
			for i := range points {
				points[i] = pose.Keypoint{X: float64(100 + 5*i + f), Y: float64(50 + 10*i), Score: 0.9, Found: true}
			}
			box, _ := pose.Bounds(points)
			c.Frames = append(c.Frames, pose.Frame{T: 20 * float64(f), People: []pose.Person{{Track: 1, Score: 1, Box: box, Keypoints: points}}})
		}
		doc.Clips = append(doc.Clips, c)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := doc.Write(z, false); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestExportWritesAStoredDocumentInOtherFormats(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	doc := storedDocument(t, filepath.Join(dir, "bowl.pose.json.gz"))
	for format, start := range map[string]string{
		"trc": "PathFileType\t4", "csv": "frame,", "coco": "[", "mot": "inDegrees=yes",
	} {
		var want bytes.Buffer
		if format != "mot" {
			if err := pose.Export(&want, pose.Format(format), pose.SourceOf("bowl-c2", doc, 1)); err != nil {
				t.Fatal(err)
			}
		}
		got := execute(t, dir, "export", "bowl.pose.json.gz", "--format", format, "--clip", "c2", "-o", "-")
		if got.code != exitDone || !strings.Contains(got.stdout, start) {
			t.Errorf("%s: code %d, %q, %.80q", format, got.code, got.stderr, got.stdout)
		}
		if want.Len() > 0 {
			if diff := cmp.Diff(want.String(), got.stdout); diff != "" {
				t.Errorf("%s: %s", format, diff)
			}
		}
	}
	back := execute(t, dir, "export", "bowl.pose.json.gz", "--smooth", "-o", "smooth.json.gz", "--report", "bowl.html")
	if back.code != exitDone {
		t.Fatalf("code %d: %s", back.code, back.stderr)
	}
	again, err := readDocument(filepath.Join(dir, "smooth.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if c := again.Clips[0]; len(again.Clips) != 1 || c.ID != "c1" || c.Signal == nil || c.Frames[5].People[0].Smooth == nil {
		t.Errorf("%d clips, first %s, signal %v", len(again.Clips), c.ID, c.Signal)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "bowl.html")); err != nil || !bytes.Contains(page, []byte("blazepose-lite")) {
		t.Errorf("report: %v", err)
	}
}

func TestExportSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	storedDocument(t, filepath.Join(dir, "a.json.gz"))
	if err := os.WriteFile(filepath.Join(dir, "text.json"), []byte("no document"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"export", "none.json"}, exitFailed, "input_missing"},
		{[]string{"export", "text.json"}, exitFailed, "invalid_media"},
		{[]string{"export", "a.json.gz", "--clip", "c9"}, exitUsage, "c9"},
		{[]string{"export", "a.json.gz", "--format", "openpose", "-o", "-"}, exitUsage, "folder"},
	} {
		got := execute(t, dir, tt.args...)
		if got.code != tt.code || !strings.Contains(got.stderr, tt.says) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%q: code %d, %q; want %d and %q", tt.args, got.code, got.stderr, tt.code, tt.says)
		}
	}
}
