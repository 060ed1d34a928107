package pose_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/pose"
)

// source is a clip of three frames: two people, nobody, one person with all points missing but one.
func source() pose.Source {
	points := make([]pose.Keypoint, 33)
	for i := range points {
		points[i] = pose.Keypoint{X: float64(i), Y: float64(100 - i), Score: 0.5, Found: true}
	}
	points[0] = pose.Keypoint{}
	few := make([]pose.Keypoint, 33)
	few[23] = pose.Keypoint{X: 7.125, Y: 8, Score: 1, Found: true}
	all := []pose.Frame{
		{T: 0, People: []pose.Person{{Track: 2, Score: 1, Box: pose.Box{X: 1, Y: 2, W: 3, H: 4}, Keypoints: points}, {Track: 5, Score: 0.25, Keypoints: few}}},
		{T: 33.333333},
		{T: 70, People: []pose.Person{{Track: 2, Score: 1, Keypoints: few}}},
	}
	return pose.Source{
		Name: "my clip", Skeleton: pose.BlazePose33(),
		Clip:   pose.ClipHead{ID: "c1", Athlete: &pose.Athlete{Track: 2}, Media: pose.Media{Height: 200, FramesDecoded: 3, FPS: pose.FPS{Average: new(29.97)}}},
		Frames: func() iter.Seq2[pose.Frame, error] { return list(all...) },
	}
}

func export(t *testing.T, f func(*strings.Builder) error) string {
	t.Helper()
	var b strings.Builder
	if err := f(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCSVHasALineForEveryFrameAndEmptyCellsForWhatIsMissing(t *testing.T) {
	t.Parallel()
	text := export(t, func(b *strings.Builder) error { return pose.ExportCSV(b, source()) })
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines, want the head and 4:\n%s", len(lines), text)
	}
	columns := strings.Split(lines[0], ",")
	for i, l := range lines {
		if n := len(strings.Split(l, ",")); n != 5+33*3 {
			t.Errorf("line %d has %d cells, want %d", i, n, 5+33*3)
		}
	}
	if got := strings.Join(columns[:8], ","); got != "frame,time_s,person_id,athlete,score,nose_x,nose_y,nose_score" {
		t.Errorf("columns start with %s", got)
	}
	for i, want := range []string{"0,0,2,1,1,,,,1,99,0.5,", "0,0,5,0,0.25,,,,", "1,0.033333,,,,", "2,0.07,2,1,1,,,"} {
		if !strings.HasPrefix(lines[i+1], want) {
			t.Errorf("line %d is %.60s…, want %s…", i+1, lines[i+1], want)
		}
	}
}

func TestTRCIsInPixelsWithYUpAndTrueTimes(t *testing.T) {
	t.Parallel()
	text := export(t, func(b *strings.Builder) error { return pose.ExportTRC(b, source()) })
	lines := strings.Split(text, "\n")
	want := []string{
		"PathFileType\t4\t(X/Y/Z)\tmy clip.trc",
		"DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames",
		"29.97\t29.97\t3\t33\tpx\t29.97\t1\t3",
	}
	if diff := cmp.Diff(want, lines[:3]); diff != "" {
		t.Error(diff)
	}
	rows := lines[6:9]
	for i, start := range []string{"1\t0\t\t\t\t1\t101\t0\t2\t102\t0\t", "2\t0.033333\t\t\t", "3\t0.07\t\t\t"} {
		if !strings.HasPrefix(rows[i], start) {
			t.Errorf("row %d is %q, want %q…", i, rows[i], start)
		}
		if n := strings.Count(rows[i], "\t"); n != 1+33*3 {
			t.Errorf("row %d has %d tabs, want %d", i, n, 1+33*3)
		}
	}
	if !strings.Contains(rows[2], "\t7.13\t192\t0") && !strings.Contains(rows[2], "\t7.12\t192\t0") {
		t.Errorf("row %q lacks the left hip", rows[2])
	}
}

func TestCOCOResultsCountFramesFromZero(t *testing.T) {
	t.Parallel()
	text := export(t, func(b *strings.Builder) error { return pose.ExportCOCO(b, source()) })
	var got []struct {
		Image     int       `json:"image_id"`
		Category  int       `json:"category_id"`
		Keypoints []float64 `json:"keypoints"`
		Score     float64   `json:"score"`
		Bbox      []float64 `json:"bbox"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Image != 0 || got[1].Image != 0 || got[2].Image != 2 {
		t.Fatalf("entries %+v", got)
	}
	if len(got[0].Keypoints) != 51 || got[0].Category != 1 {
		t.Errorf("entry has %d numbers and category %d", len(got[0].Keypoints), got[0].Category)
	}
	// The nose is missing; the left eye is point 2 of 33, the right ankle point 28.
	if diff := cmp.Diff([]float64{0, 0, 0, 2, 98, 0.5}, got[0].Keypoints[:6]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{28, 72, 0.5}, got[0].Keypoints[48:]); diff != "" {
		t.Error(diff)
	}
}

func TestOpenPoseWritesAFileForEveryFrame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := pose.ExportOpenPose(dir, source()); err != nil {
		t.Fatal(err)
	}
	people := func(i int) []struct {
		ID     []int     `json:"person_id"`
		Points []float64 `json:"pose_keypoints_2d"`
	} {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("my clip_%012d_keypoints.json", i)))
		if err != nil {
			t.Fatal(err)
		}
		var f struct {
			Version float64 `json:"version"`
			People  []struct {
				ID     []int     `json:"person_id"`
				Points []float64 `json:"pose_keypoints_2d"`
			} `json:"people"`
		}
		if err := json.Unmarshal(data, &f); err != nil || f.Version != 1.3 || f.People == nil {
			t.Fatalf("frame %d: %s (error %v)", i, data, err)
		}
		return f.People
	}
	first := people(0)
	if len(first) != 2 || len(people(1)) != 0 || len(people(2)) != 1 {
		t.Fatal("people are in other frames")
	}
	if len(first[0].Points) != 75 || first[0].ID[0] != 2 {
		t.Errorf("person %d has %d numbers", first[0].ID[0], len(first[0].Points))
	}
	// Nose missing; neck between shoulders 11 and 12; left big toe (19) is foot index 31; small toes are unknown.
	if diff := cmp.Diff([]float64{0, 0, 0, 11.5, 88.5, 0.5, 12, 88, 0.5}, first[0].Points[:9]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{31, 69, 0.5, 0, 0, 0, 29, 71, 0.5}, first[0].Points[57:66]); diff != "" {
		t.Error(diff)
	}
}

func TestSkeletonsAreWhole(t *testing.T) {
	t.Parallel()
	for _, s := range []pose.Skeleton{pose.BlazePose33(), pose.COCO17(), pose.Body25()} {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			joined := map[int]bool{}
			for _, e := range s.Edges {
				for _, i := range e {
					if i < 0 || i >= len(s.Keypoints) {
						t.Errorf("edge %v", e)
					}
					joined[i] = true
				}
			}
			for i, name := range s.Keypoints {
				if !joined[i] || s.Index(name) != i {
					t.Errorf("point %d %s: bones %v, index %d", i, name, joined[i], s.Index(name))
				}
			}
		})
	}
	if n := len(pose.BlazePose33().Keypoints); n != 33 {
		t.Errorf("BlazePose has %d points", n)
	}
}
