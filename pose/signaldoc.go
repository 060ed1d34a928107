package pose

import (
	"encoding/json"
	"errors"
	"strconv"
)

// Signal says how the smoothed points and the angles of a clip were made. It stands in the clip's head where they were asked for.
type Signal struct {
	// Filter is a sentence for people.
	Filter string `json:"filter"`
	// TimeScale is real seconds per second of the clip: 0.125 for 240 frames a second played at 30.
	TimeScale float64 `json:"timeScale"`
	// Rate is how many frames there are per real second; 0 where that is unknown.
	Rate float64 `json:"rate"`
	// Groups are the points by how they are filtered; each point is in one.
	Groups []SignalGroup `json:"groups"`
	// Angles explains the angles of each person, in their order.
	Angles []AngleDef `json:"angles"`
}

// SignalGroup are points that are filtered alike.
type SignalGroup struct {
	Name string `json:"name"`
	// Points are indices into the skeleton.
	Points []int `json:"points"`
	// CutoffHz is where a movement keeps 71 % of its amplitude, in real hertz; 0: not smoothed.
	CutoffHz float64 `json:"cutoffHz"`
	// MaxGapMs is the longest gap that is filled, in real ms between the points around it.
	MaxGapMs float64 `json:"maxGapMs"`
}

// Smooth are the filtered points of a person beside the raw ones.
type Smooth struct {
	// Keypoints are in the skeleton's order. Scores are those of the raw points; a filled point has the lower one of its ends.
	Keypoints []Keypoint `json:"keypoints"`
	// Filled are the indices of points that were interpolated, Rejected those of raw points that were taken for faults, Swapped
	// those that were exchanged with their partner of the other side.
	Filled   []int `json:"filled,omitempty"`
	Rejected []int `json:"rejected,omitempty"`
	Swapped  []int `json:"swapped,omitempty"`
}

// AngleDef explains an angle: of a joint, between its two bones, or of a segment, against the picture.
type AngleDef struct {
	Name string `json:"name"`
	// Kind is joint or segment.
	Kind string `json:"kind"`
	// Points are the names of the points: proximal, joint, distal; or from, to. A part of several names is their middle.
	Points [][]string `json:"points"`
	// Range are the least and the greatest value in degrees.
	Range [2]float64 `json:"range"`
	// Plane is always picture: what turns towards the camera is not seen.
	Plane string `json:"plane"`
	// Zero says where the angle is 0 and Positive which way it grows.
	Zero     string `json:"zero"`
	Positive string `json:"positive"`
	// MinRate is how many frames per real second the angle needs.
	MinRate float64 `json:"minRate"`
}

// Reason is why an angle is not measurable.
type Reason string

// Reasons, in the order in which they are looked for.
const (
	// ReasonRate means that there are too few frames per real second, or that a bone turns too far from frame to frame.
	ReasonRate Reason = "rate"
	// ReasonMissing means that a point was not found.
	ReasonMissing Reason = "missing"
	// ReasonUnsure means that the model is unsure of a point.
	ReasonUnsure Reason = "unsure"
	// ReasonView means that a bone points so far towards or away from the camera that its direction in the picture says little.
	ReasonView Reason = "view"
	// ReasonShort means that a bone has too few pixels for its ends' error.
	ReasonShort Reason = "short"
)

// Angle is a measured angle, or why there is none. In JSON it is [degrees,error] or the reason.
type Angle struct {
	// Degrees is the value, Error its standard error from the points' uncertainty.
	Degrees, Error float64
	// Reason is empty for a measured angle.
	Reason Reason
}

const angleDecimals = 2

// MarshalJSON writes [degrees,error] or the reason.
func (a Angle) MarshalJSON() ([]byte, error) { return appendAngle(nil, a), nil }

// UnmarshalJSON reads [degrees,error] or a reason.
func (a *Angle) UnmarshalJSON(data []byte) error {
	*a = Angle{}
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &a.Reason)
	}
	var v []float64
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	if len(v) != 2 {
		return errors.New("an angle is [degrees, error] or a reason")
	}
	a.Degrees, a.Error = v[0], v[1]
	return nil
}

// Best are the smoothed points where there are any, else the raw ones.
func (p Person) Best() []Keypoint {
	if p.Smooth != nil {
		return p.Smooth.Keypoints
	}
	return p.Keypoints
}

func appendAngle(b []byte, a Angle) []byte {
	if a.Reason != "" {
		return strconv.AppendQuote(b, string(a.Reason))
	}
	b = append(b, '[')
	b = appendNumber(b, a.Degrees, angleDecimals)
	b = append(b, ',')
	b = appendNumber(b, a.Error, angleDecimals)
	return append(b, ']')
}

// extras writes what a person has beside the raw points, each with a comma in front.
func (d digits) extras(b []byte, p Person) []byte {
	if s := p.Smooth; s != nil {
		b = append(b, `,"smooth":{"keypoints":[`...)
		b = d.points(b, s.Keypoints)
		b = append(b, ']')
		b = appendIndices(b, "filled", s.Filled)
		b = appendIndices(b, "rejected", s.Rejected)
		b = appendIndices(b, "swapped", s.Swapped)
		b = append(b, '}')
	}
	if len(p.Angles) == 0 {
		return b
	}
	b = append(b, `,"angles":[`...)
	for i, a := range p.Angles {
		b = append(b, separator(i)...)
		b = appendAngle(b, a)
	}
	return append(b, ']')
}

func appendIndices(b []byte, key string, indices []int) []byte {
	if len(indices) == 0 {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, key...)
	b = append(b, `":[`...)
	for i, v := range indices {
		b = append(b, separator(i)...)
		b = strconv.AppendInt(b, int64(v), 10)
	}
	return append(b, ']')
}

// filled writes the people whom a frame lacks and who were there before and after.
func (d digits) filled(b []byte, people []Person) []byte {
	if len(people) == 0 {
		return b
	}
	b = append(b, `,"filled":[`...)
	for i, p := range people {
		b = append(b, separator(i)...)
		b = append(b, `{"track":`...)
		b = strconv.AppendInt(b, int64(p.Track), 10)
		b = append(d.extras(b, p), '}')
	}
	return append(b, ']')
}
