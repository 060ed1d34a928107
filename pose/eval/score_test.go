package eval

import (
	"math"
	"testing"

	"github.com/posefleet/posefleet/pose"
)

// standing is a labelled person, and ours with each point moved by d pixels.
func standing(d float64) (Person, pose.Person) {
	truth := Person{Box: pose.Box{X: 0, Y: 0, W: 100, H: 200}, Points: map[string]TruePoint{}}
	skeleton := pose.BlazePose33()
	ours := pose.Person{Track: 1, Box: truth.Box, Keypoints: make([]pose.Keypoint, len(skeleton.Keypoints))}
	for i, name := range []string{"left_shoulder", "right_shoulder", "left_hip", "right_hip", "left_knee", "right_knee"} {
		at := TruePoint{X: float64(20 + 60*(i%2)), Y: float64(40 + 50*(i/2))}
		truth.Points[name] = at
		ours.Keypoints[skeleton.Index(name)] = pose.Keypoint{X: at.X + d, Y: at.Y, Score: 1, Found: true}
	}
	return truth, ours
}

func TestOKS(t *testing.T) {
	t.Parallel()
	truth, exact := standing(0)
	if got := truth.OKS(of(exact)); got != 1 {
		t.Errorf("exact points: %v", got)
	}
	last := 1.0
	for _, d := range []float64{1, 5, 20, 100} {
		_, ours := standing(d)
		got := truth.OKS(of(ours))
		if got >= last {
			t.Errorf("%v px off: %v, not below %v", d, got, last)
		}
		last = got
	}
	if last > 0.01 {
		t.Errorf("points that are a body's width off: %v", last)
	}
	missing := exact
	missing.Keypoints = make([]pose.Keypoint, len(exact.Keypoints))
	if got := truth.OKS(of(missing)); got != 0 {
		t.Errorf("no points: %v", got)
	}
	// One point alone, by hand: COCO's formula with the area of an average body.
	one := Person{Box: truth.Box, Points: map[string]TruePoint{"left_hip": truth.Points["left_hip"]}}
	_, ours := standing(10)
	want := math.Exp(-100 / (8 * bodyShare * 100 * 200 * .107 * .107))
	if got := one.OKS(of(ours)); math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestPCK(t *testing.T) {
	t.Parallel()
	truth, _ := standing(0)
	torso := math.Hypot(60, 50)
	_, near := standing(0.19 * torso)
	_, far := standing(0.21 * torso)
	if right, all := truth.PCK(of(near), 0.2); right != 6 || all != 6 {
		t.Errorf("%d of %d", right, all)
	}
	if right, all := truth.PCK(of(far), 0.2); right != 0 || all != 6 {
		t.Errorf("%d of %d", right, all)
	}
}

func TestMatchIsOneToOne(t *testing.T) {
	t.Parallel()
	truth, ours := standing(0)
	_, worse := standing(8)
	if got := match([]Person{truth, truth}, []pose.Person{worse, ours}); got[0] != 1 || got[1] != 0 {
		t.Errorf("%v", got)
	}
	if got := match([]Person{truth, truth}, []pose.Person{ours}); got[0] != 0 || got[1] != -1 {
		t.Errorf("%v", got)
	}
}

func TestAUC(t *testing.T) {
	t.Parallel()
	if got := auc([]float64{.9, .8}, []float64{.1, .8}); got != 0.875 {
		t.Errorf("%v", got)
	}
	if !math.IsNaN(auc(nil, []float64{1})) {
		t.Error("no right ones: not a number is wanted")
	}
}

func TestTablesGoBetweenTheMarksOfAText(t *testing.T) {
	t.Parallel()
	old := "# Title\n\nWords.\n\n<!-- figures: begin -->\nold\n<!-- figures: end -->\n\nMore.\n"
	want := "# Title\n\nWords.\n\n<!-- figures: begin -->\nnew\n\n<!-- figures: end -->\n\nMore.\n"
	if got := Merge(old, "new\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Merge(Merge(old, "new\n"), "new\n"); got != want {
		t.Errorf("again: got %q, want %q", got, want)
	}
	if got := Merge("no marks", "new\n"); got != "new\n" {
		t.Errorf("without marks: %q", got)
	}
}
