package extract_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/protocol"
)

// makeClip writes a small clip with nobody in it.
func makeClip(t *testing.T, path string, args ...string) string {
	t.Helper()
	full := slices.Concat([]string{"-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", "testsrc=size=160x120:rate=25"}, args,
		[]string{"-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "ultrafast", "-f", "mp4", "file:" + path})
	if out, err := exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), full...).CombinedOutput(); err != nil {
		t.Fatalf("make clip: %v: %s", err, out)
	}
	return path
}

func TestNobodyIsInventedWhereThereIsNobody(t *testing.T) {
	t.Parallel()
	x := newExtractor(t, "lite")
	for _, file := range []string{
		"odd/black_no_person.mp4", "odd/testcard_no_person.mp4", "odd/tiny_16x16.mp4",
		"videos/decord_phone_rot0.mov", "videos/decord_phone_rot90.mov", "videos/decord_phone_rot180.mov", "videos/decord_phone_rot270.mov",
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			d, text := extractClip(t, x, need.Media(t, file), protocol.Params{})
			c := d.Clips[0]
			if c.Athlete != nil || len(c.Frames) != c.Media.FramesDecoded || len(c.Frames) == 0 {
				t.Errorf("athlete %+v, %d frames of %d", c.Athlete, len(c.Frames), c.Media.FramesDecoded)
			}
			for i, f := range c.Frames {
				if len(f.People) != 0 {
					t.Fatalf("frame %d: %+v", i, f.People)
				}
			}
			if !bytes.Contains(text, []byte(`"people":[]`)) || !bytes.Contains(text, []byte(`"athlete":null`)) {
				t.Error("nobody is not written as the contract says")
			}
		})
	}
}

func TestPeopleKeepTheirIDsAndTheAthleteIsTheOneWhoMoves(t *testing.T) {
	t.Parallel()
	x := newExtractor(t, "lite")
	path := need.Media(t, "videos/pose2sim_two_people_cam01.mp4")
	d, _ := extractClip(t, x, path, protocol.Params{MaxPeople: 2})
	c := d.Clips[0]
	for id := 1; id <= 2; id++ {
		n := 0
		for _, p := range track(c, id) {
			if p != nil {
				n++
			}
		}
		if n < 95*len(c.Frames)/100 {
			t.Errorf("person %d is in %d of %d frames", id, n, len(c.Frames))
		}
	}
	nobodyTwice(t, c)
	// The athlete balances on the right; the woman in front of him is larger and stands.
	athlete, other := c.Athlete.Track, 3-c.Athlete.Track
	a, b := track(c, athlete)[0], track(c, other)[0]
	if !(a.Box.H < b.Box.H) || !(c.Athlete.Margin > 0.2) {
		t.Errorf("athlete %+v has height %.0f, the other person %.0f", c.Athlete, a.Box.H, b.Box.H)
	}
	x0, y0 := b.Box.Centre()
	hinted, _ := extractClip(t, x, path, protocol.Params{MaxPeople: 2, Athlete: &protocol.Athlete{Clip: "c1", T: 10, X: x0, Y: y0}})
	if h := hinted.Clips[0].Athlete; h.Track != other || !strings.Contains(h.Reason, "asked for") {
		t.Errorf("athlete %+v, want track %d as asked for", h, other)
	}
}

// nobodyTwice checks that no two people of a frame show one body.
func nobodyTwice(t *testing.T, c pose.Clip) {
	t.Helper()
	for i, f := range c.Frames {
		for j, p := range f.People {
			for _, q := range f.People[:j] {
				if p.Track == q.Track || pose.SameBody(pose.Observation{Box: p.Box, Keypoints: p.Keypoints}, pose.Observation{Box: q.Box, Keypoints: q.Keypoints}) {
					t.Errorf("frame %d: people %d and %d are one", i, p.Track, q.Track)
				}
			}
		}
	}
}

