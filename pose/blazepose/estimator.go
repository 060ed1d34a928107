package blazepose

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/infer"
)

// modelVersion is the version of the package that the weights come from.
const modelVersion = "0.5.1675469404"

// Faults of callers and files.
var (
	// ErrImage says that a picture is not one that can be looked at.
	ErrImage = errors.New("unusable picture")
	// ErrROI says that a ROI is not Valid.
	ErrROI = errors.New("unusable region of interest")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("estimator is closed")
	// errLayout says that a file is not the model that its name says.
	errLayout = errors.New("its inputs and outputs are not those of a BlazePose model")
)

// Estimator finds people and their points with one model. It is not safe for concurrent use: it owns work
// buffers. But one Detect may run beside one Landmarks, which share none. Close frees its native memory.
type Estimator struct {
	engine   infer.Engine
	detector infer.Session
	landmark infer.Session
	info     pose.ModelInfo
	minScore float64
	scale    scale

	// wide makes the detector's input, close the landmark model's.
	wide, close *sampler
	anchors     []Point2
	// detectorIn and landmarkIn are views of the planes of wide and close.
	detectorIn, landmarkIn []infer.Tensor
	points                 [usedPoints]Point
	runs                   Runs
}

// Runs counts inferences.
type Runs struct{ Detector, Landmark int }

// Runs are the inferences since Open: what a pass costs, whatever else the machine does.
func (e *Estimator) Runs() Runs { return e.runs }

// Open loads the models of c, after their sums and that of the inference library were compared with the manifest.
// The caller must Close the estimator.
func Open(c Config) (*Estimator, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("open pose model: %w", err)
	}
	c = c.withDefaults()
	dir, err := openAssets(c.Assets)
	if err != nil {
		return nil, fmt.Errorf("open pose model: %w", err)
	}
	engine, err := openEngine(c.Engine, dir)
	if err != nil {
		return nil, fmt.Errorf("open pose model: %w", err)
	}
	e := &Estimator{engine: engine, minScore: c.MinScore, scale: scales[c.Model], anchors: anchors()}
	if err := e.load(c, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open pose model: %w", err), e.Close())
	}
	return e, nil
}

func openAssets(path string) (*assets.Dir, error) {
	if path == "" {
		return assets.Find()
	}
	return assets.Open(path)
}

// openEngine opens the engine by name. With auto, only a library that is absent leads to OpenCV: one that is there
// but wrong is an error, since somebody should know.
func openEngine(name string, dir *assets.Dir) (infer.Engine, error) {
	if name == EngineOpenCV {
		return infer.NewOpenCV(), nil
	}
	path, err := dir.File(assets.RuntimeFile)
	if err == nil {
		return infer.NewORT(path)
	}
	if name == EngineAuto && isMissing(err) {
		return infer.NewOpenCV(), nil
	}
	return nil, err
}

// load opens both models and makes the work buffers.
func (e *Estimator) load(c Config, dir *assets.Dir) error {
	// OpenCV's own picture functions would take all cores otherwise.
	infer.SetOpenCVThreads(c.Threads)
	opencv := e.engine.Name() == EngineOpenCV
	o := infer.Options{Threads: c.Threads}
	var err error
	if e.detector, err = loadModel(e.engine, dir, assets.ModelFile(assets.Detector, opencv), o, detectorLayout()); err != nil {
		return err
	}
	file := assets.ModelFile("pose_landmark_"+c.Model, opencv)
	if e.landmark, err = loadModel(e.engine, dir, file, o, landmarkLayout()); err != nil {
		return err
	}
	// The sum names the weights, so it is the same for both engines: that of the plain form.
	sum, _ := dir.SHA256(assets.ModelFile("pose_landmark_"+c.Model, false))
	e.info = pose.ModelInfo{Name: "blazepose-" + c.Model, Version: modelVersion, SHA256: sum}
	e.wide, e.close = newSampler(detectorSide, -1, 1), newSampler(cropSide, 0, 1)
	e.detectorIn = []infer.Tensor{{Shape: e.detector.Inputs()[0].Shape, F32: e.wide.data}}
	e.landmarkIn = []infer.Tensor{{Shape: e.landmark.Inputs()[0].Shape, F32: e.close.data}}
	return nil
}

// layout is what a model must look like: the shapes of its only input and of its outputs.
type layout struct {
	input   []int64
	outputs [][]int64
}

func detectorLayout() layout {
	return layout{
		input:   []int64{1, 3, detectorSide, detectorSide},
		outputs: [][]int64{{1, numAnchors, valuesPerBox}, {1, numAnchors, 1}},
	}
}

// The landmark model's outputs: points, presence, heatmaps, points in metres.
const (
	outPoints = iota
	outPresence
	outHeat
	outWorld
)

func landmarkLayout() layout {
	return layout{
		input: []int64{1, 3, cropSide, cropSide},
		outputs: [][]int64{
			outPoints: {1, modelPoints * valuesPerPoint}, outPresence: {1, 1},
			outHeat: {1, modelPoints, heatSide, heatSide}, outWorld: {1, modelPoints * 3},
		},
	}
}

// loadModel checks a file against the manifest, loads it, and compares it with the layout.
func loadModel(e infer.Engine, dir *assets.Dir, name string, o infer.Options, want layout) (infer.Session, error) {
	path, err := dir.File(name)
	if err != nil {
		return nil, err
	}
	s, err := e.Load(path, o)
	if err != nil {
		return nil, err
	}
	in, out := s.Inputs(), s.Outputs()
	ok := len(in) == 1 && fits(in[0], want.input) && len(out) == len(want.outputs)
	for i := 0; ok && i < len(out); i++ {
		ok = fits(out[i], want.outputs[i])
	}
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s: %w: %v to %v", name, errLayout, in, out), s.Close())
	}
	return s, nil
}

func fits(t infer.TensorInfo, shape []int64) bool {
	return t.DType == infer.Float32 && slices.Equal(t.Shape, shape)
}

// Close frees the native sessions. A second call does nothing.
func (e *Estimator) Close() error {
	var errs []error
	for _, s := range []infer.Session{e.detector, e.landmark} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if e.engine != nil {
		errs = append(errs, e.engine.Close())
	}
	*e = Estimator{info: e.info}
	return errors.Join(errs...)
}

// Info names the landmark model. Its sum is that of the file for ONNX Runtime, whichever engine runs.
func (e *Estimator) Info() pose.ModelInfo { return e.info }

// Engine is the name of the engine in use: onnxruntime or opencv; empty after Close.
func (e *Estimator) Engine() string {
	if e.engine == nil {
		return ""
	}
	return e.engine.Name()
}

// run is one inference with the estimator's own input.
func (e *Estimator) run(ctx context.Context, s infer.Session, in []infer.Tensor) ([]infer.Tensor, error) {
	out, err := s.Run(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.info.Name, err)
	}
	return out, nil
}
