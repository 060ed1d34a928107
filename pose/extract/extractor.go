package extract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"iter"
	"path/filepath"
	"strings"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/pose/models"
	"github.com/posefleet/posefleet/protocol"
)

// Extractor turns clips into poses and keeps the models that it has loaded. It does one request at a time and is not safe for
// concurrent use. Close frees the models.
type Extractor struct {
	config    Config
	catalogue *models.Catalogue
	// models are the open ones by the name that they were asked for; the default model's is empty.
	models map[string]*models.Model
}

// New returns an extractor with its default model loaded, so that a missing or wrong model file shows at once.
func New(c Config) (*Extractor, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	x := &Extractor{config: c.withDefaults(), models: map[string]*models.Model{}}
	var err error
	if x.catalogue, err = models.New(x.config.catalogue()); err != nil {
		return nil, err
	}
	if _, err := x.model(""); err != nil {
		return nil, err
	}
	return x, nil
}

// Close frees the models.
func (x *Extractor) Close() error {
	var errs []error
	for _, m := range x.models {
		errs = append(errs, m.Close())
	}
	clear(x.models)
	return errors.Join(errs...)
}

// Model names the default model.
func (x *Extractor) Model() pose.ModelInfo { return x.models[""].Info }

// model returns the open model of a name, and opens it if it is not. A job may give names only; the default may be a path.
func (x *Extractor) model(name string) (*models.Model, error) {
	find := x.catalogue.Find
	if name == x.config.Model {
		name = ""
	}
	if m := x.models[name]; m != nil {
		return m, nil
	}
	wanted := name
	if name == "" {
		find, wanted = x.catalogue.Locate, x.config.Model
	}
	entry, err := find(wanted)
	if err != nil {
		return nil, protocol.NewFault(protocol.CodeInvalidJob, "parameters: model: "+oneLine(err.Error())).WithCause(err)
	}
	if err := x.makeRoom(); err != nil {
		return nil, err
	}
	m, err := x.catalogue.Open(entry)
	if err != nil {
		return nil, err
	}
	x.models[name] = m
	return m, nil
}

// maxOpen is how many models are kept open: the three shipped ones and one more.
const maxOpen = 4

// makeRoom closes all models but the default one when there are too many: jobs may ask for any of the user's models.
func (x *Extractor) makeRoom() error {
	if len(x.models) < maxOpen {
		return nil
	}
	var errs []error
	for name, m := range x.models {
		if name != "" {
			errs = append(errs, m.Close())
			delete(x.models, name)
		}
	}
	return errors.Join(errs...)
}

// Request is the work of one job.
type Request struct {
	// AnalysisID is nil on the command line.
	AnalysisID *string
	Clips      []Input
	Params     protocol.Params
	// Dir is where spool files are made.
	Dir string
	// Progress, if set, is told about each frame. It is called often and must be quick.
	Progress func(Progress)
}

// Input is one clip.
type Input struct{ ID, Path string }

// Progress tells how far a request is.
type Progress struct {
	// Done is the share of the whole request, 0..1.
	Done float64
	// Frames is how many frames of the current clip are done, Total how many it should have; 0 where that is unknown.
	Frames, Total int
}

// Result is a finished request. Close removes its spool files.
type Result struct {
	AnalysisID *string
	Model      pose.ModelInfo
	// Skeleton is that of the model.
	Skeleton pose.Skeleton
	Clips    []*Clip
}

// Clip is a finished clip of a Result.
type Clip struct {
	pose.ClipHead
	// Name is the clip's file name without folder and extension.
	Name     string
	Skeleton pose.Skeleton
	// Info is what the file said before it was decoded.
	Info    *media.Info
	Quality Quality

	spool *spool
	names map[int]int
	// refined is whether smoothed points and angles were asked for.
	refined bool
}

// Run does a request. Errors have a code by Fault. The caller must Close the result.
func (x *Extractor) Run(ctx context.Context, r Request) (*Result, error) {
	if err := checkParams(r.Params); err != nil {
		return nil, err
	}
	infos, err := x.probe(ctx, r.Clips)
	if err != nil {
		return nil, err
	}
	m, err := x.model(r.Params.Model)
	if err != nil {
		return nil, err
	}
	out := &Result{AnalysisID: r.AnalysisID, Model: m.Info, Skeleton: m.Skeleton}
	meter := newMeter(infos, r.Progress)
	for i, info := range infos {
		c, err := x.clip(ctx, m, r, i, info, meter.clip(i))
		if err != nil {
			return nil, errors.Join(clipError(r.Clips, i, err), out.Close())
		}
		out.Clips = append(out.Clips, c)
	}
	return out, nil
}

