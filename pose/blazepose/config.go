package blazepose

import (
	"errors"
	"fmt"
	"slices"
)

// Config says which model to open and how to run it.
type Config struct {
	// Assets is the folder with the models, the inference library and manifest.json. Empty: the usual places (see
	// internal/assets).
	Assets string
	// Model is lite, full or heavy. Empty: heavy.
	Model string
	// Engine is onnxruntime, opencv, or auto: ONNX Runtime, and OpenCV where its library is missing. Empty: auto.
	Engine string
	// Threads is the number of threads of one inference, 1..64. 0: 1, which gives the best throughput per core.
	Threads int
	// MinScore is the detector's confidence under which a person is not reported, (0, 1). 0: 0.5.
	MinScore float64
}

// Engine names of Config.Engine.
const (
	EngineAuto        = "auto"
	EngineONNXRuntime = "onnxruntime"
	EngineOpenCV      = "opencv"
)

const (
	defaultModel    = "heavy"
	defaultMinScore = 0.5
	maxThreads      = 64
)

// Models are the names of Config.Model, fastest first.
func Models() []string { return []string{"lite", "full", "heavy"} }

// Validate reports all faults of the configuration at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if !slices.Contains(Models(), c.Model) {
		errs = append(errs, fmt.Errorf("model %q is none of %v", c.Model, Models()))
	}
	if engines := []string{EngineAuto, EngineONNXRuntime, EngineOpenCV}; !slices.Contains(engines, c.Engine) {
		errs = append(errs, fmt.Errorf("engine %q is none of %v", c.Engine, engines))
	}
	if c.Threads < 1 || c.Threads > maxThreads {
		errs = append(errs, fmt.Errorf("threads %d is not in 1..%d", c.Threads, maxThreads))
	}
	if !(c.MinScore > 0 && c.MinScore < 1) {
		errs = append(errs, fmt.Errorf("minimum score %v is not between 0 and 1", c.MinScore))
	}
	return errors.Join(errs...)
}

// withDefaults fills in the fields that are zero.
func (c Config) withDefaults() Config {
	if c.Model == "" {
		c.Model = defaultModel
	}
	if c.Engine == "" {
		c.Engine = EngineAuto
	}
	if c.Threads == 0 {
		c.Threads = 1
	}
	if c.MinScore == 0 {
		c.MinScore = defaultMinScore
	}
	return c
}
