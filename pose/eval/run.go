package eval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/protocol"
)

// Config says what to measure.
type Config struct {
	// Media is the folder with pictures, clips and truth.
	Media string
	// Model is lite, full or heavy. Empty: heavy.
	Model string
	// Sample looks at every n-th picture, frame or clip only, for a quick answer. 0 and 1: all.
	Sample int
	// Groups are the parts to measure; empty: all. See Groups.
	Groups []string
	// Progress gets a line a part. Nil: none.
	Progress io.Writer
}

// part is a group of rows.
type part struct {
	name string
	run  func(*runner, context.Context) ([]Row, error)
}

func parts() []part {
	return []part{
		{"pictures", (*runner).pictures},
		{"heights", (*runner).heights},
		{"nobody", (*runner).nobody},
		{"tracks", (*runner).tracks},
		{"bowler", (*runner).bowler},
		{"clips", (*runner).clips},
		{"odd", (*runner).odd},
	}
}

// Groups are the names of the parts.
func Groups() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// runner is one run.
type runner struct {
	Config
	x        *extract.Extractor
	e        *blazepose.Estimator
	pictured []Picture
	// labelled are the people found on labelled pictures, by the band of their height: how many, and of how many.
	labelled map[string]*[2]int
	scratch  string
}

// Run measures. It takes minutes.
func Run(ctx context.Context, c Config) (*Report, error) {
	if c.Model == "" {
		c.Model = extract.DefaultModel
	}
	c.Sample = max(1, c.Sample)
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	r, err := newRunner(c)
	if err != nil {
		return nil, err
	}
	defer r.close()
	info := r.e.Info()
	report := &Report{Model: info.Name, SHA256: info.SHA256, Engine: r.e.Engine(), Sample: c.Sample}
	for _, p := range parts() {
		if !wanted(c.Groups, p.name) {
			continue
		}
		start := time.Now()
		rows, err := p.run(r, ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		report.Rows = append(report.Rows, rows...)
		fmt.Fprintf(c.Progress, "eval: %s: %s: %.0f s\n", info.Name, p.name, time.Since(start).Seconds())
	}
	return report, nil
}

func wanted(groups []string, name string) bool {
	return len(groups) == 0 || slices.Contains(groups, name)
}

func newRunner(c Config) (*runner, error) {
	pics, err := pictures(c.Media)
	if err != nil {
		return nil, err
	}
	x, err := extract.New(extract.Config{Model: c.Model})
	if err != nil {
		return nil, err
	}
	e, err := blazepose.Open(blazepose.Config{Model: c.Model})
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	dir, err := os.MkdirTemp("", "posefleet-eval-*")
	return &runner{Config: c, x: x, e: e, pictured: pics, scratch: dir}, err
}

func (r *runner) close() {
	_ = r.x.Close()
	_ = r.e.Close()
	_ = os.RemoveAll(r.scratch)
}

// path is that of a file of the media folder.
func (r *runner) path(name string) string { return filepath.Join(r.Media, filepath.FromSlash(name)) }

// sampled reports whether the i-th thing is looked at.
func (r *runner) sampled(i int) bool { return i%r.Sample == 0 }

// picture reads one; the caller must close it.
func (r *runner) picture(name string) (gocv.Mat, error) {
	img := gocv.IMRead(r.path(name), gocv.IMReadColor)
	if img.Empty() {
		return img, fmt.Errorf("cannot read %s", name)
	}
	return img, nil
}

// manyPeople lets pictures be looked at without a bound that matters.
const manyPeople = extract.MaxPeople

// look finds the people of a picture.
func (r *runner) look(ctx context.Context, img gocv.Mat) ([]pose.Person, error) {
	return extract.Look(ctx, r.e, img, manyPeople)
}

// extract reads a clip's document.
func (r *runner) extract(ctx context.Context, path string, params protocol.Params) (*clip, error) {
	out, err := r.x.Run(ctx, extract.Request{Clips: []extract.Input{{ID: "c1", Path: path}}, Params: params, Dir: r.scratch})
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c := &clip{ClipHead: out.Clips[0].ClipHead}
	for f, err := range out.Clips[0].Frames() {
		if err != nil {
			return nil, err
		}
		c.frames = append(c.frames, f)
	}
	return c, nil
}

// clip is an extracted one.
type clip struct {
	pose.ClipHead
	frames []pose.Frame
}

// person finds the one with the id in a frame.
func (c *clip) person(frame, id int) (pose.Person, bool) {
	for _, p := range c.frames[frame].People {
		if p.Track == id {
			return p, true
		}
	}
	return pose.Person{}, false
}
