package extract

import (
	"math"

	"github.com/posefleet/posefleet/pose/media"
)

// meter turns frames of clips into the share of a request. Clips weigh what they are expected to take: their frames.
type meter struct {
	expected []float64
	total    float64
	done     float64
	infos    []*media.Info
	report   func(Progress)
}

func newMeter(infos []*media.Info, report func(Progress)) *meter {
	m := &meter{infos: infos, report: report}
	for _, i := range infos {
		n := math.Max(1, expectedFrames(i))
		m.expected = append(m.expected, n)
		m.total += n
	}
	return m
}

// expectedFrames is 0 where the clip says nothing.
func expectedFrames(i *media.Info) float64 {
	if i.FramesDeclared != nil {
		return float64(*i.FramesDeclared)
	}
	return i.DurationMs / 1000 * max(i.AverageFPS, i.NominalFPS)
}

// clip returns the progress function of one clip.
func (m *meter) clip(index int) func(int, float64) {
	if m.report == nil {
		return func(int, float64) {}
	}
	before := 0.0
	for _, n := range m.expected[:index] {
		before += n
	}
	here, info := m.expected[index], m.infos[index]
	return func(frames int, t float64) {
		share := math.Min(1, float64(frames)/here)
		if here <= 1 && info.DurationMs > 0 {
			share = math.Min(1, t/info.DurationMs)
		}
		m.done = max(m.done, (before+share*here)/m.total) // a damaged clip begins anew
		m.report(Progress{Done: m.done, Frames: frames, Total: int(expectedFrames(info))})
	}
}
