package extract

import (
	"math"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// Gates against skeletons that are not there: patterns of keys, books or leaves excite detector and model too. Values are
// probabilities of the models. They were chosen on pictures with and without people: of those in full view all are kept, of
// things taken for people one in ten is.
const (
	// keepPresence is what a tracked person must have, newPresence one whom the detector found, in both looks.
	keepPresence, newPresence = 0.5, 0.8
	// newDetection is the detector's score that a new person needs, fineDetection where it looked at a fine tile: there are
	// many of those, so that chance has many tries.
	newDetection, fineDetection = 0.7, 0.8
	// newVisible is the mean visibility that the joints of a new person need.
	newVisible = 0.5
	// newSteady is how far joints may move, in parts of the region's side, when the region is set anew: a person stays, noise
	// does not.
	newSteady = 0.07
	// pointPresence is what a point must have to count as found.
	pointPresence = 0.5
	// minPoints is the least number of points of a person.
	minPoints = 8
)

// body are the joints from shoulders to ankles.
var body = []int{11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28}

// observe makes an observation of landmarks, in pixels of the frame of the given size. It is false where they show no person.
func observe(lm blazepose.Landmarks, width, height int, from int) (pose.Observation, bool) {
	if !(lm.Presence >= keepPresence) || !lm.Next.Valid() {
		return pose.Observation{}, false
	}
	points := make([]pose.Keypoint, len(lm.Points))
	found := 0
	for i, p := range lm.Points {
		points[i] = keypoint(p, width, height)
		if points[i].Found {
			found++
		}
	}
	box, ok := pose.Bounds(points)
	if !ok || found < minPoints {
		return pose.Observation{}, false
	}
	return pose.Observation{From: from, Score: lm.Presence, Box: box, Keypoints: points}, true
}

// trusted reports whether two looks at a find of the detector, the second in the region that follows from the first, show a
// person.
func trusted(first, second blazepose.Landmarks) bool {
	if !(min(first.Presence, second.Presence) >= newPresence) {
		return false
	}
	visible, moved := 0.0, 0.0
	for _, i := range body {
		a, b := first.Points[i], second.Points[i]
		visible += b.Visibility
		moved += math.Hypot(a.X-b.X, a.Y-b.Y)
	}
	n := float64(len(body))
	return visible/n >= newVisible && moved/n <= newSteady*first.Next.Size
}

// keypoint takes a point as found if the model says so and it lies in the picture: what the model thinks to be outside is a
// guess.
func keypoint(p blazepose.Point, width, height int) pose.Keypoint {
	inside := p.X >= 0 && p.Y >= 0 && p.X <= float64(width-1) && p.Y <= float64(height-1)
	if !inside || !(p.Presence >= pointPresence) {
		return pose.Keypoint{}
	}
	return pose.Keypoint{X: p.X, Y: p.Y, Score: math.Min(p.Visibility, p.Presence), Found: true}
}
