package extract

import (
	"math"

	"github.com/posefleet/posefleet/pose"
)

// Quality sums up how far a clip's poses can be trusted.
type Quality struct {
	// People is how many people were found, AthleteFrames in how many frames the athlete was, AthleteCoverage the share of
	// them, AthleteScore the mean score there.
	People          int     `json:"people"`
	AthleteFrames   int     `json:"athleteFrames"`
	AthleteCoverage float64 `json:"athleteCoverage"`
	AthleteScore    float64 `json:"athleteScore"`
	// FPS is the average rate, CaptureFPS the camera's where known: of slow motion, times are not real times.
	FPS           *float64        `json:"fps"`
	CaptureFPS    *float64        `json:"captureFps"`
	VariableRate  bool            `json:"variableRate"`
	Timestamps    pose.Timestamps `json:"timestamps"`
	Partial       bool            `json:"partial"`
	DecodeErrors  int             `json:"decodeErrors"`
	SizeChanges   int             `json:"sizeChanges"`
	Cuts          int             `json:"cuts"`
	DurationMs    float64         `json:"-"`
	FramesDecoded int             `json:"framesDecoded"`
}

// quality is the athlete's part.
func (p *pass) quality(track int) Quality {
	c := p.counts[track]
	return Quality{
		AthleteFrames:   c.frames,
		AthleteCoverage: rounded(float64(c.frames)/float64(p.frames), 4),
		AthleteScore:    rounded(c.score/float64(c.frames), 4),
	}
}

// describe adds what the media say.
func (q *Quality) describe(m pose.Media, people int) {
	q.People = people
	q.FPS, q.CaptureFPS = roundedRate(m.FPS.Average), roundedRate(m.FPS.Capture)
	q.VariableRate, q.Timestamps, q.Partial = m.VariableRate, m.Timestamps, m.Partial
	q.DecodeErrors, q.SizeChanges, q.Cuts, q.FramesDecoded = m.DecodeErrors, m.SizeChanges, len(m.Cuts), m.FramesDecoded
	q.DurationMs = rounded(m.DurationMs, 3)
}

func roundedRate(v *float64) *float64 {
	if v == nil {
		return nil
	}
	r := rounded(*v, 4)
	return &r
}

func rounded(v float64, decimals int) float64 {
	p := math.Pow10(decimals)
	return math.Round(v*p) / p
}
