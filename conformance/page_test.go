package conformance

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/node"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/protocol"
)

// sight is what node/page.cjs saw.
type sight struct {
	Title  string   `json:"title"`
	Text   string   `json:"text"`
	Errors []string `json:"errors"`
	Video  struct {
		Width    float64   `json:"width"`
		Height   float64   `json:"height"`
		Duration float64   `json:"duration"`
		Times    []float64 `json:"times"`
	} `json:"video"`
	Drawn []struct {
		Time   float64    `json:"time"`
		Pixels int        `json:"pixels"`
		Box    [4]float64 `json:"box"`
	} `json:"drawn"`
}

// TestPage opens the page of a delivered analysis in a real Chromium: the clip plays, the skeleton is drawn where the document has its
// points, and the state can be read.
func TestPage(t *testing.T) {
	t.Parallel()
	realExtractor(t)

	s := newSystem(t, posefleet(t))
	video := need.Media(t, "videos/tfjs_synthetic_pose_1.mp4")

	s.prepare("an_page", clip{"person.mp4", video}, &protocol.Params{Model: "lite"})
	s.add("an_page", 1)
	s.startWorker("worker", nil)
	s.awaitJob("an_page")

	var document pose.Document
	if err := s.api.Pose(t.Context(), "an_page", &document); err != nil {
		t.Fatal(err)
	}

	seen := openPage(t, s.controlURL+"/analyses/an_page")
	checkClipPlays(t, seen, document.Clips[0])
	checkSkeleton(t, seen, document.Clips[0])

	for _, word := range []string{"an_page", "delivered"} {
		if !strings.Contains(seen.Text, word) {
			t.Errorf("the page does not say %q: %s", word, seen.Text)
		}
	}
}

func openPage(t *testing.T, url string) sight {
	t.Helper()
	need.Node(t)

	chromium := need.Program(t, "chromium")

	cmd, err := node.Command(t.Context(), filepath.Join("node", "page.cjs"), url, filepath.Join(t.TempDir(), "page.png"))
	if err != nil {
		t.Fatal(err)
	}

	var complaints strings.Builder

	cmd.Env = append(cmd.Env, "CHROMIUM="+chromium)
	cmd.Stderr = &complaints
	cmd.WaitDelay = 10 * time.Second

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("page.cjs: %v\n%s", err, complaints.String())
	}

	var seen sight
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("page.cjs: %v: %s", err, out)
	}

	if len(seen.Errors) > 0 {
		t.Errorf("errors on the page: %q", seen.Errors)
	}

	return seen
}

func checkClipPlays(t *testing.T, seen sight, c pose.Clip) {
	t.Helper()

	v := seen.Video
	if int(v.Width) != c.Media.Width || int(v.Height) != c.Media.Height || v.Duration < c.Media.DurationMs/1000-0.2 {
		t.Errorf("the browser shows %v×%v of %v s, the document says %d×%d of %v ms", v.Width, v.Height, v.Duration, c.Media.Width,
			c.Media.Height, c.Media.DurationMs)
	}

	if len(v.Times) < 2 || v.Times[len(v.Times)-1] <= v.Times[0] || !slices.IsSorted(v.Times) {
		t.Errorf("the clip does not play: %v", v.Times)
	}
}

// checkSkeleton compares what is painted with the box of the people in the document at that time.
func checkSkeleton(t *testing.T, seen sight, c pose.Clip) {
	t.Helper()

	if len(seen.Drawn) == 0 {
		t.Error("nothing was looked at")
	}

	for _, d := range seen.Drawn {
		frame := frameAt(c.Frames, d.Time*1000)
		if len(frame.People) == 0 || d.Pixels == 0 {
			t.Errorf("at %.2f s: %d people in the document, %d painted pixels", d.Time, len(frame.People), d.Pixels)

			continue
		}

		if gap := apart(d.Box, span(frame.People)); gap > tolerance(c) {
			t.Errorf("at %.2f s: painted %v, people are in %v: %.0f px apart", d.Time, d.Box, span(frame.People), gap)
		}
	}
}

// tolerance is for line widths, labels and the next frame: a twentieth of the picture's longer side.
func tolerance(c pose.Clip) float64 { return float64(max(c.Media.Width, c.Media.Height)) / 20 }

// frameAt is the last frame that is shown at or before a time in ms.
func frameAt(frames []pose.Frame, ms float64) pose.Frame {
	at := frames[0]

	for _, f := range frames {
		if f.T > ms+1 {
			break
		}

		at = f
	}

	return at
}

// span is the box around the found points of all people.
func span(people []pose.Person) [4]float64 {
	left, top, right, bottom := 1e9, 1e9, -1e9, -1e9

	for _, p := range people {
		b := p.Box
		left, top = min(left, b.X), min(top, b.Y)
		right, bottom = max(right, b.X+b.W), max(bottom, b.Y+b.H)
	}

	return [4]float64{left, top, right - left, bottom - top}
}

// apart is the largest distance between the sides of two boxes.
func apart(a, b [4]float64) float64 {
	abs := func(v float64) float64 { return max(v, -v) }

	return max(abs(a[0]-b[0]), abs(a[1]-b[1]), abs(a[0]+a[2]-b[0]-b[2]), abs(a[1]+a[3]-b[1]-b[3]))
}
