package vision

import (
	"cmp"
	"math"
	"slices"

	"github.com/posefleet/posefleet/pose"
)

// Unit brings a model's score into 0..1. Some models give more than 1 where they are sure; what is no number is 0.
func Unit(score float64) float64 {
	if math.IsNaN(score) {
		return 0
	}
	return min(max(score, 0), 1)
}

// Point makes a point of what a model says: not found where the score is under the bound, or a number is none.
func Point(x, y, score, least float64) pose.Keypoint {
	score = Unit(score)
	if score < least || !(math.Abs(x) < maxCoordinate && math.Abs(y) < maxCoordinate) {
		return pose.Keypoint{}
	}
	return pose.Keypoint{X: x, Y: y, Score: score, Found: true}
}

// MeanScore is the mean score of the found points, 0 where there is none.
func MeanScore(points []pose.Keypoint) float64 {
	sum, n := 0.0, 0
	for _, k := range points {
		if k.Found {
			sum += k.Score
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// Distinct keeps of poses that show one person, by the overlap of their boxes, the best one. The result is best first.
func Distinct(poses []Pose, overlap float64) []Pose {
	slices.SortStableFunc(poses, func(a, b Pose) int { return cmp.Compare(b.Score, a.Score) })
	var kept []Pose
	for _, p := range poses {
		if !slices.ContainsFunc(kept, func(k Pose) bool { return k.Box.IoU(p.Box) > overlap }) {
			kept = append(kept, p)
		}
	}
	return kept
}
