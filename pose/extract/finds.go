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
}

// detect looks at regions of the picture and returns the finds that are worth a look with the landmark model, the nearest person first.
func detect(ctx context.Context, e *blazepose.Estimator, p blazepose.Picture, regions []image.Rectangle) ([]find, error) {
	short := min(p.Size().X, p.Size().Y)
	var found []find
	for _, r := range regions {
		seen, err := e.Detect(ctx, p, r)
		if err != nil {
			return nil, err
		}
		for _, d := range seen {
			f, gate := find{d, d.Score}, newDetection
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
	for _, d := range found {
		same := slices.IndexFunc(kept, func(k find) bool { return sameRegion(k.ROI, d.ROI) || k.Box.IoU(d.Box) > 0.3 })
		if same < 0 {
			kept = append(kept, d)
			continue
		}
		kept[same].wide = max(kept[same].wide, d.wide)
	}
	slices.SortStableFunc(kept, func(a, b find) int { return cmp.Compare(b.ROI.Size, a.ROI.Size) })
	return kept
}

// sameRegion reports whether two search regions are about one person.
func sameRegion(a, b blazepose.ROI) bool {
	near := math.Hypot(a.Cx-b.Cx, a.Cy-b.Cy) < 0.2*math.Min(a.Size, b.Size)
	ratio := a.Size / math.Max(b.Size, 1)
	return near && ratio < 2 && ratio > 0.5
}