// probe looks at all clips before the first one is decoded: a fault of the last one shows at once.
func (x *Extractor) probe(ctx context.Context, clips []Input) ([]*media.Info, error) {
	if len(clips) == 0 {
		return nil, protocol.NewFault(protocol.CodeInvalidJob, "there is no clip")
	}
	infos := make([]*media.Info, 0, len(clips))
	for i, c := range clips {
		info, err := media.Probe(ctx, c.Path, x.config.Media)
		if err != nil {
			return nil, clipError(clips, i, err)
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// clipError says which of several clips is at fault.
func clipError(clips []Input, i int, err error) error {
	if f, ok := errors.AsType[*media.Fault](err); ok && len(clips) > 1 {
		return &media.Fault{Code: f.Code, Message: fmt.Sprintf("clip %s: %s", clips[i].ID, f.Message)}
	}
	return err
}

// clip does a clip. One that turns out to be damaged is done again with one decoder thread, so that it gives the same bytes each time.
func (x *Extractor) clip(ctx context.Context, m *models.Model, r Request, i int, info *media.Info, progress func(int, float64)) (*Clip, error) {
	threads := x.config.Media.Threads
	if threads == 0 {
		threads = decoderThreads(m.Info.Name, info)
	}
	clip, damaged, err := x.try(ctx, m, r, i, info, threads, progress)
	if err != nil || !damaged || threads == 1 {
		return clip, err
	}
	if err := clip.spool.remove(); err != nil {
		return nil, err
	}
	clip, _, err = x.try(ctx, m, r, i, info, 1, progress)
	return clip, err
}

func (x *Extractor) try(
	ctx context.Context, m *models.Model, r Request, i int, info *media.Info, threads int, progress func(int, float64),
) (_ *Clip, damaged bool, err error) {
	sp, err := newSpool(r.Dir)
	if err != nil {
		return nil, false, err
	}
	c := x.config.Media
	c.Planar, c.Threads = m.BlazePose != nil, threads
	pump, err := startPump(ctx, info, c)
	if err != nil {
		return nil, false, errors.Join(err, sp.remove())
	}
	size := image.Pt(pump.reader.Width, pump.reader.Height)
	p := newPass(newScout(m, size, slots(r.Params)), pump, sp, info, hint(r, i))
	if err := p.run(ctx, progress); err != nil {
		return nil, false, errors.Join(err, pump.close(), sp.remove())
	}
	clip := p.finish(r.Clips[i].ID, info, r.Params)
	clip.Skeleton = m.Skeleton
	return clip, pump.reader.Damaged(), pump.close()
}

func slots(p protocol.Params) int {
	if p.MaxPeople == 0 {
		return DefaultMaxPeople
	}
	return p.MaxPeople
}

// hint is the request's word on who the athlete is, if it is about clip i; without a clip it is about the first.
func hint(r Request, i int) *pose.Hint {
	a := r.Params.Athlete
	if a != nil && (a.Clip == r.Clips[i].ID || a.Clip == "" && i == 0) {
		return &pose.Hint{T: a.T, X: a.X, Y: a.Y}
	}
	return nil
}

// finish describes the clip after its last frame.
func (p *pass) finish(id string, info *media.Info, params protocol.Params) *Clip {
	c := &Clip{Info: info, Name: baseName(info.Path), spool: p.spool, names: p.names()}
	c.ID = id
	c.Media = p.pump.reader.Media()
	c.Media.Cuts, c.Media.Ramps = p.cutAt, p.rampAt
	if params.CaptureFPS > 0 {
		c.Media.FPS.Capture = &params.CaptureFPS
	}
	people := 0
	for track := range p.counts {
		if _, ok := c.names[track]; ok {
			people++
		} else {
			p.chooser.Forget(track)
		}
	}
	if a := p.chooser.Choose(); a != nil {
		c.Quality = p.quality(a.Track)
		a.Track = c.names[a.Track]
		c.Athlete = a
	}
	c.Quality.describe(c.Media, people)
	c.refined = params.Smooth != nil && *params.Smooth
	return c
}

func baseName(path string) string {
	name := filepath.Base(path)
	if short := strings.TrimSuffix(name, filepath.Ext(name)); short != "" {
		return short
	}
	return name
}

// Frames yields the clip's frames with raw points only.
func (c *Clip) Frames() iter.Seq2[pose.Frame, error] { return c.spool.frames(c.names) }

// Source is the clip as exporters read it, with smoothed points and angles if they were asked for.
func (c *Clip) Source() (pose.Source, error) {
	s := pose.Source{Name: c.Name, Skeleton: c.Skeleton, Clip: c.ClipHead, Frames: c.Frames}
	if !c.refined {
		return s, nil
	}
	return Refine(s)
}

// Summary is what the result message says about the clip.
func (c *Clip) Summary() (protocol.ResultClip, error) {
	q, err := json.Marshal(c.Quality)
	return protocol.ResultClip{
		ID: c.ID, Frames: c.Media.FramesDecoded, Width: c.Media.Width, Height: c.Media.Height,
		DurationMs: c.Quality.DurationMs, Quality: q,
	}, err
}

// Close removes the spool files.
func (r *Result) Close() error {
	var errs []error
	for _, c := range r.Clips {
		errs = append(errs, c.spool.remove())
	}
	r.Clips = nil
	return errors.Join(errs...)
}

// Runs are the inferences of all models so far.
func (x *Extractor) Runs() blazepose.Runs {
	var sum blazepose.Runs
	for _, m := range x.models {
		if m.BlazePose == nil {
			continue
		}
		r := m.BlazePose.Runs()
		sum.Detector += r.Detector
		sum.Landmark += r.Landmark
	}
	return sum
}
