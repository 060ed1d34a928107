package models

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/manifest"
	"github.com/posefleet/posefleet/pose/movenet"
	"github.com/posefleet/posefleet/pose/rtmpose"
	"github.com/posefleet/posefleet/pose/vision"
	"github.com/posefleet/posefleet/pose/yolopose"
)

// Model is an open model. Exactly one of Multi and Estimator is set; with Estimator, Detector finds the people. It is not safe for
// concurrent use. Close frees its native memory.
type Model struct {
	Info     pose.ModelInfo
	Skeleton pose.Skeleton
	// Scores are the bounds from which a find counts.
	Scores manifest.Scores
	// BlazePose is the shipped family's own face, which tells more than the seam does; nil for other families.
	BlazePose *blazepose.Estimator
	Multi     vision.MultiPose
	Estimator vision.Estimator
	Detector  vision.Detector
	// Inputs and Outputs are the file's.
	Inputs, Outputs []infer.TensorInfo

	closers []io.Closer
}

// detectorModel is the shipped model whose landmarks confirm what the detector finds for other families' estimators: the fastest.
const detectorModel = "lite"

// blazePresence is the presence from which a BlazePose model sees somebody.
const blazePresence = 0.5

// Open opens a model of the catalogue, after its sum and that of the inference library were compared with what they should be.
func (c *Catalogue) Open(e Entry) (*Model, error) {
	if e.Err != nil {
		return nil, fmt.Errorf("model %s: %w", e.Name, e.Err)
	}
	open := c.openUsers
	if e.Shipped() {
		open = c.openShipped
	}
	m, err := open(e)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", e.Name, err)
	}
	return m, nil
}

func (c *Catalogue) openShipped(e Entry) (*Model, error) {
	b, err := c.blazePose(e.Name)
	if err != nil {
		return nil, err
	}
	m := &Model{
		Info: b.Info(), Skeleton: pose.BlazePose33(), Scores: manifest.Scores{Person: blazePresence}, BlazePose: b,
		Estimator: blazepose.Points{Estimator: b}, Detector: blazepose.Detector{Estimator: b},
		closers: []io.Closer{b},
	}
	m.Inputs, m.Outputs = b.Tensors()
	dir, err := c.assets()
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	m.Info.Detector = detectorPart(b, dir)
	m.Info.Runtime = runtimePart(b.Runtime(), dir)
	return m, nil
}

func (c *Catalogue) blazePose(name string) (*blazepose.Estimator, error) {
	return blazepose.Open(blazepose.Config{Assets: c.config.Assets, Model: name, Engine: c.config.Engine, Threads: c.config.Threads})
}

func detectorPart(b *blazepose.Estimator, dir *assets.Dir) pose.ModelPart {
	sum, _ := dir.SHA256(assets.ModelFile(assets.Detector, false))
	return pose.ModelPart{Name: "blazepose-detector", Version: b.Info().Version, SHA256: sum}
}

func runtimePart(e infer.Engine, dir *assets.Dir) pose.ModelPart {
	part := pose.ModelPart{Name: e.Name(), Version: e.Version()}
	if e.Name() == blazepose.EngineONNXRuntime {
		part.SHA256, _ = dir.SHA256(assets.RuntimeFile)
	}
	return part
}

