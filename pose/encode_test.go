package pose_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/posefleet/posefleet/pose"
)

func list(frames ...pose.Frame) iter.Seq2[pose.Frame, error] {
	c := pose.Clip{Frames: frames}
	return c.All()
}

func encode(t *testing.T, head pose.Head, clip pose.ClipHead, frames iter.Seq2[pose.Frame, error]) (string, error) {
	t.Helper()
	var b bytes.Buffer
	e, err := pose.NewEncoder(&b, head)
	if err != nil {
		return "", err
	}
	err = e.Clip(clip, frames)
	return b.String(), errors.Join(err, e.Close())
}

func document(t *testing.T, head pose.Head, clip pose.ClipHead, frames ...pose.Frame) string {
	t.Helper()
	var b bytes.Buffer
	e, err := pose.NewEncoder(&b, head)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Clip(clip, list(frames...)), e.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDocumentHasTheContractsForm(t *testing.T) {
	t.Parallel()
	head := pose.Head{
		AnalysisID: new("an_1"), Model: pose.ModelInfo{Name: "m", Version: "1", SHA256: "ab"},
		Skeleton: pose.Skeleton{Name: "two", Keypoints: []string{"nose", "tail"}, Edges: [][2]int{{0, 1}}},
	}
	clip := pose.ClipHead{
		ID: "c1", Athlete: &pose.Athlete{Track: 1, Reason: "because", Margin: 0.4},
		Media: pose.Media{
			Container: "mov", Codec: "h264", Width: 1080, Height: 1920, Rotation: 90, PixelAspect: 1,
			FPS:          pose.FPS{Nominal: new(60.0), Average: new(59.94005994), Capture: new(240.0)},
			VariableRate: true, DurationMs: 1666.66666, Timestamps: pose.TimestampsPTS, FramesDeclared: new(2), FramesDecoded: 2,
		},
	}
	got := document(t, head, clip,
		pose.Frame{T: 0, People: []pose.Person{{
			Track: 1, Score: 0.98, Box: pose.Box{X: 0, Y: 0, W: 1, H: 1},
			Keypoints: []pose.Keypoint{{X: 512.104, Y: 300.2, Score: 0.99, Found: true}, {}},
		}}},
		pose.Frame{T: 16.6666666})
	want := `{"schema":"posefleet.pose/1",
"analysisId":"an_1",
"model":{"name":"m","version":"1","sha256":"ab"},
"skeleton":{"name":"two","keypoints":["nose","tail"],"edges":[[0,1]]},
"clips":[
{"id":"c1",
"media":{"container":"mov","codec":"h264","width":1080,"height":1920,"rotation":90,"mirrored":false,"pixelAspect":1,` +
		`"fps":{"nominal":60,"average":59.9401,"capture":240},"variableRate":true,"durationMs":1666.667,"timestamps":"pts",` +
		`"framesDeclared":2,"framesDecoded":2,"decodeErrors":0,"partial":false,"sizeChanges":0},
"athlete":{"track":1,"reason":"because","margin":0.4},
"frames":[
{"t":0,"people":[{"track":1,"score":0.98,"box":[0,0,1,1],"keypoints":[[512.1,300.2,0.99],null]}]},
{"t":16.667,"people":[]}]}]}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUnknownThingsAreNullInTheDocument(t *testing.T) {
	t.Parallel()
	got := document(t, pose.Head{}, pose.ClipHead{ID: "c1"})
	for _, want := range []string{`"analysisId":null`, `"athlete":null`, `"framesDeclared":null`, `"capture":null`, `"frames":[]`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

func TestNumbersThatAreNoneNeverReachTheDocument(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	got := document(t, pose.Head{}, pose.ClipHead{ID: "c", Media: pose.Media{DurationMs: nan, PixelAspect: inf, FPS: pose.FPS{Average: &nan}}},
		pose.Frame{People: []pose.Person{{Score: nan, Box: pose.Box{X: nan, Y: -inf, W: inf}, Keypoints: []pose.Keypoint{
			{X: nan, Y: 1, Score: 1, Found: true}, {X: 1, Y: 1, Score: inf, Found: true}, {X: -0.001, Y: 2, Score: 7, Found: true},
		}}}})
	if !json.Valid([]byte(got)) {
		t.Errorf("not JSON: %s", got)
	}
	if want := `"keypoints":[null,null,[0,2,1]]`; !strings.Contains(got, want) {
		t.Errorf("no %s in %s", want, got)
	}
	if _, err := encode(t, pose.Head{}, pose.ClipHead{}, list(pose.Frame{T: nan})); !errors.Is(err, pose.ErrNotFinite) {
		t.Errorf("a frame without a time: error %v, want %v", err, pose.ErrNotFinite)
	}
}

func TestFaultOfTheFramesEndsTheDocument(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := encode(t, pose.Head{}, pose.ClipHead{}, func(yield func(pose.Frame, error) bool) { yield(pose.Frame{}, broken) })
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

func TestDocumentsOfOtherSchemasAreNotRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"schema":"posefleet.pose/2"}`, `[]`, `{"schema":"posefleet.pose/1","clips":[{"frames":[{"people":[{"keypoints":[[1,2]]}]}]}]}`} {
		if _, err := pose.Decode(strings.NewReader(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// frames generates frames whose numbers are exact in the document.
func frames(t *rapid.T) []pose.Frame {
	hundredth := rapid.Map(rapid.IntRange(-100_000, 1_000_000), func(v int) float64 { return float64(v) / 100 })
	score := rapid.Map(rapid.IntRange(0, 10_000), func(v int) float64 { return float64(v) / 10_000 })
	point := rapid.Custom(func(t *rapid.T) pose.Keypoint {
		if rapid.Bool().Draw(t, "missing") {
			return pose.Keypoint{}
		}
		return pose.Keypoint{X: hundredth.Draw(t, "x"), Y: hundredth.Draw(t, "y"), Score: score.Draw(t, "score"), Found: true}
	})
	person := rapid.Custom(func(t *rapid.T) pose.Person {
		return pose.Person{
			Track: rapid.IntRange(1, 99).Draw(t, "track"), Score: score.Draw(t, "score"),
			Box:       pose.Box{X: hundredth.Draw(t, "x"), Y: hundredth.Draw(t, "y"), W: hundredth.Draw(t, "w"), H: hundredth.Draw(t, "h")},
			Keypoints: rapid.SliceOfN(point, 33, 33).Draw(t, "points"),
		}
	})
	out := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pose.Frame {
		return pose.Frame{T: float64(rapid.IntRange(0, 1e9).Draw(t, "t")) / 1000, People: rapid.SliceOfN(person, 0, 3).Draw(t, "people")}
	}), 0, 5).Draw(t, "frames")
	return out
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		want := frames(r)
		text := document(t, pose.Head{Skeleton: pose.BlazePose33()}, pose.ClipHead{ID: "c"}, want...)
		d, err := pose.Decode(strings.NewReader(text))
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(want, d.Clips[0].Frames); len(want) > 0 && diff != "" {
			r.Fatal(diff)
		}
		if again := document(t, pose.Head{Skeleton: pose.BlazePose33()}, pose.ClipHead{ID: "c"}, d.Clips[0].Frames...); again != text {
			r.Fatalf("%s\nwas written anew as\n%s", text, again)
		}
	})
}

func TestEncoderKeepsNothing(t *testing.T) { //nolint:paralleltest // it counts the allocations of the whole process
	person := pose.Person{Track: 1, Keypoints: make([]pose.Keypoint, 33)}
	e, err := pose.NewEncoder(discard{}, pose.Head{})
	if err != nil {
		t.Fatal(err)
	}
	allocated := testing.AllocsPerRun(1, func() {
		err = e.Clip(pose.ClipHead{}, func(yield func(pose.Frame, error) bool) {
			people := []pose.Person{person}
			for i := range 100_000 {
				if !yield(pose.Frame{T: float64(i), People: people}, nil) {
					return
				}
			}
		})
	})
	if err != nil || allocated > 1000 {
		t.Errorf("%.0f allocations for 100,000 frames (error %v), want a few", allocated, err)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
