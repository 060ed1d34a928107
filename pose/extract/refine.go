package extract

import (
	"iter"
	"slices"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/angles"
	"github.com/posefleet/posefleet/pose/signal"
)

// Refine adds smoothed points and angles to a source. Raw points stay; nothing crosses a cut; cut-offs and gaps are in real time, which
// follows from the clip's average and capture rate. Each call of the new Frames is a pass over the old ones that keeps some hundred
// frames.
func Refine(s pose.Source) (pose.Source, error) {
	scale, rate := signal.Clock(s.Clip.Media.FPS)
	breaks := slices.Clone(s.Clip.Media.Cuts)
	for _, r := range s.Clip.Media.Ramps {
		breaks = append(breaks, r.T)
	}
	slices.Sort(breaks)
	config := signal.Config{Skeleton: s.Skeleton, TimeScale: scale, Rate: rate, Breaks: breaks}
	filter, err := signal.New(config)
	if err != nil {
		return s, err
	}
	described := config.Describe()
	described.Angles = angles.Defs(s.Skeleton)
	described.TimeScale, described.Rate = rounded(scale, 6), rounded(rate, 4)
	meter := angles.Config{Skeleton: s.Skeleton, TimeScale: scale, Rate: rate, Breaks: breaks}
	raw := s.Frames
	s.Clip.Signal = &described
	s.Frames = func() iter.Seq2[pose.Frame, error] { return angles.Frames(meter, filter.Frames(raw())) }
	return s, nil
}
