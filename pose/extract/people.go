package extract

import (
	"math"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// Gates against skeletons that are not there. Values are probabilities of the model.
const (
	// keepPresence is what a tracked person must have, newPresence one whom the detector found.
	keepPresence, newPresence = 0.5, 0.6
	// pointPresence is what a point must have to count as found.
	pointPresence = 0.5
	// minPoints is the least number of points of a person, newSeen how many joints must be well visible in a new one.
	minPoints, newSeen = 8, 6
	// seenScore is the score of a well visible joint.
	seenScore = 0.5
)

// body are the points that newSeen counts: shoulders to ankles.
var body = []int{11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28}

// observe makes an observation of landmarks, in pixels of the frame of the given size. It is false where they show no person.
func observe(lm blazepose.Landmarks, width, height int, from int) (pose.Observation, bool) {
	gate := keepPresence
	if from == 0 {
		gate = newPresence
	}
	if !(lm.Presence >= gate) || !lm.Next.Valid() {
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
	if !ok || found < minPoints || from == 0 && !seen(points) {
		return pose.Observation{}, false
	}
	return pose.Observation{From: from, Score: lm.Presence, Box: box, Keypoints: points}, true
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

func seen(points []pose.Keypoint) bool {
	n := 0
	for _, i := range body {
		if points[i].Found && points[i].Score >= seenScore {
			n++
		}
	}
	return n >= newSeen
}
