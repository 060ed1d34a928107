package extract

import (
	"image"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/models"
	"github.com/posefleet/posefleet/pose/vision"
)

// gate decides which poses of a model with a manifest are people, and makes observations of them.
type gate struct {
	size  image.Point
	least float64
	// points is the least number of points of a person.
	points int
	// blaze shows the points in the skeleton that the look is taken from.
	blaze pose.View
}

func newGate(m *models.Model, size image.Point) gate {
	return gate{
		size: size, least: m.Scores.Person, points: min(minPoints, (len(m.Skeleton.Keypoints)+1)/2),
		blaze: pose.NewView(m.Skeleton, pose.BlazePose33()),
	}
}

// picture is the frame as models see it.
func (g gate) picture(pic *picture) vision.Picture {
	return vision.Picture{Pix: pic.pixels, Width: g.size.X, Height: g.size.Y}
}

// observe makes an observation of a pose; it is false where the pose shows no person. Points outside of the picture are guesses and are
// left out.
func (g gate) observe(p vision.Pose, pic *picture, from int) (pose.Observation, bool) {
	if !(p.Score >= g.least) {
		return pose.Observation{}, false
	}
	points, found := make([]pose.Keypoint, len(p.Keypoints)), 0
	for i, k := range p.Keypoints {
		if k.Found && k.X >= 0 && k.Y >= 0 && k.X <= float64(g.size.X-1) && k.Y <= float64(g.size.Y-1) {
			points[i] = k
			found++
		}
	}
	box, ok := pose.Bounds(points)
	if !ok || found < g.points {
		return pose.Observation{}, false
	}
	o := pose.Observation{From: from, Score: vision.Unit(p.Score), Trust: 1, Box: box, Keypoints: points}
	o.Look = look(pic.Picture, g.blaze.Points(points))
	return o, true
}
