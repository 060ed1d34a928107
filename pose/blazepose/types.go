package blazepose

import "github.com/posefleet/posefleet/pose"

// NumPoints is the number of body points of a pose.
const NumPoints = 33

// Detection is one person that the detector saw.
type Detection struct {
	// Box is the detector's own box in pixels: roughly head and shoulders. It identifies a person (its overlap
	// decides what is the same person), but does not bound the body; ROI does.
	Box pose.Box
	// Score is the detector's confidence, 0..1.
	Score float64
	// Hips is the centre of the hips, Rim a point on the circle around the whole body, Shoulders the centre of
	// the shoulders.
	Hips, Rim, Shoulders Point2
	// ROI is where to look for the landmarks.
	ROI ROI
}

// Point is one body point.
type Point struct {
	// X, Y are pixels of the picture; they may lie outside it. Z is the depth in the same unit with the hips at
	// about 0, negative towards the camera; a weak guess.
	X, Y, Z float64
	// Visibility is the probability that the point is in the picture and not hidden, Presence that it is in the
	// picture at all; both 0..1.
	Visibility, Presence float64
	// Heat is how sure the model's heatmap is of a point like this near the place, 0..1: the best cell around it.
	// It tells right points from wrong ones much better than the other two, but its scale depends on the model.
	Heat float64
	// Score is Heat on one scale for all models, 0..1: about the probability that the point is within a tenth of
	// the body's size (square root of its box's area) of the true place.
	Score float64
}

// Point3 is a point in metres: origin between the hips, x right and y down in the picture, z away from the
// camera.
type Point3 struct{ X, Y, Z float64 }

// Landmarks is the pose of one person.
type Landmarks struct {
	// Points in the order of the blazepose33 skeleton.
	Points [NumPoints]Point
	// World are the same points as the model guesses them in metres, turned back to the picture's axes.
	World [NumPoints]Point3
	// Presence is the probability that the ROI holds a person, 0..1. Below 0.5 the points mean nothing.
	Presence float64
	// Heat is the mean heat of shoulders, elbows, wrists, hips, knees and ankles, 0..1. Things that are taken for
	// people have little of it, even where Presence is 1.
	Heat float64
	// Score is Heat on one scale for all models, 0..1. 0.5 lies just above what the things of 31 pictures without
	// people reach, save figures that somebody drew; about four in five people in full view have more. It is meant
	// for the decision whether somebody new is there: of somebody who is followed, hidden limbs lower it too.
	Score float64
	// Face is the mean heat of nose, eyes and ears, 0..1. The joints say little about whether somebody is seen from the front or from the back.
	Face float64
	// Next is where to look for this person in the next frame. It is not Valid() when the model lost itself.
	Next ROI
}
