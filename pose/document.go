package pose

import "iter"

// Schema is the version of the document that this build writes.
const Schema = "posefleet.pose/1"

// Document is a whole pose document as a tree, for readers of small clips. Writers use Encoder, which keeps no tree.
type Document struct {
	Schema string `json:"schema"`
	// AnalysisID is nil on the command line.
	AnalysisID *string   `json:"analysisId"`
	Model      ModelInfo `json:"model"`
	Skeleton   Skeleton  `json:"skeleton"`
	Clips      []Clip    `json:"clips"`
}

// Clip is one clip of a Document.
type Clip struct {
	ClipHead
	Frames []Frame `json:"frames"`
}

// All yields the frames of the clip.
func (c *Clip) All() iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		for _, f := range c.Frames {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// Head is what a document says before its clips.
type Head struct {
	// AnalysisID is nil on the command line.
	AnalysisID *string
	Model      ModelInfo
	Skeleton   Skeleton
	// Exact writes coordinates and scores with all their digits and scores above 1 as they are: for points of another program,
	// which must come out as they went in.
	Exact bool
}

// ClipHead is what a clip says before its frames.
type ClipHead struct {
	ID    string `json:"id"`
	Media Media  `json:"media"`
	// Athlete is nil where nobody was found.
	Athlete *Athlete `json:"athlete"`
	// Signal is there if smoothed points and angles were asked for.
	Signal *Signal `json:"signal,omitempty"`
}

// ModelInfo names what made the points.
type ModelInfo struct {
	// Name is blazepose-lite, for example.
	Name    string `json:"name"`
	Version string `json:"version"`
	// SHA256 is the lower-case hex sum of the model's file.
	SHA256 string `json:"sha256"`
	// Detector found the people where the model itself does not, Runtime is the library that ran both.
	Detector ModelPart `json:"detector,omitzero"`
	Runtime  ModelPart `json:"runtime,omitzero"`
}

// ModelPart names something else that took part in making the points.
type ModelPart struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// SHA256 is the lower-case hex sum of the part's file; empty for a library that was linked into the program.
	SHA256 string `json:"sha256,omitempty"`
}

// Timestamps says where a clip's times come from.
type Timestamps string

// Kinds of timestamps.
const (
	// TimestampsPTS are the container's presentation times, every one of them.
	TimestampsPTS Timestamps = "pts"
	// TimestampsEstimated means that at least one frame had no usable time and got one from the frame rate.
	TimestampsEstimated Timestamps = "estimated"
)

// Media describes the decoded video track of a clip.
type Media struct {
	// Container is the short name of the format (mov, webm, matroska, avi, mpegts, …), Codec that of the video codec.
	Container string `json:"container"`
	Codec     string `json:"codec"`
	// Width and Height are of the upright picture with square pixels, in pixels: the space of all coordinates.
	Width  int `json:"width"`
	Height int `json:"height"`
	// Rotation turns the stored picture upright: 0, 90, 180 or 270 degrees clockwise, after un-mirroring.
	Rotation int `json:"rotation"`
	// Mirrored says that the stored picture was mirrored left to right, as front cameras do.
	Mirrored bool `json:"mirrored"`
	// PixelAspect is width by height of one stored pixel.
	PixelAspect float64 `json:"pixelAspect"`
	FPS         FPS     `json:"fps"`
	// VariableRate says that frames are not equally far apart.
	VariableRate bool `json:"variableRate"`
	// DurationMs is the length of the shown video track, the last frame's own time included.
	DurationMs float64    `json:"durationMs"`
	Timestamps Timestamps `json:"timestamps"`
	// FramesDeclared is the container's own count, frames hidden by an edit list included; nil where it says nothing.
	FramesDeclared *int `json:"framesDeclared"`
	FramesDecoded  int  `json:"framesDecoded"`
	// DecodeErrors counts damaged packets and frames that the decoder reported.
	DecodeErrors int `json:"decodeErrors"`
	// Partial says that frames which should be shown are missing.
	Partial bool `json:"partial"`
	// SizeChanges counts changes of the stored size inside the clip; later frames are scaled to the first size.
	SizeChanges int `json:"sizeChanges"`
	// Cuts are the times in ms of the first frames after hard cuts. No track crosses a cut.
	Cuts []float64 `json:"cuts,omitempty"`
	// Ramps are where frames begin to be differently far apart for good: slow motion begins or ends there, or the camera changed its rate.
	// Nothing is smoothed across one.
	Ramps []Ramp `json:"ramps,omitempty"`
}

// Ramp is a change of the frame rate inside a clip. How the speed of the movement changes with it is not known: where each captured frame
// is shown, it goes with the rate.
type Ramp struct {
	// T is the time in ms of the last frame before the change.
	T float64 `json:"t"`
	// From and To are frames per second of the clip before and after it.
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// FPS are the frame rates of a clip in frames per second; nil where unknown.
type FPS struct {
	// Nominal is the rate that the container declares.
	Nominal *float64 `json:"nominal"`
	// Average follows from the shown frames and their times.
	Average *float64 `json:"average"`
	// Capture is the rate at which the camera recorded, where metadata or the request tell it.
	Capture *float64 `json:"capture"`
}

// Athlete names the person that the clip is about.
type Athlete struct {
	Track int `json:"track"`
	// Reason is one sentence for people.
	Reason string `json:"reason"`
	// Margin is how far the runner-up is behind, 0 (a tie) to 1 (nobody else).
	Margin float64 `json:"margin"`
}

// Frame is one shown frame.
type Frame struct {
	// T is in ms from the first shown frame.
	T float64 `json:"t"`
	// People is empty, not nil, where nobody was found.
	People []Person `json:"people"`
	// Filled are those whom the frame lacks and who were there shortly before and after: they have smoothed points only.
	Filled []Person `json:"filled,omitempty"`
}

// Person is one person in one frame.
type Person struct {
	// Track is the person's id, stable over the clip, from 1.
	Track int `json:"track"`
	// Score is the probability that this is a person, 0..1.
	Score float64 `json:"score"`
	// Box bounds the found points.
	Box Box `json:"box"`
	// Keypoints are in the skeleton's order and of its length.
	Keypoints []Keypoint `json:"keypoints"`
	// Smooth are the filtered points, Angles those of the clip's Signal; both only where they were asked for.
	Smooth *Smooth `json:"smooth,omitempty"`
	Angles []Angle `json:"angles,omitempty"`
}
