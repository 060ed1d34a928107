package extract

import (
	"math"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// Gates against skeletons that are not there: patterns of keys, books or leaves excite detector and model too, and its presence is near 1
// for many of them. What tells people from things best is the heat of the joints (blazepose.Landmarks.Score), and the detector where it looks
// at much of the picture, since chance has few tries there. The gates were chosen on pictures with and without people, the latter turned,
// mirrored and cut as well.
const (
	// keepPresence is what a tracked person must have, newPresence one whom the detector found, in both looks.
	keepPresence, newPresence = 0.5, 0.8
	// newDetection is the detector's score that a new person needs, fineDetection where it looked at a fine tile.
	newDetection, fineDetection = 0.7, 0.8
	// lostHeat is the least score by heat of somebody who was lost and is where they should be.
	lostHeat = 0.5
	// apart is how far joints must be from those of others on average, in body lengths, for that.
	apart = 0.2
	// apartBehind is the same for somebody who is followed, where those others are painted over, and heatBehind the least score by heat there.
	apartBehind, heatBehind = 0.17, 0.8
	// cutOff bounds the size of a find in parts of the region where it was seen: who is larger is better seen in a larger one.
	cutOff = 1.8
	// newHeat is the least score by heat of a new person, fineHeat of one whom only fine tiles show.
	newHeat, fineHeat = 0.45, 0.65
	// newSteady is how far joints may move, in parts of the region's side, when the region is set anew: a person stays, noise does not.
	newSteady = 0.07
	// sureDetection is the detector's score in a large region that needs no heat: people who bend, sit or ride have little of it.
	sureDetection = 0.95
	// sureTrust is how much somebody is trusted whom the detector is sure of.
	sureTrust = 0.6
	// trackTrust is the mean trust that a person needs over the whole track.
	trackTrust = 0.4
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
	return pose.Observation{From: from, Score: lm.Presence, Trust: lm.Score, Box: box, Keypoints: points}, true
}

// trusted reports whether two looks at a find of the detector, the second in the region that follows from the first, show a person.
func trusted(f find, first, second blazepose.Landmarks) bool {
	if !(min(first.Presence, second.Presence) >= newPresence) {
		return false
	}
	if f.wide >= sureDetection {
		return true
	}
	moved := 0.0
	for _, i := range body {
		a, b := first.Points[i], second.Points[i]
		moved += math.Hypot(a.X-b.X, a.Y-b.Y)
	}
	heat := newHeat
	if f.wide < newDetection {
		heat = fineHeat
	}
	return second.Score >= heat && moved/float64(len(body)) <= newSteady*first.Next.Size
}

// keypoint takes a point as found if the model says so and it lies in the picture: what the model thinks to be outside is a
// guess.
func keypoint(p blazepose.Point, width, height int) pose.Keypoint {
	inside := p.X >= 0 && p.Y >= 0 && p.X <= float64(width-1) && p.Y <= float64(height-1)
	if !inside || !(p.Presence >= pointPresence) {
		return pose.Keypoint{}
	}
	return pose.Keypoint{X: p.X, Y: p.Y, Score: p.Score, Found: true}
}