// openUsers opens a model that has a manifest.
func (c *Catalogue) openUsers(e Entry) (*Model, error) {
	if err := checkSum(e); err != nil {
		return nil, err
	}
	dir, err := c.assets()
	if err != nil {
		return nil, err
	}
	engine, err := c.engine(dir)
	if err != nil {
		return nil, err
	}
	s, err := engine.Load(e.Path, infer.Options{Threads: c.config.Threads})
	if err != nil {
		return nil, err
	}
	m := &Model{
		Info:     pose.ModelInfo{Name: e.Manifest.Name, Version: e.Manifest.Version, SHA256: e.SHA256, Runtime: runtimePart(engine, dir)},
		Skeleton: e.Skeleton, Scores: e.Manifest.Scores, Inputs: s.Inputs(), Outputs: s.Outputs(), closers: []io.Closer{s},
	}
	if err = m.join(e.Manifest, s); err == nil && m.Estimator != nil {
		err = c.addDetector(m, dir)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func checkSum(e Entry) error {
	got, err := assets.Sum(e.Path)
	if err != nil {
		return err
	}
	if got != e.SHA256 {
		return fmt.Errorf("%s: %w: sha256 %s, but %s says %s", e.Path, assets.ErrChecksum, got, e.ManifestPath, e.SHA256)
	}
	return nil
}

// engine opens the engine for a user's model. OpenCV reads few of the files that people have, so that it is taken only if asked for.
func (c *Catalogue) engine(dir *assets.Dir) (infer.Engine, error) {
	if c.config.Engine == blazepose.EngineOpenCV {
		return infer.NewOpenCV(), nil
	}
	path, err := dir.File(assets.RuntimeFile)
	if err != nil {
		return nil, fmt.Errorf("models of one's own need ONNX Runtime: %w", err)
	}
	return infer.NewORT(path)
}

// join gives the session to its family.
func (m *Model) join(mf manifest.Manifest, s infer.Session) (err error) {
	switch mf.Family {
	case manifest.MoveNet:
		m.Estimator, err = orNil[vision.Estimator](movenet.NewSingle(mf, s))
	case manifest.MoveNetMulti:
		m.Multi, err = orNil[vision.MultiPose](movenet.NewMulti(mf, s))
	case manifest.RTMPose:
		m.Estimator, err = orNil[vision.Estimator](rtmpose.New(mf, s))
	case manifest.YOLOPose, manifest.RTMO:
		m.Multi, err = orNil[vision.MultiPose](yolopose.New(mf, s))
	default:
		err = fmt.Errorf("family %q is none of %v", mf.Family, manifest.Families())
	}
	return err
}

// orNil keeps a nil pointer from becoming an interface that is not nil.
func orNil[I any, T any](v T, err error) (I, error) {
	var none I
	if err != nil {
		return none, err
	}
	return any(v).(I), nil
}

// addDetector gives an estimator of one person the shipped detector.
func (c *Catalogue) addDetector(m *Model, dir *assets.Dir) error {
	b, err := c.blazePose(detectorModel)
	if err != nil {
		return fmt.Errorf("the detector for it: %w", err)
	}
	m.closers = append(m.closers, b)
	m.Detector, m.Info.Detector = blazepose.Detector{Estimator: b}, detectorPart(b, dir)
	return nil
}

// Close frees the model.
func (m *Model) Close() error {
	var errs []error
	for _, c := range m.closers {
		errs = append(errs, c.Close())
	}
	m.closers = nil
	return errors.Join(errs...)
}

// Trial is what a run on an empty picture showed.
type Trial struct {
	// Took is the time of the second of two runs.
	Took time.Duration
	// People is how many people the model saw where nobody is.
	People int
}

// Try runs the model on an even grey picture.
func (m *Model) Try(ctx context.Context) (Trial, error) {
	const width, height, grey = 640, 480, 127
	p := vision.Picture{Pix: make([]byte, 3*width*height), Width: width, Height: height}
	for i := range p.Pix {
		p.Pix[i] = grey
	}
	var t Trial
	for range 2 {
		start := time.Now()
		n, err := m.count(ctx, p)
		if err != nil {
			return t, err
		}
		t.Took, t.People = time.Since(start), n
	}
	return t, nil
}

// count is the number of people whom the model sees in a picture; an estimator looks at all of it.
func (m *Model) count(ctx context.Context, p vision.Picture) (int, error) {
	if m.Multi != nil {
		all, err := m.Multi.EstimateAll(ctx, p, nil)
		return len(all), err
	}
	one, err := m.Estimator.Estimate(ctx, p, m.Estimator.Region(pose.Box{W: float64(p.Width), H: float64(p.Height)}))
	if err != nil || one.Score < m.Scores.Person {
		return 0, err
	}
	return 1, nil
}
