package protocol

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
)

// Models that params.model may ask for.
const (
	ModelLite  = "lite"
	ModelFull  = "full"
	ModelHeavy = "heavy"
)

// ModelNames returns the models from fast to exact.
func ModelNames() []string { return []string{ModelLite, ModelFull, ModelHeavy} }

// OwnModelPrefix stands before the name of a model that the workers have besides the shipped ones. Only they know which these are, so that
// a name without it that is none of ModelNames can be refused everywhere.
const OwnModelPrefix = "own:"

// ownModel is the form of a model of one's own.
var ownModel = regexp.MustCompile(`^own:[a-z0-9][a-z0-9._-]{0,63}$`)

// ValidModel reports whether params.model may have the value.
func ValidModel(model string) bool {
	return slices.Contains(ModelNames(), model) || ownModel.MatchString(model)
}

// rawParams tells absent from zero and whole numbers from others; null is absent.
type rawParams struct {
	Model   *string `json:"model"`
	Athlete *struct {
		Clip *string  `json:"clip"`
		T    *float64 `json:"t"`
		X    *float64 `json:"x"`
		Y    *float64 `json:"y"`
	} `json:"athlete"`
	CaptureFPS *float64 `json:"captureFps"`
	MaxPeople  *float64 `json:"maxPeople"`
	Smooth     *bool    `json:"smooth"`
}

// ParseParams reads the params of a claim. Unknown keys are ignored; a known key with a value that makes no sense
// is a permanent CodeInvalidRequest fault, since guessing what was meant would give a result that nobody asked for.
func ParseParams(data []byte) (Params, error) {
	var raw *rawParams
	if err := json.Unmarshal(data, &raw); err != nil || raw == nil {
		return Params{}, NewFault(CodeInvalidRequest, "params is not an object of the known types").WithCause(err)
	}
	p := Params{Smooth: raw.Smooth}
	if raw.Model != nil {
		if !ValidModel(*raw.Model) {
			return Params{}, badParam("model is not lite, full or heavy, nor own: and the name of a model")
		}
		p.Model = *raw.Model
	}
	if raw.CaptureFPS != nil {
		if *raw.CaptureFPS <= 0 {
			return Params{}, badParam("captureFps is not positive")
		}
		p.CaptureFPS = *raw.CaptureFPS
	}
	if raw.MaxPeople != nil {
		n := *raw.MaxPeople
		if n < 1 || n != math.Trunc(n) || n > math.MaxInt32 {
			return Params{}, badParam("maxPeople is not a whole number of at least 1")
		}
		p.MaxPeople = int(n)
	}
	if a := raw.Athlete; a != nil {
		if a.T == nil || a.X == nil || a.Y == nil || *a.T < 0 {
			return Params{}, badParam("athlete has no t, x and y, or t is negative")
		}
		p.Athlete = &Athlete{T: *a.T, X: *a.X, Y: *a.Y}
		if a.Clip != nil {
			p.Athlete.Clip = *a.Clip
		}
	}
	return p, nil
}

// Validate returns a permanent CodeInvalidRequest fault if p points at a clip that is not among clips.
func (p Params) Validate(clips []ClaimClip) error {
	if p.Athlete == nil || p.Athlete.Clip == "" {
		return nil
	}
	named := func(c ClaimClip) bool { return c.ID == p.Athlete.Clip }
	if !slices.ContainsFunc(clips, named) {
		return badParam("athlete.clip is none of the clips")
	}
	return nil
}

func badParam(what string) error {
	return NewFault(CodeInvalidRequest, fmt.Sprintf("params: %s", what))
}
