package models_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose/manifest"
	"github.com/posefleet/posefleet/pose/models"
	"github.com/posefleet/posefleet/pose/models/modeltest"
	"github.com/posefleet/posefleet/pose/onnx"
	"github.com/posefleet/posefleet/pose/vision"
)

func TestCatalogueListsShippedAndOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	modeltest.Write(t, dir, "b", modeltest.RTMO(0), nil)
	modeltest.Write(t, dir, "a", modeltest.RTMO(0), nil)
	var names []string
	for _, e := range catalogue(t, dir).Entries() {
		names = append(names, e.Name)
		if e.Err != nil || e.SHA256 == "" || e.Licence == "" || len(e.Skeleton.Keypoints) == 0 {
			t.Errorf("%+v", e)
		}
	}
	if want := []string{"lite", "full", "heavy", "a", "b"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := modeltest.Write(t, dir, "own", modeltest.RTMO(0), nil)
	file := filepath.Join(folder, "own.onnx")
	// A second model in the same folder, with a manifest that has its name.
	text, err := os.ReadFile(filepath.Join(folder, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	two := filepath.Join(folder, "two.onnx")
	write(t, two, "not a model")
	write(t, filepath.Join(folder, "two.pose.json"), strings.NewReplacer(`"own"`, `"two"`, `"own.onnx"`, `"two.onnx"`).Replace(string(text)))
	write(t, filepath.Join(folder, "three.onnx"), "not a model")
	c := catalogue(t, dir)
	for _, tt := range []struct {
		ask, want string
	}{
		{"own", "own"},
		{folder, "own"},
		{file, "own"},
		{filepath.Join(folder, manifest.FileName), "own"},
		{two, "two"},
		{"heavy", "heavy"},
	} {
		if e, err := c.Locate(tt.ask); err != nil || e.Name != tt.want || e.Err != nil {
			t.Errorf("%s: %q, %v, %v", tt.ask, e.Name, e.Err, err)
		}
	}
	for _, ask := range []string{"nobody", "", filepath.Join(dir, "gone"), filepath.Join(folder, "three.onnx")} {
		if _, err := c.Locate(ask); !errors.Is(err, models.ErrUnknown) {
			t.Errorf("%q: %v", ask, err)
		}
	}
	// Whoever asks from afar may not name files.
	for _, ask := range []string{folder, file, "../own"} {
		if _, err := c.Find(ask); !errors.Is(err, models.ErrUnknown) {
			t.Errorf("%q: %v", ask, err)
		}
	}
}

func TestNoModelOfOnesOwnIsSaid(t *testing.T) {
	t.Parallel()
	c, err := models.New(models.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Find("own:mine"); !errors.Is(err, models.ErrUnknown) || !strings.HasSuffix(err.Error(), "no models but the shipped ones") {
		t.Errorf("error %v", err)
	}
}

func TestFolderThatIsNone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	write(t, file, "x")
	for _, dir := range []string{file, file + "/gone"} {
		if _, err := models.New(models.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), models.EnvDir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// A folder whose name has a meaning in patterns is a folder.
func TestFolderOfAnyName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a[b]*?")
	modeltest.Write(t, dir, "own", modeltest.RTMO(0), nil)
	if e, err := catalogue(t, dir).Find("own"); err != nil || e.Err != nil {
		t.Errorf("%v, %v", e.Err, err)
	}
}

// A model that can't be used is in the list, with a reason that names what to mend, and opens to the same reason.
func TestReasons(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		model  modeltest.Model
		fields map[string]any
		spoil  func(t *testing.T, folder string)
		want   string
	}{
		{name: "a shipped name", model: modeltest.RTMO(0), fields: map[string]any{"name": "heavy"}, want: "belongs to another"},
		{name: "wrong sum", model: modeltest.RTMO(0), fields: map[string]any{"sha256": strings.Repeat("0", 64)}, want: "wrong checksum"},
		{name: "no file", model: modeltest.RTMO(0), fields: map[string]any{"file": "other.onnx"}, want: "other.onnx"},
		{name: "no manifest that can be read", model: modeltest.RTMO(0), want: manifest.FileName, spoil: func(t *testing.T, folder string) {
			write(t, filepath.Join(folder, manifest.FileName), "{")
		}},
		{name: "other points", model: modeltest.YOLOPose(), fields: map[string]any{"skeleton": "halpe26"}, want: "with 26 points"},
		{name: "other points in a crop", model: modeltest.RTMPose(17, false), fields: map[string]any{"skeleton": "halpe26"}, want: "with 26 points"},
		{name: "other split", model: modeltest.RTMPose(17, false), fields: map[string]any{"split": 4}, want: "simcc_x"},
		{name: "other family", model: modeltest.MoveNet(onnx.Int32), fields: map[string]any{"family": "movenet-multi"}, want: "movenet-multi model"},
		{name: "two outputs missing", model: modeltest.YOLOPose(), fields: map[string]any{"family": "rtmo"}, want: `no output for "points"`},
		{name: "unknown output", model: modeltest.YOLOPose(), fields: map[string]any{"outputs": map[string]string{"poses": "x"}}, want: `no output for "poses"`},
		{name: "other layout", model: modeltest.YOLOPose(), fields: map[string]any{"input": map[string]any{"layout": "nhwc"}}, want: "three channels"},
		{
			name: "other size", model: modeltest.YOLOPose(), fields: map[string]any{"input": map[string]any{"width": 640, "height": 640}},
			want: "is not 640, as the manifest says",
		},
		{name: "open size", model: modeltest.MoveNetMulti(), fields: map[string]any{"input": map[string]any{}}, want: "leaves the width open"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			folder := modeltest.Write(t, dir, "own", tt.model, tt.fields)
			if tt.spoil != nil {
				tt.spoil(t, folder)
			}
			c := catalogue(t, dir)
			entries := c.Entries()
			_, err := c.Open(entries[len(entries)-1])
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}

// A file that is no model is a fault of the file, also when its sum is right.
func TestFileThatIsNoModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := modeltest.Write(t, dir, "own", modeltest.RTMO(0), nil)
	path := filepath.Join(folder, "own.onnx")
	write(t, path, "this is text")
	sum, err := assets.Sum(path)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	text, err := os.ReadFile(filepath.Join(folder, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	fields["sha256"] = sum
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, manifest.FileName), string(text))
	c := catalogue(t, dir)
	e, err := c.Find("own")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open(e); err == nil || errors.Is(err, assets.ErrChecksum) || errors.Is(err, vision.ErrLayout) {
		t.Errorf("got %v", err)
	}
}

// What made the points is named down to the library's bytes.
func TestInfoNamesEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	modeltest.Write(t, dir, "own", modeltest.RTMPose(17, false), nil)
	c := catalogue(t, dir)
	library, err := assets.Sum(filepath.Join(need.Assets(t), assets.RuntimeFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lite", "own"} {
		e, err := c.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Open(e)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := assets.Sum(e.Path)
		if err != nil {
			t.Fatal(err)
		}
		i := m.Info
		if i.SHA256 != sum || i.Runtime.SHA256 != library || i.Runtime.Name != "onnxruntime" || i.Runtime.Version == "" || len(i.Detector.SHA256) != 64 {
			t.Errorf("%s: %+v", name, i)
		}
		if trial, err := m.Try(t.Context()); err != nil || trial.People != 0 || trial.Took <= 0 {
			t.Errorf("%s: %+v, %v", name, trial, err)
		}
		if err := errors.Join(m.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
