package extract

import (
	"testing"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// glance is a look at somebody at a place with the given heat of joints and face.
func glance(x, heat, face float64) blazepose.Landmarks {
	return blazepose.Landmarks{Presence: 1, Heat: heat, Face: face, Next: blazepose.ROI{Cx: x, Cy: 100, Size: 200}}
}

func TestClearerLook(t *testing.T) {
	t.Parallel()
	last := glance(100, 0.55, 0.45)
	absent := glance(100, 0.9, 0.9)
	absent.Presence = 0.5
	for _, tt := range []struct {
		name string
		look blazepose.Landmarks
		want bool
	}{
		{"colder joints, but a face", glance(100, 0.5, 0.7), true},
		{"warmer joints, but no face", glance(100, 0.58, 0.3), false},
		{"somebody else", glance(150, 0.9, 0.9), false},
		{"nobody", absent, false},
		{"lost itself", blazepose.Landmarks{Presence: 1, Heat: 0.9, Face: 0.9}, false},
	} {
		if got := clearer(tt.look, last, last); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// hardPicture looks at a labelled picture with the heavy model.
func hardPicture(t *testing.T, name string) []pose.Person {
	t.Helper()
	img := gocv.IMRead(need.Media(t, name), gocv.IMReadColor)
	if img.Empty() {
		t.Fatalf("cannot read %s", name)
	}
	t.Cleanup(func() { _ = img.Close() })
	e, err := blazepose.Open(blazepose.Config{Assets: need.Assets(t), Model: "heavy"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	people, err := Look(t.Context(), e, img, 8)
	if err != nil {
		t.Fatal(err)
	}
	return people
}

// A man on a motorcycle in fog, from the front, with a dark helmet and a headlight before him: his left is at the right of the picture.
func TestWhoIsSeenBadlyIsTakenTheRightWayRound(t *testing.T) {
	t.Parallel()
	people := hardPicture(t, "images/coco-mini/000000165518.jpg")
	if len(people) != 1 {
		t.Fatalf("%d people, want 1", len(people))
	}
	names := pose.BlazePose33()
	for _, joint := range []string{"shoulder", "elbow", "hip", "knee"} {
		left, right := people[0].Keypoints[names.Index("left_"+joint)], people[0].Keypoints[names.Index("right_"+joint)]
		if !left.Found || !right.Found || left.X <= right.X {
			t.Errorf("left %s at %.0f, right one at %.0f", joint, left.X, right.X)
		}
	}
}

// Three people in a row, of whom one is half behind another: the detector tells them apart.
func TestNeighboursOnAPictureAreAllFound(t *testing.T) {
	t.Parallel()
	people := hardPicture(t, "images/coco-pifpaf/000000541055.jpg")
	for _, want := range []pose.Box{{X: 201, Y: 102, W: 86, H: 223}, {X: 155, Y: 78, W: 54, H: 235}, {X: 272, Y: 80, W: 64, H: 204}} {
		best := 0.0
		for _, p := range people {
			best = max(best, want.IoU(p.Box))
		}
		if best < 0.5 {
			t.Errorf("the one at %+v is not found: overlap %.2f", want, best)
		}
	}
}
