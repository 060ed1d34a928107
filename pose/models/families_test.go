package models_test

import (
	"image"
	"math"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/models"
	"github.com/posefleet/posefleet/pose/models/modeltest"
	"github.com/posefleet/posefleet/pose/onnx"
	"github.com/posefleet/posefleet/pose/vision"
)

// catalogue looks at a folder of models with the real inference library.
func catalogue(t testing.TB, dir string) *models.Catalogue {
	t.Helper()
	c, err := models.New(models.Config{Assets: need.Assets(t), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open writes a model and opens it by its name.
func open(t testing.TB, m modeltest.Model, fields map[string]any) *models.Model {
	t.Helper()
	dir := t.TempDir()
	modeltest.Write(t, dir, "tiny", m, fields)
	c := catalogue(t, dir)
	e, err := c.Find("tiny")
	if err != nil {
		t.Fatal(err)
	}
	model, err := c.Open(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	return model
}

// scene is six lamps around the middle of a box.
func scene(box pose.Box) map[int]image.Point {
	lamps := map[int]image.Point{}
	for k := range 6 {
		a := float64(k) / 6 * 2 * math.Pi
		lamps[k] = image.Pt(int(box.X+box.W/2+0.3*box.W*math.Cos(a)), int(box.Y+box.H/2+0.35*box.H*math.Sin(a)))
	}
	return lamps
}

func picture(pix []byte, width, height int) vision.Picture {
	return vision.Picture{Pix: pix, Width: width, Height: height}
}

func off(k pose.Keypoint, p image.Point) float64 {
	if !k.Found {
		return math.Inf(1)
	}
	return math.Hypot(k.X-float64(p.X), k.Y-float64(p.Y))
}

// One person at a time: each lamp is found in the picture's own pixels, whatever the crop did to them, and points without a lamp are
// missing, not at (0, 0).
func TestEstimatorsFindLampsThroughTheCrop(t *testing.T) {
	t.Parallel()
	families := []struct {
		name   string
		model  modeltest.Model
		fields map[string]any
		points int
	}{
		{"rtmpose coco17", modeltest.RTMPose(17, false), nil, 17},
		{"rtmpose halpe26", modeltest.RTMPose(26, false), map[string]any{"skeleton": "halpe26"}, 26},
		{"rtmpose trained on bgr", modeltest.RTMPose(17, true), nil, 17},
		{"rtmpose outputs by name", modeltest.RTMPose(17, false), map[string]any{"outputs": map[string]string{"x": "simcc_x", "y": "simcc_y"}}, 17},
		{"movenet float32", modeltest.MoveNet(onnx.Float32), nil, 17},
		{"movenet int32", modeltest.MoveNet(onnx.Int32), nil, 17},
		{"movenet uint8", modeltest.MoveNet(onnx.Uint8), nil, 17},
	}
	views := []struct {
		name          string
		width, height int
		box           pose.Box
		rotation      float64
	}{
		{"landscape", 1280, 720, pose.Box{X: 700, Y: 100, W: 250, H: 500}, 0},
		{"portrait", 720, 1280, pose.Box{X: 100, Y: 300, W: 500, H: 800}, 0},
		{"wide box", 1280, 720, pose.Box{X: 200, Y: 300, W: 700, H: 300}, 0},
		{"small person", 1920, 1080, pose.Box{X: 1500, Y: 600, W: 90, H: 180}, 0},
		{"tiny picture, enlarged", 160, 120, pose.Box{X: 40, Y: 10, W: 70, H: 100}, 0},
		{"beyond the edge", 640, 480, pose.Box{X: -80, Y: 100, W: 300, H: 420}, 0},
		{"leaning", 1280, 720, pose.Box{X: 400, Y: 150, W: 350, H: 450}, 0.6},
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			m := open(t, f.model, f.fields)
			for _, v := range views {
				lamps := scene(v.box)
				roi := m.Estimator.Region(v.box)
				roi.Rotation = v.rotation
				factor := roi.H / 256
				if f.model.Fields["family"] == "movenet" {
					factor = roi.H / 192
				}
				got, err := m.Estimator.Estimate(t.Context(), picture(modeltest.Draw(v.width, v.height, math.Max(4.5*factor, 1.5), lamps), v.width, v.height), roi)
				if err != nil {
					t.Fatalf("%s: %v", v.name, err)
				}
				checkLamps(t, v.name, got.Keypoints, lamps, f.points, image.Pt(v.width, v.height), 1.2*math.Max(factor, 1)+0.5)
			}
		})
	}
}

func checkLamps(t *testing.T, name string, got []pose.Keypoint, lamps map[int]image.Point, points int, size image.Point, tolerance float64) {
	t.Helper()
	if len(got) != points {
		t.Fatalf("%s: %d points, not %d", name, len(got), points)
	}
	for i, k := range got {
		at, lit := lamps[i]
		seen := lit && at.In(image.Rectangle{Max: size})
		switch {
		case seen && off(k, at) > tolerance:
			t.Errorf("%s: point %d is %+v, the lamp is at %v, allowed are %.1f pixels", name, i, k, at, tolerance)
		case !lit && k != (pose.Keypoint{}):
			t.Errorf("%s: point %d has no lamp and is %+v", name, i, k)
		case k.Score < 0 || k.Score > 1:
			t.Errorf("%s: point %d scores %v", name, i, k.Score)
		}
	}
}

// A model that was trained on red, green, blue takes a blue lamp for a red one when its manifest says bgr: the manifest decides, nothing
// is swapped in secret.
func TestOrderOfColoursIsTheManifests(t *testing.T) {
	t.Parallel()
	m := open(t, modeltest.RTMPose(17, false), map[string]any{"input": map[string]any{"channels": "bgr"}})
	box := pose.Box{X: 60, Y: 20, W: 130, H: 200}
	red, blue := image.Pt(110, 80), image.Pt(140, 170)
	pix := modeltest.Draw(256, 256, 5, map[int]image.Point{0: red, 2: blue})
	got, err := m.Estimator.Estimate(t.Context(), picture(pix, 256, 256), m.Estimator.Region(box))
	if err != nil {
		t.Fatal(err)
	}
	if off(got.Keypoints[0], blue) > 4 || off(got.Keypoints[2], red) > 4 {
		t.Errorf("red at %v, blue at %v: %+v %+v", red, blue, got.Keypoints[0], got.Keypoints[2])
	}
}

// Many overlapping people in one picture become those who are there, in the picture's own pixels, through letterbox, tiles and back.
func TestYOLOPoseFindsEachPersonOnce(t *testing.T) {
	t.Parallel()
	m := open(t, modeltest.YOLOPose(), nil)
	views := []struct {
		name          string
		width, height int
		regions       []image.Rectangle
		factor        float64
		people        []image.Point
	}{
		{"landscape", 1280, 720, nil, 5, []image.Point{{250, 350}, {900, 400}}},
		{"portrait", 720, 1280, nil, 5, []image.Point{{350, 900}, {200, 330}}},
		{"enlarged", 128, 96, nil, 0.5, []image.Point{{64, 50}}},
		{"two regions that overlap", 1280, 720, []image.Rectangle{image.Rect(640, 80, 1280, 720), image.Rect(560, 80, 1200, 720)}, 2.5, []image.Point{{900, 400}}},
		{"nobody", 640, 480, nil, 2.5, nil},
	}
	for _, v := range views {
		pix := modeltest.Draw(v.width, v.height, 4.5*v.factor, nil)
		for _, at := range v.people {
			modeltest.Lamp(pix, v.width, v.height, 4.5*v.factor, 0, at)
		}
		got, err := m.Multi.EstimateAll(t.Context(), picture(pix, v.width, v.height), v.regions)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(v.people) {
			t.Errorf("%s: %d people, not %d: %+v", v.name, len(got), len(v.people), got)
			continue
		}
		for _, at := range v.people {
			if !hasPerson(got, at, v.factor) {
				t.Errorf("%s: nobody right at %v: %+v", v.name, at, got)
			}
		}
	}
}

// hasPerson looks for the person whom the model must see around a lamp.
func hasPerson(all []vision.Pose, at image.Point, factor float64) bool {
	for _, p := range all {
		good := p.Score > 0.5 && p.Score <= 1 && !p.Keypoints[16].Found
		x, y := p.Box.Centre()
		good = good && math.Hypot(x-float64(at.X), y-float64(at.Y)) < 2*factor+1
		good = good && math.Abs(p.Box.W-modeltest.YOLOWidth*factor) < factor && math.Abs(p.Box.H-modeltest.YOLOHeight*factor) < factor
		for k := range 16 {
			dx, dy := modeltest.YOLOPoint(k)
			want := image.Pt(at.X+int(dx*factor), at.Y+int(dy*factor))
			good = good && off(p.Keypoints[k], want) < 2*factor+1
		}
		if good {
			return true
		}
	}
	return false
}

func TestMoveNetMultiLeavesEmptyRowsOut(t *testing.T) {
	t.Parallel()
	m := open(t, modeltest.MoveNetMulti(), nil)
	for _, size := range []image.Point{{960, 540}, {540, 960}} {
		factor := 960.0 / 192
		lamps := scene(pose.Box{X: 60, Y: 60, W: float64(size.X) - 120, H: float64(size.Y) - 120})
		got, err := m.Multi.EstimateAll(t.Context(), picture(modeltest.Draw(size.X, size.Y, 4.5*factor, lamps), size.X, size.Y), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 {
			t.Fatalf("%v: %d people, not 1", size, len(got))
		}
		checkLamps(t, size.String(), got[0].Keypoints, lamps, 17, size, 1.2*factor)
		if b, want := got[0].Box, (pose.Box{X: 192, Y: 96, W: 576, H: 576}); math.Abs(b.X-want.X)+math.Abs(b.Y-want.Y)+math.Abs(b.W-want.W)+math.Abs(b.H-want.H) > 0.1 {
			t.Errorf("%v: box %v, not %v", size, b, want)
		}
	}
	if got, err := m.Multi.EstimateAll(t.Context(), picture(modeltest.Draw(960, 540, 1, nil), 960, 540), nil); err != nil || len(got) != 0 {
		t.Errorf("in an empty picture: %+v, %v", got, err)
	}
}

// Having found nobody, RTMO gives one person of zeros. Its scores may exceed 1.
func TestRTMO(t *testing.T) {
	t.Parallel()
	p := picture(modeltest.Draw(192, 96, 1, nil), 192, 96)
	got, err := open(t, modeltest.RTMO(0), map[string]any{"scores": map[string]any{"person": 0.0001, "point": 0.0001}}).Multi.EstimateAll(t.Context(), p, nil)
	if err != nil || len(got) != 0 {
		t.Errorf("nobody: %+v, %v", got, err)
	}
	got, err = open(t, modeltest.RTMO(1.3), nil).Multi.EstimateAll(t.Context(), p, nil)
	if err != nil || len(got) != 1 {
		t.Fatalf("somebody: %+v, %v", got, err)
	}
	if want := (pose.Box{X: 20, Y: 20, W: 80, H: 160}); got[0].Score != 1 || got[0].Box != want || off(got[0].Keypoints[1], image.Pt(28, 48)) > 0.01 {
		t.Errorf("somebody: %+v", got[0])
	}
}

// The same input gives the same points, whatever ran before.
func TestNoTraceOfTheLastPicture(t *testing.T) {
	t.Parallel()
	m := open(t, modeltest.RTMPose(17, false), nil)
	box := pose.Box{X: 50, Y: 20, W: 130, H: 200}
	p := picture(modeltest.Draw(256, 256, 5, scene(box)), 256, 256)
	first, err := m.Estimator.Estimate(t.Context(), p, m.Estimator.Region(box))
	if err != nil {
		t.Fatal(err)
	}
	other := picture(modeltest.Draw(640, 480, 12, scene(pose.Box{X: 300, Y: 100, W: 200, H: 300})), 640, 480)
	if _, err := m.Estimator.Estimate(t.Context(), other, m.Estimator.Region(pose.Box{X: 250, Y: 50, W: 300, H: 400})); err != nil {
		t.Fatal(err)
	}
	again, err := m.Estimator.Estimate(t.Context(), p, m.Estimator.Region(box))
	if err != nil {
		t.Fatal(err)
	}
	for i := range first.Keypoints {
		if first.Keypoints[i] != again.Keypoints[i] {
			t.Errorf("point %d: %v, then %v", i, first.Keypoints[i], again.Keypoints[i])
		}
	}
}
