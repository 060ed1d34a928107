package extract

import (
	"cmp"
	"context"
	"image"
	"math"
	"slices"

	"github.com/posefleet/posefleet/pose/blazepose"
)

// find is somebody whom the detector saw, in one region or in several.
type find struct {
	blazepose.Detection
	// wide is the best score in a region at least as large as the picture's shorter side; 0 if only fine tiles show the person.
	wide float64
	// in are the regions that show the person, a bit each: whom the detector tells apart in one region are two people, however near.
	in uint64
}

// detect looks at regions of the picture and returns the finds that are worth a look with the landmark model, the nearest person first.
func detect(ctx context.Context, e *blazepose.Estimator, p blazepose.Picture, regions []image.Rectangle) ([]find, error) {
	short := min(p.Size().X, p.Size().Y)
	var found []find
	for i, r := range regions {
		seen, err := e.Detect(ctx, p, r)
		if err != nil {
			return nil, err
		}
		for _, d := range seen {
			f, gate := find{d, d.Score, 1 << (i % 64)}, newDetection
			if min(r.Dx(), r.Dy()) < short {
				f.wide, gate = 0, fineDetection
			}
			if d.Score >= gate && d.ROI.Size <= cutOff*float64(max(r.Dx(), r.Dy())) {
				found = append(found, f)
			}
		}
	}
	return merge(found), nil
}

// merge keeps of the finds of one person in several regions the surest, and puts large people first: they matter most when slots are few.
func merge(found []find) []find {
	slices.SortStableFunc(found, func(a, b find) int { return cmp.Compare(b.Score, a.Score) })
	var kept []find
	for _, group := range people(found) {
		best := found[group[0]]
		for _, i := range group[1:] {
			best.wide, best.in = max(best.wide, found[i].wide), best.in|found[i].in
		}
		kept = append(kept, best)
	}
	slices.SortStableFunc(kept, func(a, b find) int { return cmp.Compare(b.ROI.Size, a.ROI.Size) })
	return kept
}

// people groups finds that are about one person, the nearest first: each group holds one find of a region at most. Groups are in the order of
// their first members, and members in theirs.
func people(found []find) [][]int {
	groups := make([][]int, len(found))
	for i := range found {
		groups[i] = []int{i}
	}
	for {
		a, b := nearest(found, groups)
		if a < 0 {
			return groups
		}
		groups[a] = append(groups[a], groups[b]...)
		slices.Sort(groups[a])
		groups = slices.Delete(groups, b, b+1)
	}
}

// nearest are the two groups, the first of them first, that are nearest to each other among those that may be about one person; -1 if there are
// none. Groups are as far apart as their members furthest from each other.
func nearest(found []find, groups [][]int) (int, int) {
	a, b, least := -1, -1, math.Inf(1)
	for j := range groups {
		for i := range j {
			if far := distance(found, groups[i], groups[j]); far < least {
				a, b, least = i, j, far
			}
		}
	}
	return a, b
}

// distance is how far two groups are apart, in parts of a region's side; infinite where they are about two people.
func distance(found []find, a, b []int) float64 {
	far := 0.0
	for _, i := range a {
		for _, j := range b {
			f, g := found[i], found[j]
			if f.in&g.in != 0 || !sameRegion(f.ROI, g.ROI) && f.Box.IoU(g.Box) <= 0.3 {
				return math.Inf(1)
			}
			far = max(far, between(f.ROI, g.ROI))
		}
	}
	return far
}

// sameRegion reports whether two search regions are about one person.
func sameRegion(a, b blazepose.ROI) bool {
	near := between(a, b) < 0.2
	ratio := a.Size / math.Max(b.Size, 1)
	return near && ratio < 2 && ratio > 0.5
}

// between is how far the centres of two regions are apart, in parts of the smaller one's side.
func between(a, b blazepose.ROI) float64 {
	return math.Hypot(a.Cx-b.Cx, a.Cy-b.Cy) / math.Min(a.Size, b.Size)
}

// recognised is whom of the people at places each find shows, or -1 for somebody else. The nearest find of a region is the person; another one in
// the same region is not.
func recognised(found []find, places []place) []int {
	type pair struct {
		find, place int
		far         float64
	}
	var pairs []pair
	for i, f := range found {
		for j, p := range places {
			if sameRegion(p.ROI, f.ROI) {
				pairs = append(pairs, pair{i, j, between(p.ROI, f.ROI)})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.far, b.far) })
	out, in := slices.Repeat([]int{-1}, len(found)), make([]uint64, len(places))
	for _, p := range pairs {
		if out[p.find] < 0 && in[p.place]&found[p.find].in == 0 {
			out[p.find], in[p.place] = p.place, in[p.place]|found[p.find].in
		}
	}
	return out
}
