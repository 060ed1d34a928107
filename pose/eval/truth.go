package eval

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/posefleet/posefleet/pose"
)

// Picture is one with labels.
type Picture struct {
	// File is the path below the media folder.
	File          string
	Width, Height int
	// Human says that people made the labels, not a model.
	Human   bool
	Persons []Person
}

// Person is one with labels.
type Person struct {
	Box pose.Box
	// Points by name; those that are not labelled are absent. Hidden ones are labelled too.
	Points map[string]TruePoint
	// Full says that shoulders, elbows, wrists, hips, knees and ankles are all labelled.
	Full bool
	// Crowd says that the box holds several people who were not told apart.
	Crowd bool
}

// TruePoint is the place of a point in pixels.
type TruePoint struct {
	X, Y   float64
	Hidden bool
}

// pictures reads the labels of the media folder.
func pictures(media string) ([]Picture, error) {
	var all struct {
		Images []struct {
			File    string `json:"file"`
			Kind    string `json:"truth_kind"`
			Width   int    `json:"width"`
			Height  int    `json:"height"`
			Persons []struct {
				Box    pose.Box              `json:"bbox"`
				Points map[string][3]float64 `json:"keypoints"`
				Full   bool                  `json:"full_body"`
				Crowd  int                   `json:"iscrowd"`
			} `json:"persons"`
		} `json:"images"`
	}
	if err := readJSON(filepath.Join(media, "truth", "ground_truth.json"), &all); err != nil {
		return nil, err
	}
	var out []Picture
	for _, i := range all.Images {
		pic := Picture{File: i.File, Width: i.Width, Height: i.Height, Human: i.Kind == "human label"}
		for _, p := range i.Persons {
			person := Person{Box: p.Box, Full: p.Full, Crowd: p.Crowd != 0, Points: map[string]TruePoint{}}
			for name, at := range p.Points {
				person.Points[name] = TruePoint{at[0], at[1], at[2] == 1}
			}
			pic.Persons = append(pic.Persons, person)
		}
		out = append(out, pic)
	}
	return out, nil
}

// clipTruth reads truth by frame: points by name.
func clipTruth(media, name string) ([]map[string]TruePoint, error) {
	var out []map[string]TruePoint
	return out, readJSON(filepath.Join(media, "truth", name), &out)
}

// referenceTruth reads truth by frame in the order of the skeleton.
func referenceTruth(media, name string) ([]map[string]TruePoint, error) {
	var frames [][][3]float64
	if err := readJSON(filepath.Join(media, "truth", name), &frames); err != nil {
		return nil, err
	}
	out := make([]map[string]TruePoint, len(frames))
	for i, points := range frames {
		out[i] = map[string]TruePoint{}
		for j, at := range points {
			out[i][pose.BlazePose33().Keypoints[j]] = TruePoint{X: at[0], Y: at[1]}
		}
	}
	return out, nil
}

// personOf makes a person of points; the box is around them with some room, as labels have it.
func personOf(points map[string]TruePoint) Person {
	x0, y0, x1, y1 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, p := range points {
		x0, y0, x1, y1 = min(x0, p.X), min(y0, p.Y), max(x1, p.X), max(y1, p.Y)
	}
	const room = 0.06
	w, h := x1-x0, y1-y0
	return Person{
		Box:    pose.Box{X: x0 - room*w, Y: y0 - room*h, W: (1 + 2*room) * w, H: (1 + 2*room) * h},
		Points: points, Full: true,
	}
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
