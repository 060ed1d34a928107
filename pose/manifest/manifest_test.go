package manifest_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/manifest"
)

// least is a manifest that says no more than it must.
func least() map[string]any {
	return map[string]any{
		"schema": "posefleet.model/1", "name": "m", "version": "1", "family": "rtmpose", "file": "m.onnx",
		"sha256": strings.Repeat("0a", 32), "licence": "Apache-2.0", "skeleton": "halpe26",
	}
}

func encode(t testing.TB, fields map[string]any) []byte {
	t.Helper()
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFamilyFillsIn(t *testing.T) {
	t.Parallel()
	m, err := manifest.Parse(encode(t, least()))
	if err != nil {
		t.Fatal(err)
	}
	want := manifest.Input{
		Layout: manifest.NCHW, Channels: manifest.RGB, Scale: 1,
		Mean: []float64{123.675, 116.28, 103.53}, Std: []float64{58.395, 57.12, 57.375},
	}
	if d := cmp.Diff(want, m.Input); d != "" {
		t.Error(d)
	}
	if m.Resize.Mode != manifest.Crop || m.Resize.Padding != 1.25 || m.Split != 2 || len(m.Skeleton.Keypoints) != 26 {
		t.Errorf("%+v", m)
	}
}

// Every family can be described by what a manifest must say alone.
func TestEveryFamilyHasDefaults(t *testing.T) {
	t.Parallel()
	for _, f := range manifest.Families() {
		fields := least()
		fields["family"] = f
		if _, err := manifest.Parse(encode(t, fields)); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		if len(f.Roles()) == 0 {
			t.Errorf("%s has no outputs", f)
		}
	}
}

// What is wrong is named by its field, so that whoever wrote the file finds it.
func TestFaultsNameTheField(t *testing.T) {
	t.Parallel()
	tests := []struct {
		field string
		value any
		want  string
	}{
		{"schema", "posefleet.model/2", "schema:"},
		{"name", "Big Model", "name:"},
		{"name", "../x", "name:"},
		{"version", nil, "version:"},
		{"family", "openpose", "family:"},
		{"file", "../m.onnx", "file:"},
		{"file", "sub/m.onnx", "file:"},
		{"file", "", "file:"},
		{"sha256", strings.Repeat("0A", 32), "sha256:"},
		{"sha256", "00", "sha256:"},
		{"licence", nil, "licence:"},
		{"skeleton", "coco18", "skeleton"},
		{"skeleton", nil, "skeleton:"},
		{"skeleton", map[string]any{"name": "own", "keypoints": []string{"a", "a"}}, "skeleton.keypoints:"},
		{"skeleton", map[string]any{"name": "own", "keypoints": []string{"a", "b"}, "edges": [][2]int{{0, 2}}}, "skeleton.edges:"},
		{"skeleton", map[string]any{"name": "coco17", "keypoints": []string{"a"}}, "skeleton:"},
		{"input", map[string]any{"layout": "nwhc"}, "input.layout:"},
		{"input", map[string]any{"channels": "gbr"}, "input.channels:"},
		{"input", map[string]any{"scale": -1}, "input.scale:"},
		{"input", map[string]any{"mean": []float64{1, 2}}, "input.mean:"},
		{"input", map[string]any{"std": []float64{1, 0, 1}}, "input.std:"},
		{"input", map[string]any{"width": 192}, "input:"},
		{"input", map[string]any{"width": 1 << 20, "height": 1}, "input:"},
		{"input", map[string]any{"colour": "rgb"}, `"colour"`},
		{"input", "big", "input"},
		{"resize", map[string]any{"mode": "letterbox"}, "resize.mode:"},
		{"resize", map[string]any{"padding": 9}, "resize.padding:"},
		{"resize", map[string]any{"fill": 256}, "resize.fill:"},
		{"outputs", map[string]string{"poses": "x"}, "outputs:"},
		{"scores", map[string]any{"point": 1.5}, "scores.point:"},
		{"split", 100, "split:"},
		{"licnece", "MIT", `"licnece"`},
	}
	for _, tt := range tests {
		fields := least()
		fields[tt.field] = tt.value
		if tt.value == nil {
			delete(fields, tt.field)
		}
		if _, err := manifest.Parse(encode(t, fields)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s = %v: got %v, want it to name %s", tt.field, tt.value, err, tt.want)
		}
	}
	for _, text := range []string{"", "[]", "null", "{} {}", "{", `{"name":1}`} {
		if _, err := manifest.Parse([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// All faults are told at once.
func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	fields := least()
	fields["name"], fields["licence"], fields["split"] = "NO", "", 0.5
	_, err := manifest.Parse(encode(t, fields))
	for _, want := range []string{"name:", "licence:", "split:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %s", err, want)
		}
	}
}

func TestReadNamesThePath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), manifest.FileName)
	if _, err := manifest.Read(path); !errors.Is(err, manifest.ErrManifest) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"schema":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.Read(path); !errors.Is(err, manifest.ErrManifest) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(path, encode(t, least()), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Read(path)
	if err != nil || m.Path() != filepath.Join(filepath.Dir(path), "m.onnx") {
		t.Errorf("got %v, %v", m.Path(), err)
	}
}

