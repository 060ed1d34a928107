package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/posefleet/posefleet/pose"
)

// Schema is the version of the form that this build reads.
const Schema = "posefleet.model/1"

// FileName is the usual name of a manifest.
const FileName = "pose.json"

// maxBytes bounds a manifest.
const maxBytes = 1 << 20

// ErrManifest says that a manifest cannot be used as it stands.
var ErrManifest = errors.New("unusable model manifest")

// Manifest describes one model.
type Manifest struct {
	// Schema is posefleet.model/1.
	Schema string `json:"schema"`
	// Name is how the model is asked for and what results call it: lower-case letters, digits, dot, dash and underscore, at most 64.
	// The names of the shipped models are taken.
	Name string `json:"name"`
	// Version is the weights' version, as their publisher calls it. It goes into results.
	Version string `json:"version"`
	Family  Family `json:"family"`
	// File is the name of the ONNX file, which lies beside the manifest.
	File string `json:"file"`
	// SHA256 is the file's sum in hex. A file with another sum is not loaded.
	SHA256 string `json:"sha256"`
	// Licence is that of the weights, as an SPDX name where there is one. Nothing follows from it; it must be there because whoever
	// adds a model should have looked.
	Licence string `json:"licence"`
	// Source says where the weights come from. May be empty.
	Source string `json:"source,omitzero"`
	Input  Input  `json:"input,omitzero"`
	Resize Resize `json:"resize,omitzero"`
	// Outputs names the model's outputs by their role, see [Family]; roles that are left out are taken in the family's usual order.
	Outputs  map[string]string `json:"outputs,omitempty"`
	Skeleton Skeleton          `json:"skeleton"`
	Scores   Scores            `json:"scores,omitzero"`
	// Split is how many steps of a SimCC axis make a pixel. 0: 2.
	Split float64 `json:"split,omitzero"`
	// Dir is the folder of the manifest. It is not part of the file.
	Dir string `json:"-"`
}

// Input says how a picture becomes numbers: value = (pixel × Scale − Mean) ÷ Std, pixel 0..255, per channel.
type Input struct {
	// Width and Height in pixels. 0: as the file says.
	Width  int `json:"width,omitzero"`
	Height int `json:"height,omitzero"`
	// Layout is nchw or nhwc.
	Layout Layout `json:"layout,omitzero"`
	// Channels is the order of the colours as the model was trained with: rgb or bgr.
	Channels Channels `json:"channels,omitzero"`
	// Scale is applied to a pixel first. 0: the family's.
	Scale float64 `json:"scale,omitzero"`
	// Mean and Std belong to the model's first, second and third channel, whatever colour these are. Empty: the family's.
	Mean []float64 `json:"mean,omitempty"`
	Std  []float64 `json:"std,omitempty"`
}

// Layout is the order of a tensor's dimensions.
type Layout string

// Layouts.
const (
	NCHW Layout = "nchw"
	NHWC Layout = "nhwc"
)

// Channels is an order of colours.
type Channels string

// Orders of colours.
const (
	RGB Channels = "rgb"
	BGR Channels = "bgr"
)

// Resize says which part of the picture the model sees.
type Resize struct {
	// Mode is crop (a region around one person), letterbox (the whole picture with bars on both sides) or letterbox-top-left (the
	// bars right and below).
	Mode Mode `json:"mode,omitzero"`
	// Padding is how much larger than the person's box a crop is. 0: 1.25. Not for letterboxes.
	Padding float64 `json:"padding,omitzero"`
	// Fill is the grey, 0..255, of what lies outside of the picture. Absent: the family's.
	Fill *int `json:"fill,omitempty"`
}

// Mode is a way to bring a picture to the model's size.
type Mode string

// Modes of Resize.
const (
	Crop             Mode = "crop"
	Letterbox        Mode = "letterbox"
	LetterboxTopLeft Mode = "letterbox-top-left"
)

// Scores are the bounds that turn a model's guesses into finds, 0..1. 0: the family's.
type Scores struct {
	// Person is the least score of a person, Point that of a point; points below it are null in results.
	Person float64 `json:"person,omitzero"`
	Point  float64 `json:"point,omitzero"`
	// Overlap is the intersection by union from which two boxes of one picture show one person.
	Overlap float64 `json:"overlap,omitzero"`
}

// Skeleton names one of pose.Skeletons, or describes one of the model's own. In JSON it is a string or an object with name, keypoints
// and edges.
type Skeleton struct{ pose.Skeleton }

// UnmarshalJSON reads a name or a description.
func (s *Skeleton) UnmarshalJSON(data []byte) error {
	var name string
	if json.Unmarshal(data, &name) == nil {
		for _, known := range pose.Skeletons() {
			if known.Name == name {
				s.Skeleton = known
				return nil
			}
		}
		return fmt.Errorf("skeleton %q is none of %v; one of the model's own is an object with name, keypoints and edges", name, skeletonNames())
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(&s.Skeleton)
}

// MarshalJSON writes the name of a known skeleton, and a description of any other.
func (s Skeleton) MarshalJSON() ([]byte, error) {
	for _, known := range pose.Skeletons() {
		if known.Name == s.Name {
			return json.Marshal(s.Name)
		}
	}
	return json.Marshal(s.Skeleton)
}

func skeletonNames() []string {
	var names []string
	for _, s := range pose.Skeletons() {
		names = append(names, s.Name)
	}
	return names
}

// Read reads and checks the manifest at path. Faults match ErrManifest and name the path.
func Read(path string) (Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	m, err := Parse(data)
	m.Dir = filepath.Dir(path)
	if err != nil {
		return m, fmt.Errorf("%w: %s: %w", ErrManifest, path, err)
	}
	return m, nil
}

// Parse reads a manifest, fills in what its family usually is, and checks it. A manifest that can be read but is not valid is returned
// with the error, so that a list can name it.
func Parse(data []byte) (Manifest, error) {
	var m Manifest
	if len(data) > maxBytes {
		return m, fmt.Errorf("it is larger than %d bytes", maxBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, plain(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return m, errors.New("something follows after the object")
	}
	m = m.withDefaults()
	return m, m.Validate()
}

// plain words the decoder's faults for whoever wrote the file.
func plain(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s is a %s, not a %v: %w", e.Field, e.Value, e.Type, err)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	return err
}

// Path is the path of the model's file.
func (m Manifest) Path() string { return filepath.Join(m.Dir, m.File) }
