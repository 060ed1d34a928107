package extract_test

import (
	"bytes"
	"fmt"
	"image"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/pose/models/modeltest"
	"github.com/posefleet/posefleet/protocol"
)

// ownExtractor returns an extractor whose default model is the given one, of a folder of models.
func ownExtractor(t *testing.T, dir, model string) *extract.Extractor {
	t.Helper()
	need.Program(t, "ffmpeg")
	x, err := extract.New(extract.Config{Assets: need.Assets(t), Models: dir, Model: model})
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

// lampSize, lampFactor: the clip, and its pixels per pixel of the tiny model's input.
const (
	lampWidth, lampHeight = 640, 480
	lampFactor            = 2.5
	lampRadius            = 9
	lampFrames            = 40
)

// lampers writes a model that sees people around lamps, and returns its folder. It is sure of lamps of the right size only.
func lampers(t *testing.T) string {
	t.Helper()
	return modeltest.Write(t, t.TempDir(), "lampers", modeltest.YOLOPose(), map[string]any{"scores": map[string]any{"person": 0.7}})
}

// lampsAt are the two people of the lamp clip: the first runs, the second stands; the first is away for some frames.
func lampsAt(frame int) []image.Point {
	people := []image.Point{image.Pt(500, 260)}
	if frame < 20 || frame >= 26 {
		people = append(people, image.Pt(100+7*frame, 240+2*frame))
	}
	return people
}

// lampTime is the time of a frame in ms: not the same from frame to frame.
func lampTime(frame int) float64 { return float64(frame*33 + frame%3*7) }

func lampClip(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lamps.mp4")
	w, err := media.Create(t.Context(), path, lampWidth, lampHeight, media.Config{Limits: media.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range lampFrames {
		pix := modeltest.Draw(lampWidth, lampHeight, lampRadius, nil)
		for _, at := range lampsAt(i) {
			modeltest.Lamp(pix, lampWidth, lampHeight, lampRadius, 0, at)
		}
		if err := w.Write(lampTime(i), pix); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// lampPoint is the point that the tiny model puts on the lamp itself.
const lampPoint = 9

// A whole clip through a model of one's own that sees all people at once: points lie on the lamps in the clip's own pixels and at its own
// times, people keep their ids, also over an absence, and the one who moves is the athlete.
func TestClipWithAModelOfManyPeople(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	folder := lampers(t)
	path := lampClip(t)
	x := ownExtractor(t, "", folder)
	d, data := extractClip(t, x, path, protocol.Params{})
	if d.Skeleton.Name != "coco17" || d.Model.Name != "lampers" || d.Model.Runtime.SHA256 == "" || d.Model.Detector.Name != "" {
		t.Errorf("%+v, %+v", d.Skeleton.Name, d.Model)
	}
	c := d.Clips[0]
	if c.Athlete == nil || len(c.Frames) != lampFrames {
		t.Fatalf("athlete %+v, %d frames", c.Athlete, len(c.Frames))
	}
	for i, f := range c.Frames {
		want := lampsAt(i)
		if len(f.People) != len(want) || math.Abs(f.T-lampTime(i)) > 1 {
			t.Errorf("frame %d at %v: %d people, not %d", i, f.T, len(f.People), len(want))
			continue
		}
		for _, p := range f.People {
			at := want[0]
			if p.Track == c.Athlete.Track {
				at = want[len(want)-1]
			}
			k := p.Keypoints[lampPoint]
			if !k.Found || math.Hypot(k.X-float64(at.X), k.Y-float64(at.Y)) > 2*lampFactor || p.Keypoints[16].Found || p.Score > 1 {
				t.Errorf("frame %d: track %d is at %+v, not %v; a point that scores too low: %+v", i, p.Track, k, at, p.Keypoints[16])
			}
		}
	}
	_, again := extractClip(t, x, path, protocol.Params{})
	if !bytes.Equal(data, again) {
		t.Error("the second run gives other bytes")
	}
}

// All output forms take points of another skeleton.
func TestFormsOfAnotherSkeleton(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	folder := lampers(t)
	smooth := true
	r, err := ownExtractor(t, "", folder).Run(t.Context(), extract.Request{
		Clips: []extract.Input{{ID: "c1", Path: lampClip(t)}}, Params: protocol.Params{Smooth: &smooth}, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	source, err := r.Clips[0].Source()
	if err != nil {
		t.Fatal(err)
	}
	var document, csv, trc, coco bytes.Buffer
	dir := t.TempDir()
	for name, err := range map[string]error{
		"csv": pose.ExportCSV(&csv, source), "trc": pose.ExportTRC(&trc, source), "coco": pose.ExportCOCO(&coco, source),
		"openpose": pose.ExportOpenPose(dir, source), "json": r.WriteDocument(&document),
		"overlay": r.Clips[0].Draw(t.Context(), extract.Overlay{Picture: filepath.Join(dir, "sheet.png")}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.Contains(document.String(), `"smooth":`) {
		t.Error("no smoothed points, which were asked for")
	}
	if head, _, _ := strings.Cut(csv.String(), "\n"); !strings.Contains(head, ",left_ankle_x,") || !strings.Contains(head, ",left_knee_deg,") || strings.Contains(head, "heel") {
		t.Errorf("csv: %s", head)
	}
	if !strings.Contains(trc.String(), "\t17\tpx\t") || !strings.Contains(coco.String(), `"category_id":1`) {
		t.Error("trc or coco lack their points")
	}
}

// A model of one person on real footage: the shipped detector finds him, and he is followed by the box of his points.
func TestClipWithAModelOfOnePerson(t *testing.T) {
	t.Parallel()
	path := need.Media(t, "videos/tfjs_squats_5fps.mp4")
	dir := t.TempDir()
	modeltest.Write(t, dir, "fixed", modeltest.FixedRTMPose(26), map[string]any{"skeleton": "halpe26"})
	x := ownExtractor(t, dir, "lite")
	own, _ := extractClip(t, x, path, protocol.Params{Model: "fixed", MaxPeople: 1})
	shipped, _ := extractClip(t, x, path, protocol.Params{})
	if own.Skeleton.Name != "halpe26" || own.Model.Name != "fixed" || own.Model.Detector.Name == "" || shipped.Model.Name != "blazepose-lite" {
		t.Errorf("%+v, %+v", own.Model, shipped.Model)
	}
	if len(own.Clips[0].Frames) != len(shipped.Clips[0].Frames) {
		t.Fatalf("%d frames, not %d", len(own.Clips[0].Frames), len(shipped.Clips[0].Frames))
	}
	for i, f := range own.Clips[0].Frames {
		if len(f.People) != 1 || f.People[0].Track != 1 {
			t.Errorf("frame %d: %d people", i, len(f.People))
			continue
		}
		if want := shipped.Clips[0].Frames[i].People; i == 0 && (len(want) != 1 || f.People[0].Box.IoU(want[0].Box) < 0.3) {
			t.Errorf("box %v, with the shipped model %+v", f.People[0].Box, want)
		}
	}
}

// A job may ask for a model by its name only, and for none that is not there: that is the job's fault, not the machine's.
func TestJobsNameModelsOnly(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	dir := t.TempDir()
	folder := modeltest.Write(t, dir, "own", modeltest.YOLOPose(), nil)
	clip := makeClip(t, filepath.Join(t.TempDir(), "c.mp4"), "-t", "0.2")
	x := ownExtractor(t, dir, "lite")
	for _, model := range []string{folder, filepath.Join(folder, "own.onnx"), "other", "own:lite", "own:"} {
		_, err := x.Run(t.Context(), extract.Request{Clips: []extract.Input{{ID: "c1", Path: clip}}, Params: protocol.Params{Model: model}, Dir: t.TempDir()})
		if f := extract.Fault(err); f == nil || f.Code != protocol.CodeInvalidJob || f.Retryable {
			t.Errorf("%s: %v", model, err)
		}
	}
	for _, model := range []string{"own:own", "own"} {
		if d := cmp.Diff("own", run(t, x, clip, model).Name); d != "" {
			t.Error(d)
		}
	}
	// More models than are kept open, and each of them again.
	for i := range 4 {
		modeltest.Write(t, dir, fmt.Sprintf("more%d", i), modeltest.RTMO(0), nil)
	}
	for range 2 {
		for i := range 4 {
			name := fmt.Sprintf("more%d", i)
			if got := run(t, x, clip, "own:"+name); got.Name != name {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	if got := run(t, x, clip, ""); got.Name != "blazepose-lite" {
		t.Errorf("the default: %+v", got)
	}
	// The default is by name or path, and known by its name as well.
	byPath := ownExtractor(t, "", folder)
	if byPath.Model().Name != "own" {
		t.Errorf("%+v", byPath.Model())
	}
}

func run(t *testing.T, x *extract.Extractor, clip, model string) pose.ModelInfo {
	t.Helper()
	d, _ := extractClip(t, x, clip, protocol.Params{Model: model})
	return d.Model
}
