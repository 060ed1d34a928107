package extract

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/pose/models"
	"github.com/posefleet/posefleet/protocol"
)

// Config says how clips are extracted.
type Config struct {
	// Assets is the folder with models and inference library; empty: the usual places.
	Assets string
	// Models is the folder of the user's own models, see models.Config; empty: none.
	Models string
	// Model is used where a job names none: lite, full, heavy, the name of one of the user's models, or the path of its folder, its
	// manifest or its file. Empty: DefaultModel.
	Model string
	// Engine is auto, onnxruntime or opencv. Empty: auto.
	Engine string
	// Threads of one inference, 1..64. 0: 1.
	Threads int
	// Media bounds and tunes decoding.
	Media media.Config
	// Logger gets debug lines. Nil: none.
	Logger *slog.Logger
}

const (
	// DefaultModel is the most accurate one: bowling clips are short, and of a fast arm the smaller models lose the wrist.
	DefaultModel = "heavy"
	// DefaultMaxPeople is how many people are followed at once where the request does not say.
	DefaultMaxPeople = 4
	// MaxPeople is the most that a request may ask for.
	MaxPeople = 16
)

// Validate reports all faults of the configuration at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	catalogue, err := models.New(c.catalogue())
	if err == nil {
		_, err = catalogue.Locate(c.Model)
	}
	return errors.Join(err, c.Media.Limits.Validate())
}

func (c Config) withDefaults() Config {
	if c.Model == "" {
		c.Model = DefaultModel
	}
	if c.Media.Limits == (media.Limits{}) {
		c.Media.Limits = media.DefaultLimits()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Media.Logger == nil {
		c.Media.Logger = c.Logger
	}
	return c
}

func (c Config) catalogue() models.Config {
	return models.Config{Assets: c.Assets, Dir: c.Models, Engine: c.Engine, Threads: c.Threads}
}

// MaxCaptureFPS is the highest rate of a camera that is believed, in frames a second.
const MaxCaptureFPS = 100_000

// checkParams refuses wishes that can't be meant.
func checkParams(p protocol.Params) error {
	var errs []error
	if p.CaptureFPS != 0 && !(p.CaptureFPS > 0 && p.CaptureFPS <= MaxCaptureFPS) {
		errs = append(errs, fmt.Errorf("captureFps %v is not a rate", p.CaptureFPS))
	}
	if p.MaxPeople < 0 || p.MaxPeople > MaxPeople {
		errs = append(errs, fmt.Errorf("maxPeople %d is not in 1..%d", p.MaxPeople, MaxPeople))
	}
	if err := errors.Join(errs...); err != nil {
		return protocol.NewFault(protocol.CodeInvalidJob, "parameters: "+oneLine(err.Error())).WithCause(err)
	}
	return nil
}
