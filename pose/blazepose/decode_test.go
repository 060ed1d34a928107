package blazepose

import (
	"math"
	"testing"

	"github.com/posefleet/posefleet/pose"
)

func TestAnchors(t *testing.T) {
	t.Parallel()
	a := anchors()
	if len(a) != numAnchors {
		t.Fatalf("%d anchors", len(a))
	}
	for i, want := range map[int]Point2{0: {4, 4}, 1: {4, 4}, 2: {12, 4}, 1567: {220, 220}, 1568: {8, 8}, 1960: {16, 16}, 1965: {16, 16}, 1966: {48, 16}, 2253: {208, 208}} {
		if a[i] != want {
			t.Errorf("anchor %d is %v, want %v", i, a[i], want)
		}
	}
}

// rows makes the raw output of the detector with one box at anchor i.
func rows(i int, logit float32, row [valuesPerBox]float32) (values, logits []float32) {
	values, logits = make([]float32, numAnchors*valuesPerBox), make([]float32, numAnchors)
	for k := range logits {
		logits[k] = -100
	}
	logits[i] = logit
	copy(values[i*valuesPerBox:], row[:])
	return values, logits
}

func TestDecodeDetections(t *testing.T) {
	t.Parallel()
	// A region of 448×224 at (100, 50): two picture pixels per pixel of the square, 56 rows of black above.
	b := newLetterbox(100, 50, 448, 224)
	values, logits := rows(0, 2, [...]float32{46, 96, 20, 10, 46, 116, 46, 76, 46, 100, 0, 0})
	got := decodeDetections(values, logits, anchors(), b, 0.5)
	if len(got) != 1 {
		t.Fatalf("%d detections", len(got))
	}
	d := got[0]
	// The centre of the pixel at (50, 100) of the square is between the pixels 200 and 201, 138 and 139 of the picture.
	want := pose.Box{X: 200.5 - 20, Y: 138.5 - 10, W: 40, H: 20}
	if d.Box != want || d.Hips != (Point2{200.5, 178.5}) || d.Rim != (Point2{200.5, 98.5}) || d.Shoulders != (Point2{200.5, 146.5}) {
		t.Errorf("got %+v", d)
	}
	if !near(d.ROI.Size, 200, tiny) || !near(d.ROI.Rotation, 0, tiny) || !near(d.Score, 1/(1+math.Exp(-2)), tiny) {
		t.Errorf("got %+v", d)
	}
}

