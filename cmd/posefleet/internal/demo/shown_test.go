package demo

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/protocol"
)

// TestTryExtractor: whatever keeps the extractor from working is one error with its own last words.
func TestTryExtractor(t *testing.T) {
	t.Parallel()

	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}

	const hello = `echo '{"type":"hello","protocol":1,"name":"fake","model":{"name":"m","version":"1","sha256":"` +
		`a6850debfbc3ce29f4e19f21bd6a9c6744ad4ed4d3cb2f94ae10a7e4af581109"}}'; cat`

	tests := []struct{ name, script, want string }{
		{"works", hello, ""},
		{"models missing", "echo loading >&2; echo models are missing >&2; exit 1", "the extractor does not start (exit status 1): models are missing"},
		{"silent", "exit 3", "the extractor does not start: exit status 3"},
		{"no hello", "echo ready", "the extractor does not start: it ends without a hello"},
		{"another protocol", strings.Replace(hello, `"protocol":1`, `"protocol":9`, 1), "the extractor does not start: it speaks protocol 9, not 1"},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			got := ""
			if err := tryExtractor(t.Context(), []string{shell, "-c", test.script}, []string{"PATH=/usr/bin:/bin"}, t.TempDir()); err != nil {
				got = err.Error()
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)

		if err := tryExtractor(ctx, []string{shell, "-c", "sleep 60"}, nil, t.TempDir()); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// TestSummary: a failed clip keeps the table's columns and has its reason below; the pages are told apart by the clips' names.
func TestSummary(t *testing.T) {
	t.Parallel()

	var out strings.Builder

	good := operator.Analysis{ID: "demo_1", Status: "delivered", Result: &protocol.Result{Data: protocol.ResultData{
		Model: &protocol.Model{Name: "blazepose-full"}, Artifact: &protocol.Artifact{SHA256: strings.Repeat("ab", 32)},
	}}}
	outcomes := []*outcome{
		{clip: &clip{name: "text.txt"}, analysis: operator.Analysis{ID: "demo_0", Status: "failed"}, reason: "unsupported_media: this is no clip"},
		{clip: &clip{name: "walk.mp4"}, analysis: good, took: 2 * time.Second, frames: 50, people: 3, most: 2, seen: 40},
	}
	d := &demo{Streams: Streams{Out: &out}, term: &terminal{w: &out}, api: &operator.Client{Base: "http://x"}}

	summarise(d.term, outcomes)
	d.invite(outcomes)

	want := `
  clip      state      people  at once  frames  with people  seconds  fps   model           artifact
  text.txt  failed     -       -        -       -            -        -     -               -
  walk.mp4  delivered  3       2        50      40           2.0      25.0  blazepose-full  sha256:abababababab

  text.txt failed: unsupported_media: this is no clip

The clips with the skeletons on them:
  http://x/analyses/demo_0  text.txt (failed: no skeletons)
  http://x/analyses/demo_1  walk.mp4

Ctrl-C ends the demo and removes everything it has made.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

// TestFleetShown: the first readiness is told once, with its true time, and not any more once a worker has been seen at work; a worker that
// does not answer for a moment is no new one.
func TestFleetShown(t *testing.T) {
	t.Parallel()

	begin := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(seconds float64, desired, ready int, reason string) operator.Size {
		return operator.Size{At: begin.Add(time.Duration(seconds * float64(time.Second))), Desired: desired, Ready: ready, Reason: reason}
	}

	tests := []struct {
		name   string
		points []operator.Size
		works  int // after so many points a worker is seen at work
		want   string
	}{
		{"once", []operator.Size{at(0, 1, 0, "work"), at(0.5, 1, 1, ""), at(9, 1, 0, ""), at(34, 1, 1, "")}, 9, "0 → 1 worker(s): work\n1 worker(s) ready after 0.5 s\n"},
		{"seen too late", []operator.Size{at(0, 1, 0, "work"), at(34, 1, 1, "")}, 1, "0 → 1 worker(s): work\n"},
		{
			"twice from zero",
			[]operator.Size{at(0, 1, 1, "work"), at(9, 0, 0, "idle"), at(20, 1, 0, "work"), at(21, 1, 1, "")},
			9,
			"0 → 1 worker(s): work\n1 worker(s) ready after 0.0 s\n1 → 0 worker(s): idle\n0 → 1 worker(s): work\n1 worker(s) ready after 1.0 s\n",
		},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			var out strings.Builder

			var seen []operator.Size

			f := &fleetWatcher{term: &terminal{w: &out}, since: begin.Add(-time.Second), status: func(context.Context, time.Duration) (operator.Size, []operator.Size, error) {
				return operator.Size{}, seen, nil
			}}

			for i := range test.points {
				seen = test.points[:i+1]

				if i == test.works {
					f.works()
				}

				if _, err := f.changes(t.Context()); err != nil {
					t.Fatal(err)
				}
			}

			if diff := cmp.Diff(test.want, strings.ReplaceAll(out.String(), "  fleet      ", "")); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnce: what came of a killed run is held against the promise, and the kill has its place in the timeline.
func TestOnce(t *testing.T) {
	t.Parallel()

	begin := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	end := begin.Add(5 * time.Second)
	good := func() *operator.Analysis {
		a := &operator.Analysis{ID: "a", Status: "delivered", Runs: []operator.Run{{Stage: "notified", EndedAt: &end}}, Ledger: []operator.Entry{
			{Effect: "credit.reserve"}, {Effect: "credit.settle"}, {Effect: "notice"},
		}}
		for i, kind := range []string{"submitted", "dispatched", "redeemed", "redeemed", "delivered"} {
			a.Timeline = append(a.Timeline, operator.Event{Kind: kind, At: begin.Add(time.Duration(i) * time.Second), Epoch: int64(max(0, i-1))})
		}

		return a
	}

	want := []string{
		"  0.00 s  submitted", "  1.00 s  dispatched", "  2.00 s  redeemed, epoch 1", "  2.50 s  ──── process 1 is killed, process 2 started ────",
		"  3.00 s  redeemed, epoch 2", "  4.00 s  delivered, epoch 3", "  5.00 s  the run has ended: notified",
	}
	if diff := cmp.Diff(want, timeline(good(), begin.Add(2500*time.Millisecond), 1, 2)); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}

	for want, change := range map[string]func(*operator.Analysis){
		"":              func(*operator.Analysis) {},
		"2 × runs":      func(a *operator.Analysis) { a.Runs = append(a.Runs, a.Runs[0]) },
		"2 × notice":    func(a *operator.Analysis) { a.Ledger = append(a.Ledger, a.Ledger[2]) },
		"0 × delivered": func(a *operator.Analysis) { a.Timeline = a.Timeline[:4] },
	} {
		a := good()
		change(a)

		if err := once(a); (want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
