package signal

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/pose"
)

// Config says what is filtered and how.
type Config struct {
	// Skeleton names the points. Left and right partners are found by their names.
	Skeleton pose.Skeleton
	// TimeScale is real seconds per second of the clip, more than 0. 0: 1.
	TimeScale float64
	// Rate is how many frames there are per real second. 0: unknown, cut-offs stay as they are.
	Rate float64
	// Breaks are the times in ms, rising, of first frames that have nothing to do with the ones before.
	Breaks []float64
	// Groups are the points by filter. Points that are in none are not filtered. Nil: DefaultGroups.
	Groups []pose.SignalGroup
}

// Cut-offs and gaps. A walk has nothing above 6 Hz, a bowling arm has up to 20; what is lost at the arm's cut-off of an elbow that
// extends 15° within 70 ms is less than half a degree. An arm may turn half round within 0.2 s, so that its gaps are shorter.
const (
	armCutoff, legCutoff, trunkCutoff = 25.0, 15.0, 8.0
	armGap, legGap, trunkGap          = 100.0, 150.0, 250.0
	// rateShare is the highest cut-off in parts of the frame rate: above there is next to nothing to filter.
	rateShare = 0.4
)

// DefaultGroups sorts the points of a skeleton into arms, legs and trunk (with the head) by their names. At a low frame rate
// cut-offs are lowered to what the rate can show; 0 is an unknown rate.
func DefaultGroups(s pose.Skeleton, rate float64) []pose.SignalGroup {
	groups := []pose.SignalGroup{
		{Name: "arms", CutoffHz: armCutoff, MaxGapMs: armGap},
		{Name: "legs", CutoffHz: legCutoff, MaxGapMs: legGap},
		{Name: "trunk", CutoffHz: trunkCutoff, MaxGapMs: trunkGap},
	}
	for i, name := range s.Keypoints {
		g := &groups[limbOf(name)]
		g.Points = append(g.Points, i)
	}
	for i := range groups {
		if rate > 0 {
			groups[i].CutoffHz = math.Round(100*math.Min(groups[i].CutoffHz, rateShare*rate)) / 100
		}
	}
	return slices.DeleteFunc(groups, func(g pose.SignalGroup) bool { return len(g.Points) == 0 })
}

// limb is a part of the body.
type limb int

const (
	arms limb = iota
	legs
	trunk
)

// limbOf tells the part by the point's name. Shoulders are with the arms: an angle must see its three points through one filter.
func limbOf(name string) limb {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
	}
	switch {
	case has("shoulder", "elbow", "wrist", "hand", "pinky", "thumb"), has("index") && !has("foot"):
		return arms
	case has("knee", "ankle", "heel", "foot", "toe"):
		return legs
	}
	return trunk
}

// Validate reports all faults of the configuration at once.
func (c Config) Validate() error {
	var errs []error
	if !(c.TimeScale >= 0) || math.IsInf(c.TimeScale, 0) {
		errs = append(errs, fmt.Errorf("time scale %v is none", c.TimeScale))
	}
	if !(c.Rate >= 0) || math.IsInf(c.Rate, 0) {
		errs = append(errs, fmt.Errorf("frame rate %v is none", c.Rate))
	}
	if !slices.IsSorted(c.Breaks) {
		errs = append(errs, errors.New("breaks are not in order"))
	}
	seen := map[int]bool{}
	for _, g := range c.Groups {
		if !(g.CutoffHz >= 0) || !(g.MaxGapMs >= 0) {
			errs = append(errs, fmt.Errorf("group %s: cut-off %v Hz or gap %v ms is none", g.Name, g.CutoffHz, g.MaxGapMs))
		}
		for _, p := range g.Points {
			if p < 0 || p >= len(c.Skeleton.Keypoints) || seen[p] {
				errs = append(errs, fmt.Errorf("group %s: point %d is not in the skeleton or in two groups", g.Name, p))
			}
			seen[p] = true
		}
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.TimeScale == 0 {
		c.TimeScale = 1
	}
	if c.Groups == nil {
		c.Groups = DefaultGroups(c.Skeleton, c.Rate)
	}
	return c
}

// Describe is the clip's word on how its smoothed points came about; without angles.
func (c Config) Describe() pose.Signal {
	c = c.withDefaults()
	return pose.Signal{
		Filter: "on true times: left and right, single faults, gaps, then Butterworth of fourth order forwards and backwards " +
			"(no lag; -3 dB at the cut-off)",
		TimeScale: c.TimeScale, Rate: c.Rate, Groups: c.Groups,
	}
}

// Clock tells how a clip's time runs: real seconds per second of the clip, and frames per real second. Both follow from the
// average and the capture rate; a capture rate within a tenth of the average one is the same. Rate is 0 where nothing is known.
func Clock(f pose.FPS) (timeScale, rate float64) {
	timeScale = 1
	if f.Average == nil || !(*f.Average > 0) {
		return 1, 0
	}
	rate = *f.Average
	if f.Capture != nil && *f.Capture > 0 && math.Abs(*f.Capture/rate-1) > 0.1 {
		timeScale, rate = rate / *f.Capture, *f.Capture
	}
	return timeScale, rate
}
