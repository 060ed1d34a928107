package blazepose

import (
	"bufio"
	"encoding/json"
	"image"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose"
)

// labelled is a picture with hand-made labels.
type labelled struct {
	File    string           `json:"file"`
	Kind    string           `json:"truth_kind"`
	Persons []labelledPerson `json:"persons"`
}

// labelledPerson has points by name: x, y, and 1 for hidden or 2 for visible.
type labelledPerson struct {
	Box    [4]float64            `json:"bbox"`
	Points map[string][3]float64 `json:"keypoints"`
	Full   bool                  `json:"full_body"`
}

// pictures reads the labels of all pictures.
func pictures(t *testing.T) []labelled {
	t.Helper()
	b, err := os.ReadFile(need.Media(t, "truth/ground_truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Images []labelled `json:"images"`
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all.Images
}

// spread is COCO's per-point standard deviation of labels, in parts of the square root of the area.
func spread(name string) float64 {
	_, part, ok := strings.Cut(name, "_")
	if !ok {
		part = name
	}
	return map[string]float64{
		"nose": .026, "eye": .025, "ear": .035, "shoulder": .079, "elbow": .072, "wrist": .062, "hip": .107, "knee": .087, "ankle": .089,
	}[part]
}

// oks is the object keypoint similarity, 0..1. The labels have no outline, so the area is that of an average body in
// its box.
func (p labelledPerson) oks(l Landmarks) float64 {
	skeleton, area := pose.BlazePose33(), 0.53*p.Box[2]*p.Box[3]
	sum := 0.0
	for name, at := range p.Points {
		q := l.Points[skeleton.Index(name)]
		d := math.Hypot(q.X-at[0], q.Y-at[1])
		sum += math.Exp(-d * d / (8 * area * spread(name) * spread(name)))
	}
	return sum / float64(len(p.Points))
}

// roi is the square around the labelled box.
func (p labelledPerson) roi() ROI {
	return ROI{Cx: p.Box[0] + p.Box[2]/2, Cy: p.Box[1] + p.Box[3]/2, Size: roiScale * max(p.Box[2], p.Box[3])}
}

// open opens a model for a test.
func open(t testing.TB, c Config) *Estimator {
	t.Helper()
	c.Assets = need.Assets(t)
	e, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// read reads a picture.
func read(t testing.TB, path string) gocv.Mat {
	t.Helper()
	img := gocv.IMRead(path, gocv.IMReadColor)
	if img.Empty() {
		t.Fatalf("cannot read %s", path)
	}
	t.Cleanup(func() { _ = img.Close() })
	return img
}

// frames decodes a clip and calls fn for every step-th frame.
func frames(t *testing.T, path string, width, height, step int, fn func(i int, img gocv.Mat)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), "-v", "error", "-nostdin", "-threads", "1", "-i", path,
		"-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "bgr24", "pipe:1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 3*width*height)
	for i := 0; ; i++ {
		if _, err := io.ReadFull(out, buf); err != nil {
			break
		}
		if i%step != 0 {
			continue
		}
		img, err := gocv.NewMatFromBytes(height, width, gocv.MatTypeCV8UC3, buf)
		if err != nil {
			t.Fatal(err)
		}
		fn(i, img)
		_ = img.Close()
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// settled is the pose of the person whom the detector saw, after a second look.
func settled(t *testing.T, e *Estimator, img gocv.Mat, roi ROI) Landmarks {
	t.Helper()
	l, err := e.Landmarks(t.Context(), Mat(img), roi)
	if err != nil {
		t.Fatal(err)
	}
	if l, err = e.Landmarks(t.Context(), Mat(img), l.Next); err != nil {
		t.Fatal(err)
	}
	return l
}

// expected reads the numbers of the named fields of a text protocol buffer, in their order.
func expected(t *testing.T, path string, fields ...string) map[string][]float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string][]float64{}
	for s := bufio.NewScanner(f); s.Scan(); {
		for _, field := range fields {
			if v, ok := strings.CutPrefix(strings.TrimSpace(s.Text()), field+":"); ok {
				x, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
				if err != nil {
					t.Fatal(err)
				}
				out[field] = append(out[field], x)
			}
		}
	}
	return out
}

// whole is the region of the whole picture.
func whole(img gocv.Mat) image.Rectangle { return image.Rect(0, 0, img.Cols(), img.Rows()) }
