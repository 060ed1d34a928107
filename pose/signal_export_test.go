package pose_test

import (
	"bytes"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/pose"
)

// refined is a clip of two points and three frames with smoothed points: the athlete, the athlete by filling, nobody.
func refined() pose.Source {
	at := func(x, y float64) pose.Keypoint { return pose.Keypoint{X: x, Y: y, Score: 0.5, Found: true} }
	frames := []pose.Frame{
		{T: 0, People: []pose.Person{{
			Track: 1, Score: 0.9, Box: pose.Box{X: 1, Y: 2, W: 3, H: 4}, Keypoints: []pose.Keypoint{at(10, 20), {}},
			Smooth: &pose.Smooth{Keypoints: []pose.Keypoint{at(11, 21), at(12.344, 22)}, Filled: []int{1}, Rejected: []int{1}, Swapped: []int{0}},
			Angles: []pose.Angle{{Degrees: 170.256, Error: 4}, {Reason: pose.ReasonView}},
		}}},
		{T: 10, People: []pose.Person{}, Filled: []pose.Person{{
			Track: 1, Smooth: &pose.Smooth{Keypoints: []pose.Keypoint{at(13, 23), {}}, Filled: []int{0}},
			Angles: []pose.Angle{{Reason: pose.ReasonMissing}, {Degrees: -3, Error: 1.5}},
		}}},
		{T: 20, People: []pose.Person{}},
	}
	return pose.Source{
		Name: "clip", Skeleton: pose.Skeleton{Name: "two", Keypoints: []string{"nose", "tail"}, Edges: [][2]int{{0, 1}}},
		Clip: pose.ClipHead{
			ID: "c1", Athlete: &pose.Athlete{Track: 1}, Media: pose.Media{Height: 100, FramesDecoded: 3},
			Signal: &pose.Signal{
				TimeScale: 1, Groups: []pose.SignalGroup{{Name: "all", Points: []int{0, 1}, CutoffHz: 8, MaxGapMs: 200}},
				Angles: []pose.AngleDef{{Name: "bend"}, {Name: "lean"}},
			},
		},
		Frames: func() iter.Seq2[pose.Frame, error] { return list(frames...) },
	}
}

func TestSmoothedPointsStandBesideRawOnesInTheDocument(t *testing.T) {
	t.Parallel()
	s := refined()
	var frames []pose.Frame
	for f, err := range s.Frames() {
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	text := document(t, pose.Head{Skeleton: s.Skeleton}, s.Clip, frames...)
	for _, want := range []string{
		`"keypoints":[[10,20,0.5],null],"smooth":{"keypoints":[[11,21,0.5],[12.34,22,0.5]],"filled":[1],"rejected":[1],"swapped":[0]},` +
			`"angles":[[170.26,4],"view"]}]}`,
		`{"t":10,"people":[],"filled":[{"track":1,"smooth":{"keypoints":[[13,23,0.5],null],"filled":[0]},"angles":["missing",[-3,1.5]]}]}`,
		`{"t":20,"people":[]}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %s", text, want)
		}
	}
	d, err := pose.Decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := d.Write(&again, false); err != nil || again.String() != text {
		t.Errorf("read and written again: %s\nerror %v", again.String(), err)
	}
}

func TestFormatsOfSmoothedClips(t *testing.T) {
	t.Parallel()
	tests := []struct {
		format pose.Format
		want   []string
	}{
		{pose.FormatCSV, []string{
			"frame,time_s,person_id,athlete,score,nose_x,nose_y,nose_score,tail_x,tail_y,tail_score,nose_smooth_x,nose_smooth_y,nose_mark," +
				"tail_smooth_x,tail_smooth_y,tail_mark,bend_deg,bend_error,bend_reason,lean_deg,lean_error,lean_reason",
			"0,0,1,1,0.9,10,20,0.5,,,,11,21,s,12.34,22,fr,170.26,4,,,,view",
			"1,0.01,1,1,,,,,,,,13,23,f,,,,,,missing,-3,1.5,",
			"2,0.02,,,,,,,,,,,,,,,,,,,,,",
		}},
		{pose.FormatMOT, []string{
			"clip", "version=1", "nRows=3", "nColumns=3", "inDegrees=yes", "", "endheader", "time\tbend\tlean",
			"0\t170.26\tnan", "0.01\tnan\t-3", "0.02\tnan\tnan",
		}},
		{pose.FormatTRC, []string{"1\t0\t11\t79\t0\t12.34\t78\t0", "2\t0.01\t13\t77\t0\t\t\t", "3\t0.02\t\t\t\t\t\t"}},
	}
	for _, tt := range tests {
		text := export(t, func(b *strings.Builder) error { return pose.Export(b, tt.format, refined()) })
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if diff := cmp.Diff(tt.want, lines[len(lines)-len(tt.want):]); diff != "" {
			t.Errorf("%s: %s", tt.format, diff)
		}
	}
	plain := refined()
	plain.Clip.Signal = nil
	if err := pose.ExportMOT(&strings.Builder{}, plain); err == nil {
		t.Error("a clip without angles became a motion file")
	}
	if err := pose.Export(&strings.Builder{}, pose.FormatJSON, refined()); err == nil {
		t.Error("json was exported")
	}
}
