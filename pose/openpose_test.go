package pose_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/posefleet/posefleet/pose"
)

// openPoseFile is one frame as OpenPose writes it.
type openPoseFile struct {
	Version float64          `json:"version"`
	People  []openPosePerson `json:"people"`
}

type openPosePerson struct {
	ID     []int     `json:"person_id"`
	Points []float64 `json:"pose_keypoints_2d"`
}

// TestOpenPoseGoesInAndOutUnchanged: OpenPose's files, our document as bytes, and OpenPose's files again.
func TestOpenPoseGoesInAndOutUnchanged(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		in, out := filepath.Join(root, fmt.Sprint(n, "in")), filepath.Join(root, fmt.Sprint(n, "out"))
		if os.Mkdir(in, 0o755) != nil || os.Mkdir(out, 0o755) != nil {
			t.Fatal("no folders")
		}
		files := rapid.SliceOfN(rapid.Custom(drawFile), 1, 4).Draw(t, "files")
		for i, f := range files {
			data, err := json.Marshal(f)
			if err != nil || os.WriteFile(filepath.Join(in, openPoseFileName(i)), data, 0o600) != nil {
				t.Fatal("can't write", err)
			}
		}
		name, d, err := pose.ReadOpenPose(in, 30)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := d.Write(&b, true); err != nil {
			t.Fatal(err)
		}
		own, err := pose.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		if err := pose.ExportOpenPose(out, pose.SourceOf(name, own, 0)); err != nil {
			t.Fatal(err)
		}
		for i, want := range files {
			data, err := os.ReadFile(filepath.Join(out, openPoseFileName(i)))
			if err != nil {
				t.Fatal(err)
			}
			var got openPoseFile
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("frame %d: %s", i, diff)
			}
		}
	})
}

func openPoseFileName(i int) string { return fmt.Sprintf("my clip_1_%012d_keypoints.json", i) }

// drawFile draws a frame with the digits of a float32, as OpenPose has.
func drawFile(t *rapid.T) openPoseFile {
	f := openPoseFile{Version: 1.3, People: []openPosePerson{}}
	for range rapid.IntRange(0, 2).Draw(t, "people") {
		p := openPosePerson{ID: []int{-1}}
		for range 25 {
			x, y, c := 0.0, 0.0, 0.0
			if rapid.IntRange(0, 3).Draw(t, "found") > 0 {
				x, y = digits(t, 2000), digits(t, 2000)
				c = digits(t, 1.05)
			}
			p.Points = append(p.Points, x, y, c)
		}
		f.People = append(f.People, p)
	}
	return f
}

func digits(t *rapid.T, top float64) float64 {
	v := math.Abs(rapid.Float64Range(0, top).Draw(t, "v"))
	if rapid.Bool().Draw(t, "short") {
		v = math.Round(v*1000) / 1000
	}
	return v
}

func TestOpenPoseFoldersWithGapsAndFaults(t *testing.T) {
	t.Parallel()
	empty := `{"version":1.1,"people":[]}`
	tests := []struct {
		name   string
		files  map[string]string
		frames int
	}{
		{"starts later, one is missing", map[string]string{"a_000000000007_keypoints.json": empty, "a_000000000009_keypoints.json": empty, "notes.txt": "x"}, 3},
		{"no files", map[string]string{"notes.txt": "x"}, 0},
		{"two clips", map[string]string{"a_000000000000_keypoints.json": empty, "b_000000000001_keypoints.json": empty}, 0},
		{"far away", map[string]string{"a_000000000000_keypoints.json": empty, "a_900000000000_keypoints.json": empty}, 0},
		{"broken", map[string]string{"a_000000000000_keypoints.json": `{"people":[`}, 0},
		{"COCO points", map[string]string{"a_000000000000_keypoints.json": `{"people":[{"pose_keypoints_2d":[1,2,3]}]}`}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range tt.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, d, err := pose.ReadOpenPose(dir, 25)
			if (err == nil) != (tt.frames > 0) {
				t.Fatalf("error %v", err)
			}
			if err == nil && (len(d.Clips[0].Frames) != tt.frames || d.Clips[0].Frames[2].T != 80) {
				t.Errorf("frames %+v", d.Clips[0].Frames)
			}
		})
	}
}
