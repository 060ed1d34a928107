package infer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// NewORT opens ONNX Runtime from the shared library at an absolute path. The caller has checked that the file is
// the one it trusts: its code runs in this process. A library that cannot be used is a [*LibraryError]; one that
// is not there matches [ErrLibraryMissing] as well.
func NewORT(libPath string) (Engine, error) {
	if err := process.open(libPath); err != nil {
		return nil, err
	}
	return ortEngine{}, nil
}

// ortEngine has no state of its own: the library belongs to the process.
type ortEngine struct{}

func (ortEngine) Name() string { return "onnxruntime" }

func (ortEngine) Version() string { return ort.GetVersion() }

func (ortEngine) Close() error { return nil }

// Load opens a model. Graph optimisation is left at its default, all levels: it does not change results between
// runs.
func (ortEngine) Load(path string, o Options) (Session, error) {
	inputs, outputs, err := readHeader(path)
	if err != nil {
		return nil, err
	}
	opts, err := sessionOptions(o)
	if err != nil {
		return nil, fmt.Errorf("session options: %w", err)
	}
	defer func() { _ = opts.Destroy() }()
	native, err := ort.NewDynamicAdvancedSession(path, names(inputs), names(outputs), opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrModel, path, err)
	}
	return &ortSession{
		inputs: inputs, outputs: outputs, native: native,
		in: make([]port, len(inputs)), out: make([]port, len(outputs)),
		values: make([]ort.Value, len(inputs)), results: make([]ort.Value, len(outputs)),
		tensors: make([]Tensor, len(outputs)),
	}, nil
}

// sessionOptions makes runs quiet neighbours: a fixed number of threads, which sleep instead of spinning when they
// wait, since other work runs beside us.
func sessionOptions(o Options) (*ort.SessionOptions, error) {
	opts, err := ort.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		opts.SetIntraOpNumThreads(o.threads()),
		opts.SetInterOpNumThreads(1),
		opts.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"),
		opts.AddSessionConfigEntry("session.inter_op.allow_spinning", "0"),
	)
	if err != nil {
		return nil, errors.Join(err, opts.Destroy())
	}
	return opts, nil
}

func names(infos []TensorInfo) []string {
	out := make([]string, len(infos))
	for i, t := range infos {
		out[i] = t.Name
	}
	return out
}

// ortSession owns the native session and one native tensor per input and per output of fixed shape, all reused by
// every run.
type ortSession struct {
	inputs, outputs []TensorInfo

	mu              sync.Mutex // serialises Run and Close
	native          *ort.DynamicAdvancedSession
	in, out         []port
	values, results []ort.Value
	tensors         []Tensor
}

func (s *ortSession) Inputs() []TensorInfo { return s.inputs }

func (s *ortSession) Outputs() []TensorInfo { return s.outputs }

// Run implements Session.
func (s *ortSession) Run(ctx context.Context, in []Tensor) ([]Tensor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.native == nil {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := checkInputs(s.inputs, in); err != nil {
		return nil, err
	}
	for i, t := range in {
		if err := bind(&s.in[i], t.DType(), t.Shape); err != nil {
			return nil, fmt.Errorf("input %s: %w", s.inputs[i].Name, err)
		}
		s.in[i].fill(t)
		s.values[i] = s.in[i].value()
	}
	if err := s.bindOutputs(); err != nil {
		return nil, err
	}
	if err := s.native.Run(s.values, s.results); err != nil {
		return nil, errors.Join(fmt.Errorf("run model: %w", err), s.freeResults(false))
	}
	err := s.collect()
	return s.tensors, errors.Join(err, s.freeResults(true))
}

// bindOutputs hands in our own tensors where the shape is known, and leaves the others to the library.
func (s *ortSession) bindOutputs() error {
	for i, t := range s.outputs {
		s.results[i] = nil
		if t.Shape == nil || elements(t.Shape) < 1 {
			continue
		}
		if err := bind(&s.out[i], t.DType, t.Shape); err != nil {
			return fmt.Errorf("output %s: %w", t.Name, err)
		}
		s.results[i] = s.out[i].value()
	}
	return nil
}

// collect describes the results of a run. What the library allocated is copied, since it is freed at once.
func (s *ortSession) collect() error {
	for i, t := range s.outputs {
		if s.out[i] != nil {
			s.tensors[i] = s.out[i].tensor()
		} else if err := copyValue(&s.tensors[i], s.results[i]); err != nil {
			return fmt.Errorf("output %s: %w", t.Name, err)
		}
		s.tensors[i].Name = t.Name
	}
	return nil
}

// freeResults frees the tensors that the library allocated in a run; of a failed run it allocated none.
func (s *ortSession) freeResults(ran bool) error {
	var errs []error
	for i, v := range s.results {
		if ran && v != nil && s.out[i] == nil {
			errs = append(errs, v.Destroy())
		}
		s.results[i] = nil
	}
	return errors.Join(errs...)
}

// Close implements Session.
func (s *ortSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.native == nil {
		return nil
	}
	err := s.native.Destroy()
	s.native = nil
	for _, list := range [][]port{s.in, s.out} {
		for i, p := range list {
			if p != nil {
				err = errors.Join(err, p.destroy())
			}
			list[i] = nil
		}
	}
	return err
}
