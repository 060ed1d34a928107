package blazepose

import (
	"cmp"
	"math"
	"slices"
)

// sameOverlap is the overlap of two boxes, intersection by union, from which they show one person.
const sameOverlap = 0.3

// sameHips bounds the distance of two hip centres, in parts of the smaller ROI, and sameSize the ratio of two ROI
// sizes, up to which they show one person even where the boxes overlap little: two tiles see one body differently.
const (
	sameHips = 0.12
	sameSize = 1.6
)

// candidate is a detection with the weight it has among others of the same person.
type candidate struct {
	Detection
	// rank is the score, lowered for people whom the edge of a tile cuts.
	rank float64
}

// merge groups candidates that show one person and returns the weighted mean of each group, best first.
func merge(all []candidate) []Detection {
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.rank, a.rank) })
	var out []Detection
	for len(all) > 0 {
		best := all[0]
		var group, rest []candidate
		for _, c := range all {
			if samePerson(best.Detection, c.Detection) {
				group = append(group, c)
			} else {
				rest = append(rest, c)
			}
		}
		out = append(out, mean(group))
		all = rest
	}
	slices.SortStableFunc(out, func(a, b Detection) int { return cmp.Compare(b.Score, a.Score) })
	return out
}

// samePerson says whether two detections show one person.
func samePerson(a, b Detection) bool {
	if a.Box.IoU(b.Box) > sameOverlap {
		return true
	}
	return samePlace(a.ROI, b.ROI)
}

// samePlace says whether two regions are around one person.
func samePlace(a, b ROI) bool {
	small, large := min(a.Size, b.Size), max(a.Size, b.Size)
	return large < sameSize*small && math.Hypot(a.Cx-b.Cx, a.Cy-b.Cy) < sameHips*small
}

// mean is the weighted mean of a group that shows one person; its score is the best one of the group.
func mean(group []candidate) Detection {
	var out Detection
	total := 0.0
	for _, c := range group {
		total += c.rank
	}
	for _, c := range group {
		w := c.rank / total
		out.Score = max(out.Score, c.Score)
		out.Box.X += w * c.Box.X
		out.Box.Y += w * c.Box.Y
		out.Box.W += w * c.Box.W
		out.Box.H += w * c.Box.H
		out.Hips = addScaled(out.Hips, c.Hips, w)
		out.Rim = addScaled(out.Rim, c.Rim, w)
		out.Shoulders = addScaled(out.Shoulders, c.Shoulders, w)
	}
	out.ROI = alignedROI(out.Hips, out.Rim)
	return out
}

func addScaled(p, q Point2, w float64) Point2 { return Point2{p.X + w*q.X, p.Y + w*q.Y} }
