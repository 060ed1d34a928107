package eval

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/protocol"
)

const groupOdd = "Odd files"

// oddTable has a line a file: path, ok or the code of the refusal, frames, size, and words: somebody, nobody, mirrored, estimated,
// partial, variable.
//
//go:embed odd.tsv
var oddTable string

// odd extracts the files that others read wrongly, and compares what comes out with the table.
func (r *runner) odd(ctx context.Context) ([]Row, error) {
	files, right := 0, 0
	var wrong []string
	for line := range strings.Lines(oddTable) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if files++; !r.sampled(files) {
			continue
		}
		got, err := r.oddFile(ctx, fields[0], fields[4])
		if err != nil {
			return nil, err
		}
		if want := strings.Join(fields[1:], " "); got == strings.TrimSpace(want) {
			right++
		} else {
			wrong = append(wrong, fields[0])
			fmt.Fprintf(r.Progress, "eval: %s: %s, want %s\n", fields[0], got, want)
		}
	}
	n := (files + r.Sample - 1) / r.Sample
	if r.Sample > 1 {
		n = files / r.Sample
	}
	return []Row{row(groupOdd, "files of which all comes out as expected", float64(right)/float64(n), n).atLeast(1).note("%s", strings.Join(wrong, ", "))}, nil
}

// oddFile describes what came out in the words of the table; of the words about people only when the table asks.
func (r *runner) oddFile(ctx context.Context, name, asked string) (string, error) {
	c, err := r.extract(ctx, r.path(name), protocol.Params{MaxPeople: 2})
	if f, ok := errors.AsType[*media.Fault](err); ok {
		return string(f.Code), nil
	}
	if err != nil {
		return "", err
	}
	words := []string{"ok", strconv.Itoa(c.Media.FramesDecoded), fmt.Sprintf("%dx%d", c.Media.Width, c.Media.Height)}
	for _, w := range []struct {
		name string
		is   bool
	}{
		{"somebody", c.Athlete != nil && strings.Contains(asked, "somebody")},
		{"nobody", c.Athlete == nil && strings.Contains(asked, "nobody")},
		{"mirrored", c.Media.Mirrored},
		{"estimated", c.Media.Timestamps == pose.TimestampsEstimated},
		{"partial", c.Media.Partial},
		{"variable", c.Media.VariableRate},
	} {
		if w.is {
			words = append(words, w.name)
		}
	}
	return strings.Join(words, " "), nil
}
