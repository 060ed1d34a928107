package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// The part of the default clip that is shown: the people are nearest here, and it begins with a key frame.
const (
	excerptStart  = 50 * time.Second
	excerptLength = 12 * time.Second
)

// errNoClip says how to get on without the default clip.
var errNoClip = errors.New("the demo's clip is not on this machine (run: go run ./cmd/dev setup), give a clip of your own")

// demo is one run of the command.
type demo struct {
	Options
	Streams

	term  *terminal
	stack *stack
	dir   string // everything the run puts on disk
	queue queue.Options
	jobs  *queue.Queue
	api   *operator.Client
	plane *plane
	fleet *fleetWatcher
}

// clipID is the id of the one clip that each analysis of the demo has.
const clipID = "c1"

// Run does what the command is for and returns when all of it is gone again: after the results with Once, else when ctx ends. The error is
// a *ClipError for a clip that can't be read and a *NotDeliveredError if an analysis has no result.
func Run(ctx context.Context, o Options, s Streams) (err error) {
	d := &demo{Options: o, Streams: s, term: newTerminal(s.Out), stack: newStack()}

	defer func() {
		d.term.clear()
		err = errors.Join(err, d.stack.stop())
	}()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	clips, err := d.prepare(ctx)
	if err != nil {
		return err
	}

	if err := d.start(ctx); err != nil {
		return err
	}

	go d.watchStack(ctx, cancel) // ends with ctx

	outcomes, err := d.analyse(ctx, clips)
	if err == nil && d.kills() {
		outcomes, err = d.analyseKilled(ctx, outcomes)
	}

	if err != nil {
		return d.explain(err)
	}

	return d.finish(ctx, outcomes)
}

// prepare makes the run's folder and opens the clips, before anything is started for clips that are not there.
func (d *demo) prepare(ctx context.Context) ([]*clip, error) {
	if err := findFFmpeg(); err != nil {
		return nil, err
	}

	dir, err := os.MkdirTemp("", "posefleet-demo-")
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}

	d.dir = dir
	d.stack.onStop(func() error { return os.RemoveAll(dir) })

	if len(d.Clips) == 0 {
		c, err := d.excerpt(ctx)

		return []*clip{c}, err
	}

	clips := make([]*clip, 0, len(d.Clips))

	for _, path := range d.Clips {
		c, err := openClip(ctx, path)
		if err != nil {
			return nil, &ClipError{Err: err}
		}

		clips = append(clips, c)
	}

	return clips, nil
}

// excerpt is the default clip.
func (d *demo) excerpt(ctx context.Context) (*clip, error) {
	whole := assets.DemoClip()
	if _, err := os.Stat(whole); err != nil {
		return nil, &ClipError{Err: errNoClip}
	}

	path, err := cut(ctx, whole, d.dir, excerptStart, excerptLength)
	if err != nil {
		return nil, err
	}

	d.term.line("clip", "vtest.avi of Debian's opencv-doc, seconds %.0f to %.0f, cut without re-encoding", excerptStart.Seconds(),
		(excerptStart + excerptLength).Seconds())

	return openClip(ctx, path)
}

// watchStack ends the run when a part of it ends by itself.
func (d *demo) watchStack(ctx context.Context, cancel context.CancelCauseFunc) {
	select {
	case <-d.stack.died:
		cancel(d.stack.err())
	case <-ctx.Done():
	}
}

// explain prefers the reason why a part died to what followed from it.
func (d *demo) explain(err error) error {
	if cause := d.stack.err(); cause != nil {
		return cause
	}

	return err
}

// analyse takes the clips through the system one after the other.
func (d *demo) analyse(ctx context.Context, clips []*clip) ([]*outcome, error) {
	outcomes := make([]*outcome, 0, len(clips))

	for _, c := range clips {
		d.term.text("\n%s", c.describe())

		o, err := d.analyseOne(ctx, c)
		if err != nil {
			return outcomes, err
		}

		outcomes = append(outcomes, o)
	}

	return outcomes, nil
}

func (d *demo) analyseOne(ctx context.Context, c *clip) (*outcome, error) {
	id, err := d.upload(ctx, c)
	if err == nil {
		err = d.api.Submit(ctx, id, operator.DispatchNone)
	}

	if err != nil {
		return nil, err
	}

	who, err := enqueue(ctx, d.jobs, d.queue, id)
	if err != nil {
		return nil, err
	}

	d.term.line("enqueued", "%s by %s", id, who)

	w := &watcher{queue: d.jobs, term: d.term, fleet: d.fleet, id: id}
	if _, err := w.follow(ctx); err != nil {
		return nil, err
	}

	o, err := readOutcome(ctx, d.api, c, id)
	if err != nil {
		return nil, err
	}

	return o, d.addPreview(ctx, o)
}

// upload does what an orchestrator does at the control plane's API.
func (d *demo) upload(ctx context.Context, c *clip) (string, error) {
	created, err := d.api.Create(ctx, "demo_"+strings.ToLower(rand.Text()[:10]), []operator.Clip{{
		ID: clipID, Name: c.name, Size: c.size, SHA256: c.sha256, ContentType: c.contentType,
	}}, &protocol.Params{Model: d.Model})
	if err != nil {
		return "", err
	}

	begin := time.Now()
	if err := d.api.Put(ctx, created.Uploads[0], c.path); err != nil {
		return "", err
	}

	d.term.line("uploaded", "%.1f MB by a presigned PUT in %d ms", float64(c.size)/1e6, time.Since(begin).Milliseconds())

	return created.AnalysisID, nil
}

// finish shows the results and, unless it is to end at once, keeps the page up until ctx ends.
func (d *demo) finish(ctx context.Context, outcomes []*outcome) error {
	summarise(d.term, outcomes)

	failed := 0

	for _, o := range outcomes {
		if !o.delivered() {
			failed++
		}
	}

	if !d.Once {
		d.invite(outcomes)
	}

	if err := d.fleet.followToZero(ctx, d.Once); err != nil {
		return d.explain(err)
	}

	if !d.Once {
		<-ctx.Done()

		if err := d.stack.err(); err != nil {
			return err
		}
	}

	if failed > 0 {
		return &NotDeliveredError{Failed: failed, All: len(outcomes)}
	}

	return nil
}

// invite names the pages.
func (d *demo) invite(outcomes []*outcome) {
	title := "The clips with the skeletons on them:"
	if len(outcomes) == 1 {
		title = "The clip with the skeletons on it:"
	}

	d.term.text("\n%s", title)

	for _, o := range outcomes {
		label := o.clip.name
		if !o.delivered() {
			label += " (" + o.analysis.Status + ": no skeletons)"
		}

		d.term.text("  %s/analyses/%s  %s", d.api.Base, o.analysis.ID, label)
	}

	d.term.text("\nCtrl-C ends the demo and removes everything it has made.")
}
