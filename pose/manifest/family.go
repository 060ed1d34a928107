package manifest

import (
	"maps"
	"slices"
)

// Family says how a model's input is made and how its outputs are read. K is the number of the skeleton's points.
//
//	family         sees        outputs by role
//	movenet        a crop      poses [1,1,K,3]: y, x in parts of the crop, score
//	movenet-multi  the picture poses [1,N,3K+5]: K × (y, x, score), then ymin, xmin, ymax, xmax, score
//	rtmpose        a crop      x [1,K,Split×width], y [1,K,Split×height]: SimCC, the place of the maximum
//	yolo-pose      the picture poses [1,5+3K,N] or [1,N,5+3K]: x, y, w, h, score, K × (x, y, score); or, with its own choice of
//	                           people inside, [1,N,6+3K]: x1, y1, x2, y2, score, class, points
//	rtmo           the picture boxes [1,N,5]: x1, y1, x2, y2, score; points [1,N,K,3]: x, y, score
type Family string

// Families that a manifest can describe. BlazePose models are shipped and need none.
const (
	MoveNet      Family = "movenet"
	MoveNetMulti Family = "movenet-multi"
	RTMPose      Family = "rtmpose"
	YOLOPose     Family = "yolo-pose"
	RTMO         Family = "rtmo"
)

// usual is what a family's models are like where the manifest says nothing.
type usual struct {
	layout   Layout
	channels Channels
	scale    float64
	mean     []float64
	std      []float64
	mode     Mode
	modes    []Mode
	fill     int
	scores   Scores
	roles    []string
}

var (
	zeros = []float64{0, 0, 0}
	ones  = []float64{1, 1, 1}
)

// families is the table of the usual forms, as the publishers' own programs have them. Thresholds are for whole-body views of people in
// motion: a point under its bound is more often wrong than right.
var families = map[Family]usual{
	MoveNet: {
		NHWC, RGB, 1, zeros, ones, Crop,
		[]Mode{Crop},
		0,
		Scores{Person: 0.25, Point: 0.2, Overlap: 0.5},
		[]string{"poses"},
	},
	MoveNetMulti: {
		NHWC, RGB, 1, zeros, ones, LetterboxTopLeft,
		[]Mode{Letterbox, LetterboxTopLeft},
		0,
		Scores{Person: 0.2, Point: 0.2, Overlap: 0.5},
		[]string{"poses"},
	},
	RTMPose: {
		NCHW, RGB, 1,
		[]float64{123.675, 116.28, 103.53},
		[]float64{58.395, 57.12, 57.375},
		Crop,
		[]Mode{Crop},
		0,
		Scores{Person: 0.3, Point: 0.3, Overlap: 0.5},
		[]string{"x", "y"},
	},
	YOLOPose: {
		NCHW, RGB, 1.0 / 255, zeros, ones, Letterbox,
		[]Mode{Letterbox, LetterboxTopLeft},
		114,
		Scores{Person: 0.5, Point: 0.5, Overlap: 0.7},
		[]string{"poses"},
	},
	RTMO: {
		NCHW, BGR, 1, zeros, ones, LetterboxTopLeft,
		[]Mode{Letterbox, LetterboxTopLeft},
		114,
		Scores{Person: 0.5, Point: 0.3, Overlap: 0.7},
		[]string{"boxes", "points"},
	},
}

// Families are the known families, by name.
func Families() []Family { return slices.Sorted(maps.Keys(families)) }

// Roles are the roles of the family's outputs, in their usual order.
func (f Family) Roles() []string { return families[f].roles }

const (
	defaultPadding = 1.25
	defaultSplit   = 2
)

// withDefaults fills in what the manifest leaves to its family.
func (m Manifest) withDefaults() Manifest {
	u, known := families[m.Family]
	if !known {
		return m
	}
	or(&m.Input.Layout, u.layout)
	or(&m.Input.Channels, u.channels)
	or(&m.Input.Scale, u.scale)
	or(&m.Resize.Mode, u.mode)
	or(&m.Scores.Person, u.scores.Person)
	or(&m.Scores.Point, u.scores.Point)
	or(&m.Scores.Overlap, u.scores.Overlap)
	if m.Input.Mean == nil {
		m.Input.Mean = slices.Clone(u.mean)
	}
	if m.Input.Std == nil {
		m.Input.Std = slices.Clone(u.std)
	}
	if m.Resize.Fill == nil {
		m.Resize.Fill = &u.fill
	}
	if m.Resize.Mode == Crop {
		or(&m.Resize.Padding, defaultPadding)
	}
	if m.Family == RTMPose {
		or(&m.Split, defaultSplit)
	}
	return m
}

// or sets what is zero.
func or[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