// A manifest that was read and written again says the same.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	own := least()
	own["skeleton"] = map[string]any{"name": "own", "keypoints": []string{"nose", "left_wrist"}, "edges": [][2]int{{0, 1}}}
	for _, fields := range []map[string]any{least(), own} {
		first, err := manifest.Parse(encode(t, fields))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := manifest.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(first, second); d != "" {
			t.Error(d)
		}
	}
}

// The examples of the documentation are manifests that this build takes.
func TestDocumentedManifests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(need.ModuleRoot(t), "docs", "pose.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, block := range strings.Split(string(text), "```json\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, manifest.Schema) {
			continue
		}
		n++
		if m, err := manifest.Parse([]byte(block)); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	if n < 2 {
		t.Errorf("%d examples", n)
	}
}

// FuzzParse: whatever the bytes, there is an error or a manifest that is valid and survives being written.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema":"posefleet.model/1","name":"m","version":"1","family":"movenet","file":"m.onnx","licence":"MIT","skeleton":"coco17"}`))
	f.Add([]byte(`{"skeleton":{"name":"x","keypoints":["a"],"edges":[[0,0]]},"input":{"mean":[1e999]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := manifest.Parse(data)
		if err != nil {
			return
		}
		if m.Name == "" || m.File != filepath.Base(m.File) || len(m.Skeleton.Keypoints) == 0 {
			t.Errorf("%+v", m)
		}
	})
}

// Every skeleton reaches the forms that other programs read: all points that they share by meaning, and no others.
func TestSkeletonsReachTheExporters(t *testing.T) {
	t.Parallel()
	tests := []struct {
		from, to pose.Skeleton
		without  []string
	}{
		{pose.COCO17(), pose.COCO17(), nil},
		{pose.Halpe26(), pose.COCO17(), nil},
		{pose.BlazePose33(), pose.COCO17(), nil},
		{pose.Halpe26(), pose.Body25(), nil},
		{pose.BlazePose33(), pose.Body25(), []string{"left_small_toe", "right_small_toe"}},
		{pose.COCO17(), pose.Body25(), []string{
			"left_big_toe", "left_small_toe", "left_heel", "right_big_toe", "right_small_toe", "right_heel",
		}},
	}
	for _, tt := range tests {
		points := make([]pose.Keypoint, len(tt.from.Keypoints))
		for i := range points {
			points[i] = pose.Keypoint{X: float64(i), Y: 1, Score: 1, Found: true}
		}
		var missing []string
		for i, k := range pose.NewView(tt.from, tt.to).Points(points) {
			if !k.Found {
				missing = append(missing, tt.to.Keypoints[i])
			}
		}
		if d := cmp.Diff(tt.without, missing); d != "" {
			t.Errorf("%s as %s: %s", tt.from.Name, tt.to.Name, d)
		}
	}
}
