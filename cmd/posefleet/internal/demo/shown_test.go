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
