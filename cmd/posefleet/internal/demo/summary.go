package demo

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/pose"
)

// shaPrefix is how much of the artifact's sum is shown.
const shaPrefix = 12

// noResult is how many columns of the table need a result.
const noResult = 8

// outcome is what came of one clip.
type outcome struct {
	clip     *clip
	analysis operator.Analysis
	// took is the time of the work, claim to report, as the worker measured it.
	took   time.Duration
	frames int
	// people is how many persons were followed, most how many were seen at once, seen in how many frames there was anybody.
	people, most, seen int
	reason             string
}

// delivered tells whether there is a result.
func (o *outcome) delivered() bool { return o.analysis.Status == "delivered" }

// readOutcome asks the control plane what was decided and reads the stored document.
func readOutcome(ctx context.Context, api *operator.Client, c *clip, id string) (*outcome, error) {
	a, err := api.Get(ctx, id)
	if err != nil {
		return nil, err
	}

	o := &outcome{clip: c, analysis: a, reason: a.Reason()}
	if !o.delivered() {
		return o, nil
	}

	if a.Result != nil && a.Result.Data.Timings != nil {
		t := a.Result.Data.Timings
		o.took = time.Duration(t.RedeemMs+t.DownloadMs+t.ExtractMs+t.UploadMs) * time.Millisecond
	}

	var document pose.Document
	if err := api.Pose(ctx, id, &document); err != nil {
		return nil, err
	}

	o.count(&document)

	return o, nil
}

func (o *outcome) count(d *pose.Document) {
	tracks := map[int]bool{}

	for _, c := range d.Clips {
		o.frames += len(c.Frames)

		for _, frame := range c.Frames {
			o.most = max(o.most, len(frame.People))
			if len(frame.People) > 0 {
				o.seen++
			}

			for _, person := range frame.People {
				tracks[person.Track] = true
			}
		}
	}

	o.people = len(tracks)
}

// summarise prints one line for each clip, and below them why there is no result for some.
func summarise(t *terminal, outcomes []*outcome) {
	t.text("")

	w := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  clip\tstate\tpeople\tat once\tframes\twith people\tseconds\tfps\tmodel\tartifact")

	for _, o := range outcomes {
		fmt.Fprintln(w, o.row())
	}

	_ = w.Flush() // stdout is gone: nobody is there to be told

	for _, o := range outcomes {
		if !o.delivered() {
			t.text("\n  %s %s: %s", o.clip.name, o.analysis.Status, o.reason)
		}
	}
}

func (o *outcome) row() string {
	if !o.delivered() {
		return fmt.Sprintf("  %s\t%s%s", o.clip.name, o.analysis.Status, strings.Repeat("\t-", noResult))
	}

	data := o.analysis.Result.Data

	return fmt.Sprintf("  %s\t%s\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%s\tsha256:%s", o.clip.name, o.analysis.Status, o.people, o.most, o.frames, o.seen,
		o.took.Seconds(), float64(o.frames)/o.took.Seconds(), data.Model.Name, data.Artifact.SHA256[:shaPrefix])
}
