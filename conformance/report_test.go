package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/node"
)

// reportSight is what node/report.cjs saw.
type reportSight struct {
	Title    string    `json:"title"`
	Errors   []string  `json:"errors"`
	Requests []string  `json:"requests"`
	Times    []float64 `json:"times"`
	Skeleton []int     `json:"skeleton"`
	Frames   int       `json:"frames"`
	Drawn    int       `json:"drawn"`
	Curves   []struct {
		Name   string `json:"name"`
		Pixels int    `json:"pixels"`
		Said   string `json:"said"`
	} `json:"curves"`
	Remark string             `json:"remark"`
	Keys   []bool             `json:"keys"`
	Wide   map[string]float64 `json:"wide"`
}

// A report that somebody is sent, the clip within, works in a real browser without a network: it plays, skeleton and angles are drawn, it
// asks nobody for anything, and it fits a phone.
func TestReport(t *testing.T) {
	t.Parallel()
	// Three times as fast: ten frames a second are too few for angles.
	seen := walkersReport(t, "-vf", "setpts=PTS/3", "-r", "30")
	if !strings.Contains(seen.Title, "walkers") || len(seen.Errors) > 0 || len(seen.Requests) > 0 {
		t.Errorf("%q, errors %q, asked for %q", seen.Title, seen.Errors, seen.Requests)
	}

	if n := len(seen.Times); n != 3 || seen.Times[0] >= seen.Times[2] {
		t.Errorf("the clip does not play: %v", seen.Times)
	}

	for _, pixels := range seen.Skeleton {
		if pixels < 100 {
			t.Errorf("skeleton of %v pixels", seen.Skeleton)
		}
	}

	if seen.Frames < 15 || len(seen.Curves) < 4 {
		t.Errorf("%d frames, %d curves", seen.Frames, len(seen.Curves))
	}

	measured := 0

	for _, c := range seen.Curves {
		if c.Pixels == 0 {
			t.Errorf("no curve of %s", c.Name)
		}

		measured += strings.Count(c.Said, "°")
	}

	if measured == 0 || strings.Contains(seen.Remark, "too few") {
		t.Errorf("no angle has a value: %+v; %s", seen.Curves, seen.Remark)
	}

	if !slices.Equal(seen.Keys, []bool{true, false, true}) {
		t.Errorf("by the space bar the video stands still or not: %v", seen.Keys)
	}

	if seen.Wide["light"] > 0 || seen.Wide["dark"] > 0 {
		t.Errorf("wider than a phone by %v", seen.Wide)
	}
}

// A report of a clip that is too slow for angles says so where the curves would be.
func TestReportWithoutAngles(t *testing.T) {
	t.Parallel()
	seen := walkersReport(t)
	if want := "10 frames a second of the movement. That is too few for angles: legs need 20, arms 25."; seen.Remark != want || len(seen.Errors) > 0 {
		t.Errorf("%q, errors %q", seen.Remark, seen.Errors)
	}
}

// walkersReport opens the report of six seconds of the demo's clip, which ffmpeg changes by the arguments.
func walkersReport(t *testing.T, changes ...string) reportSight {
	t.Helper()
	realExtractor(t)
	need.Node(t)

	dir := t.TempDir()
	cut, report := filepath.Join(dir, "walkers.mp4"), filepath.Join(dir, "report.html")
	args := slices.Concat([]string{"-v", "error", "-ss", "51", "-t", "6", "-i", demoClip(t)}, changes, []string{"-c:v", "libx264", "-pix_fmt", "yuv420p", cut})
	output(t, exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), args...))
	output(t, exec.CommandContext(t.Context(), path(t, built.extractor), cut, "--model", "lite", "--report", report, "--report-embed"))

	return openReport(t, "file://"+report)
}

func openReport(t *testing.T, url string) (seen reportSight) {
	t.Helper()

	cmd, err := node.Command(t.Context(), filepath.Join("node", "report.cjs"), url)
	if err != nil {
		t.Fatal(err)
	}

	cmd.Env = append(cmd.Env, "CHROMIUM="+need.Program(t, "chromium"))
	cmd.WaitDelay = 10 * time.Second

	if err := json.Unmarshal(output(t, cmd), &seen); err != nil {
		t.Fatal(err)
	}

	return seen
}

// output is what a program says on stdout; its failure is the test's.
func output(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()

	var complaints strings.Builder

	cmd.Stderr = &complaints

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(cmd.Path), err, complaints.String())
	}

	return out
}

// demoClip is the clip that setup fetches for the demo.
func demoClip(t *testing.T) string {
	t.Helper()

	if _, err := os.Stat(assets.DemoClip()); err != nil {
		need.Skip(t, "the demo's clip is not there: go run ./cmd/dev setup fetches it")
	}

	return assets.DemoClip()
}
