package extract_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/protocol"
)

// readJSON reads a truth file of the media folder.
func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(need.Media(t, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func TestSyntheticAthleteIsWithinTwelvePixelsOfItsTruth(t *testing.T) {
	t.Parallel()
	path := need.Media(t, "videos/tfjs_synthetic_pose_1.mp4")
	var truth []map[string]struct{ X, Y float64 }
	readJSON(t, "truth/pose_1.json", &truth)
	d, _ := extractClip(t, newExtractor(t, "full"), path, protocol.Params{})
	people := track(d.Clips[0], d.Clips[0].Athlete.Track)
	if len(people) != len(truth) {
		t.Fatalf("%d frames, want %d", len(people), len(truth))
	}
	sum, n := 0.0, 0
	for i, joints := range truth {
		if people[i] == nil {
			t.Errorf("nobody in frame %d", i)
			continue
		}
		for name, want := range joints {
			got := people[i].Keypoints[d.Skeleton.Index(name)]
			if got.Found {
				sum += math.Hypot(got.X-want.X, got.Y-want.Y)
				n++
			}
		}
	}
	mean := sum / float64(n)
	t.Logf("mean error %.2f px over %d points", mean, n)
	if !(mean < 12) || n < 100*17 {
		t.Errorf("mean error %.2f px over %d points, want less than 12 over at least 1700", mean, n)
	}
}

func TestSquatsAreWithinTheReferencesTolerance(t *testing.T) {
	t.Parallel()
	path := need.Media(t, "videos/tfjs_squats_5fps.mp4")
	var truth [][][3]float64
	readJSON(t, "truth/pose_squats.full.json", &truth)
	d, _ := extractClip(t, newExtractor(t, "full"), path, protocol.Params{})
	people := track(d.Clips[0], d.Clips[0].Athlete.Track)
	sum, n := 0.0, 0
	for i, points := range truth {
		if people[i] == nil {
			t.Errorf("nobody in frame %d", i)
			continue
		}
		for j, want := range points {
			if got := people[i].Keypoints[j]; got.Found {
				sum += math.Hypot(got.X-want[0], got.Y-want[1])
				n++
			}
		}
	}
	mean := sum / float64(n)
	t.Logf("mean distance %.2f px over %d points", mean, n)
	if !(mean < 28) || n < 60*33 {
		t.Errorf("mean distance %.2f px over %d points, want less than 28 over at least 1980", mean, n)
	}
}

// upright are the files that show one scene in several storages, each to be compared with the master.
var variants = []struct{ name, file string }{
	{"turned by 90", "odd/rot90.mp4"},
	{"turned by 180", "odd/rot180.mp4"},
	{"mirrored", "odd/mirror_flag.mp4"},
	{"anamorphic", "odd/anamorphic_sar.mp4"},
	{"with B-frames", "odd/bframes.mp4"},
}

func TestStorageOfThePictureDoesNotChangeThePose(t *testing.T) {
	t.Parallel()
	x := newExtractor(t, "lite")
	master, _ := extractClip(t, x, need.Media(t, "videos/pose2sim_balance_cam01.mp4"), protocol.Params{MaxPeople: 1})
	want := track(master.Clips[0], master.Clips[0].Athlete.Track)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			d, _ := extractClip(t, x, need.Media(t, v.file), protocol.Params{MaxPeople: 1})
			got := track(d.Clips[0], d.Clips[0].Athlete.Track)
			if m := d.Clips[0].Media; m.Width != 540 || m.Height != 960 {
				t.Errorf("picture of %d×%d, want 540×960", m.Width, m.Height)
			}
			comparePoses(t, want, got, 0.5, 0.02*960)
		})
	}
}

// comparePoses compares the sure points of two tracks, the first scaled.
func comparePoses(t *testing.T, want, got []*pose.Person, scale, tolerance float64) {
	t.Helper()
	sum, n := 0.0, 0
	for i := range want {
		if want[i] == nil || got[i] == nil {
			continue
		}
		for j, w := range want[i].Keypoints {
			g := got[i].Keypoints[j]
			if w.Found && g.Found && w.Score > 0.5 && g.Score > 0.5 {
				sum += math.Hypot(w.X*scale-g.X, w.Y*scale-g.Y)
				n++
			}
		}
	}
	mean := sum / float64(max(1, n))
	t.Logf("mean distance %.2f px over %d points", mean, n)
	if n < 1500 || mean > tolerance {
		t.Errorf("mean distance %.2f px over %d points, want at most %.1f over 1500", mean, n, tolerance)
	}
}