func TestDecodeLeavesOut(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	good := [valuesPerBox]float32{46, 96, 20, 10, 46, 116, 46, 76}
	bad := good
	bad[6] = nan
	flat := good
	flat[2] = -1
	for _, c := range []struct {
		name  string
		logit float32
		row   [valuesPerBox]float32
	}{
		{"a low score", -0.01, good}, {"a score that is no number", nan, good}, {"a point that is no number", 2, bad}, {"an empty box", 2, flat},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			values, logits := rows(7, c.logit, c.row)
			if got := decodeDetections(values, logits, anchors(), newLetterbox(0, 0, 100, 100), 0.5); len(got) != 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// person makes a detection with its hips at (x, y) and the given distance to the rim.
func person(x, y, reach, score float64) candidate {
	d := Detection{
		Box:  pose.Box{X: x - reach/3, Y: y - reach, W: reach * 2 / 3, H: reach * 2 / 3},
		Hips: Point2{x, y}, Rim: Point2{x, y - reach}, Shoulders: Point2{x, y - reach/2}, Score: score,
	}
	d.ROI = alignedROI(d.Hips, d.Rim)
	return candidate{d, score}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	farBox := person(105, 100, 90, 0.6)
	farBox.Box.X += 300 // the same body with another box, as a tile with half of it gives
	for _, c := range []struct {
		name string
		all  []candidate
		want int
	}{
		{"nobody", nil, 0},
		{"one person seen twice", []candidate{person(100, 100, 80, 0.6), person(104, 98, 80, 0.9)}, 1},
		{"two people side by side", []candidate{person(100, 100, 80, 0.9), person(160, 100, 80, 0.9)}, 2},
		{"one body, two boxes", []candidate{person(100, 100, 80, 0.9), farBox}, 1},
		{"a child in front of an adult", []candidate{person(100, 100, 200, 0.9), person(100, 100, 80, 0.9)}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := merge(c.all)
			if len(got) != c.want {
				t.Errorf("%d people, want %d", len(got), c.want)
			}
		})
	}
}

func TestMergeWeighsByRank(t *testing.T) {
	t.Parallel()
	a, b := person(100, 100, 80, 0.9), person(108, 100, 80, 0.3)
	got := merge([]candidate{b, a})[0]
	if got.Score != 0.9 || !near(got.Hips.X, 102, tiny) || !near(got.ROI.Cx, 102, tiny) || !near(got.ROI.Size, 200, tiny) {
		t.Errorf("got %+v", got)
	}
}

// heatAt makes heatmaps of two points: the first with a hot spot around (x, y), in cells, the second cold.
func heatAt(x, y int) []float32 {
	heat := make([]float32, 2*heatSide*heatSide)
	for i := range heat {
		heat[i] = -20
	}
	for dy := -1; dy <= 1; dy++ {
		for dx := -1; dx <= 1; dx++ {
			heat[(y+dy)*heatSide+x+dx] = 2 - float32(dx*dx+dy*dy)
		}
	}
	return heat
}

func TestRefine(t *testing.T) {
	t.Parallel()
	points := []Point{{X: 86, Y: 101}, {X: 50, Y: 50, Heat: 9}}
	refine(points, heatAt(22, 24))
	if p := points[0]; !near(p.X, 88, 1e-3) || !near(p.Y, 96, 1e-3) || !near(p.Heat, sigmoid(2), tiny) {
		t.Errorf("the point beside the heat is at %+v", p)
	}
	if p := points[1]; p.X != 50 || p.Y != 50 || p.Heat > 1e-6 {
		t.Errorf("the point without heat is at %+v", p)
	}
	far := []Point{{X: 20, Y: 20}, {X: -3, Y: 300}}
	refine(far, heatAt(22, 24))
	if far[0].X != 20 || far[1].X != -3 || far[1].Heat != 0 {
		t.Errorf("points out of reach moved: %+v", far)
	}
}

func TestDecodePointsAndWorld(t *testing.T) {
	t.Parallel()
	raw := make([]float32, modelPoints*valuesPerPoint)
	copy(raw, []float32{127.5, 27.5, -10, 2, -2})
	var p [usedPoints]Point
	decodePoints(&p, raw)
	roi := ROI{Cx: 500, Cy: 400, Size: 512, Rotation: math.Pi / 2} // the person leans to the right
	toPicture(p[:], roi)
	if !near(p[0].X, 700, 1e-6) || !near(p[0].Y, 400, 1e-6) || !near(p[0].Z, -20, 1e-6) {
		t.Errorf("got %+v", p[0])
	}
	if !near(p[0].Visibility, sigmoid(2), tiny) || !near(p[0].Presence, sigmoid(-2), tiny) {
		t.Errorf("got %+v", p[0])
	}
	var world [NumPoints]Point3
	decodeWorld(&world, append([]float32{0, -1, 0.5}, make([]float32, 3*modelPoints)...), roi.Rotation)
	if w := world[0]; !near(w.X, 1, 1e-6) || !near(w.Y, 0, 1e-6) || !near(w.Z, 0.5, 1e-6) {
		t.Errorf("got %+v", w)
	}
}

func TestFinite(t *testing.T) {
	t.Parallel()
	if !finite([]Point{{X: 1, Y: -2}}) || finite([]Point{{X: math.NaN()}}) || finite([]Point{{Y: math.Inf(1)}}) || finite([]Point{{Z: 1e9}}) {
		t.Error("wrong")
	}
}

func TestScoresRise(t *testing.T) {
	t.Parallel()
	for name, s := range scales {
		last := -1.0
		for i := range 11 {
			var l Landmarks
			for k := range l.Points {
				l.Points[k].Heat = float64(i) / 10
			}
			s.rate(&l)
			if l.Score <= last || l.Score < 0 || l.Score > 1 || l.Points[3].Score < 0 || !near(l.Heat, float64(i)/10, 1e-9) {
				t.Errorf("%s: heat %v scores %v after %v", name, l.Heat, l.Score, last)
			}
			last = l.Score
		}
	}
}