func TestNoTrackCrossesTheCutOfAClip(t *testing.T) {
	t.Parallel()
	d, _ := extractClip(t, newExtractor(t, "lite"), need.Media(t, "odd/hard_cut.mp4"), protocol.Params{MaxPeople: 2})
	c := d.Clips[0]
	if len(c.Media.Cuts) != 1 || c.Media.Cuts[0] != c.Frames[100].T {
		t.Fatalf("cuts at %v, want one at %v", c.Media.Cuts, c.Frames[100].T)
	}
	before := map[int]bool{}
	for i, f := range c.Frames {
		for _, p := range f.People {
			if i < 100 {
				before[p.Track] = true
			} else if before[p.Track] {
				t.Fatalf("person %d is on both sides of the cut", p.Track)
			}
		}
	}
	nobodyTwice(t, c)
}

func TestSameClipGivesTheSameBytesWhateverRanBefore(t *testing.T) {
	t.Parallel()
	path := need.Media(t, "odd/editlist_trim.mp4")
	x, y := newExtractor(t, "lite"), newExtractor(t, "lite")
	_, first := extractClip(t, x, path, protocol.Params{})
	extractClip(t, x, need.Media(t, "odd/two_frames.mp4"), protocol.Params{})
	if _, err := x.Run(t.Context(), extract.Request{Clips: []extract.Input{{ID: "c1", Path: need.Media(t, "odd/text.mp4")}}, Dir: t.TempDir()}); err == nil {
		t.Fatal("a text was taken for a clip")
	}
	_, again := extractClip(t, x, path, protocol.Params{})
	_, other := extractClip(t, y, path, protocol.Params{})
	if !bytes.Equal(first, again) || !bytes.Equal(first, other) {
		t.Error("the documents differ")
	}
}

func TestSeveralClipsGoIntoOneDocument(t *testing.T) {
	t.Parallel()
	x := newExtractor(t, "lite")
	dir := t.TempDir()
	short, long := makeClip(t, filepath.Join(dir, "short.mp4"), "-t", "0.2"), makeClip(t, filepath.Join(dir, "long.mp4"), "-t", "0.4")
	scratch := t.TempDir()
	var shares []float64
	r, err := x.Run(t.Context(), extract.Request{
		Clips: []extract.Input{{ID: "a", Path: short}, {ID: "b", Path: long}}, Dir: scratch,
		Params:   protocol.Params{CaptureFPS: 100},
		Progress: func(p extract.Progress) { shares = append(shares, p.Done) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.WriteDocumentFile(filepath.Join(dir, "pose.json.gz")); err != nil {
		t.Fatal(err)
	}
	if len(r.Clips) != 2 || r.Clips[0].ID != "a" || r.Clips[1].Media.FramesDecoded != 10 || *r.Clips[1].Media.FPS.Capture != 100 {
		t.Errorf("clips %+v", r.Clips)
	}
	if len(shares) != 15 || !slices.IsSorted(shares) || shares[4] != 1.0/3 || shares[14] != 1 {
		t.Errorf("progress %v", shares)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(scratch); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestFaultsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	x := newExtractor(t, "lite")
	good := makeClip(t, filepath.Join(t.TempDir(), "good.mp4"), "-t", "0.2")
	bad := filepath.Join(t.TempDir(), "bad.mp4")
	if err := os.WriteFile(bad, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		clips []extract.Input
		param protocol.Params
		code  protocol.Code
	}{
		{"second clip is empty", []extract.Input{{"a", good}, {"b", bad}}, protocol.Params{}, protocol.CodeEmptyFile},
		{"no clip", nil, protocol.Params{}, protocol.CodeInvalidJob},
		{"unknown model", []extract.Input{{"a", good}}, protocol.Params{Model: "huge"}, protocol.CodeInvalidJob},
		{"people without end", []extract.Input{{"a", good}}, protocol.Params{MaxPeople: 1000}, protocol.CodeInvalidJob},
		{"backwards camera", []extract.Input{{"a", good}}, protocol.Params{CaptureFPS: -1}, protocol.CodeInvalidJob},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := x.Run(t.Context(), extract.Request{Clips: tt.clips, Params: tt.param, Dir: dir})
			if err == nil {
				t.Fatal("no error")
			}
			if f := extract.Fault(err); f.Code != tt.code || f.Retryable {
				t.Errorf("fault %v, want %s", f, tt.code)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}
