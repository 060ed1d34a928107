package extract

import (
	"cmp"
	"context"
	"image"
	"math"
	"slices"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// finder decides when and where the detector looks. A run of it costs as much as the points of one person, so that it looks at
// little while people are tracked, and at everything when a scene begins.
//
//   - At the start of a scene: the whole picture and its large tiles, and finer and finer tiles while nobody is found.
//   - While nobody is in sight: the whole picture and a large tile every few frames, all tiles at growing intervals.
//   - While somebody is: one region every refreshFrames frames, in turn over whole picture and tiles; near the last place of who
//     was just lost, every second frame.
type finder struct {
	size    image.Point
	turn    int // place in the round of single regions
	idle    int // frames since anybody was in sight
	since   int // frames since the last look while somebody is
	sweepAt int // idle frames until the next sweep
	fresh   bool
	lost    []lostPlace
}

// lostPlace is where somebody was lost, and for how many frames it is watched.
type lostPlace struct {
	box    pose.Box
	frames int
}

const (
	refreshFrames = 6
	idleFrames    = 4
	firstSweep    = 12
	lastSweep     = 120
	lostFrames    = 30
)

func newFinder(size image.Point) *finder { return &finder{size: size, fresh: true} }

// cut tells that a new scene begins.
func (f *finder) cut() {
	f.fresh, f.idle, f.lost = true, 0, nil
}

// lose tells where a tracked person was last seen.
func (f *finder) lose(box pose.Box) {
	f.lost = append(f.lost, lostPlace{box, lostFrames})
}

// look runs the detector where it is due in this frame and returns whom it saw, the nearest person first.
func (f *finder) look(ctx context.Context, e *blazepose.Estimator, img gocv.Mat, live, slots int) ([]blazepose.Detection, error) {
	sweep, regions := f.plan(live, slots)
	if sweep {
		return f.sweep(ctx, e, img)
	}
	return f.detect(ctx, e, img, regions)
}

// plan moves on by one frame: it says whether to sweep, and which regions to look at otherwise.
func (f *finder) plan(live, slots int) (sweep bool, regions []image.Rectangle) {
	if f.fresh {
		f.fresh, f.idle, f.since, f.sweepAt = false, 0, 0, firstSweep
		return true, nil
	}
	if live == 0 {
		return f.planIdle()
	}
	f.idle, f.sweepAt = 0, firstSweep
	f.since++
	if live >= slots {
		return false, nil
	}
	if f.since >= refreshFrames {
		f.since = 0
		regions = append(regions, f.nextRegion())
	}
	return false, append(regions, f.watch()...)
}

func (f *finder) planIdle() (bool, []image.Rectangle) {
	f.idle++
	if f.idle >= f.sweepAt {
		f.sweepAt = f.idle + min(lastSweep, 2*f.idle)
		return true, nil
	}
	regions := f.watch()
	if f.idle%idleFrames == 1 {
		regions = append(regions, image.Rectangle{Max: f.size})
		if tiles := blazepose.Tiles(f.size, 1); len(tiles) > 0 {
			regions = append(regions, tiles[f.idle/idleFrames%len(tiles)])
		}
	}
	return false, regions
}

// watch returns the places of those who were lost lately, every second frame.
func (f *finder) watch() []image.Rectangle {
	var regions []image.Rectangle
	for i := range f.lost {
		l := &f.lost[i]
		if l.frames%2 == 0 {
			x, y := l.box.Centre()
			half := l.box.Side()
			r := image.Rect(int(x-half), int(y-half), int(x+half), int(y+half)).Intersect(image.Rectangle{Max: f.size})
			if !r.Empty() {
				regions = append(regions, r)
			}
		}
		l.frames--
	}
	f.lost = slices.DeleteFunc(f.lost, func(l lostPlace) bool { return l.frames <= 0 })
	return regions
}

// nextRegion goes round: every second look is at the whole picture or a large tile, the others at the next finer tile.
func (f *finder) nextRegion() image.Rectangle {
	coarse := append(blazepose.Tiles(f.size, 0), blazepose.Tiles(f.size, 1)...)
	fine := blazepose.Tiles(f.size, 2)
	n := f.turn
	f.turn++
	if n%2 == 1 && len(fine) > 0 {
		return fine[n/2%len(fine)]
	}
	return coarse[n/2%len(coarse)]
}

// sweep looks at the first two levels of the pyramid, and on while nobody is seen.
func (f *finder) sweep(ctx context.Context, e *blazepose.Estimator, img gocv.Mat) ([]blazepose.Detection, error) {
	var found []blazepose.Detection
	for level := range blazepose.Levels {
		if level > 1 && len(found) > 0 {
			break
		}
		more, err := f.detect(ctx, e, img, blazepose.Tiles(f.size, level))
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return merge(found), nil
}

func (f *finder) detect(ctx context.Context, e *blazepose.Estimator, img gocv.Mat, regions []image.Rectangle) ([]blazepose.Detection, error) {
	var found []blazepose.Detection
	for _, r := range regions {
		more, err := e.Detect(ctx, img, r)
		if err != nil {
			return nil, err
		}
		gate := newDetection
		if min(r.Dx(), r.Dy()) < min(f.size.X, f.size.Y) {
			gate = fineDetection
		}
		for _, d := range more {
			if d.Score >= gate {
				found = append(found, d)
			}
		}
	}
	return merge(found), nil
}

// merge keeps of the finds of one person in several regions the surest, and puts large people first: they matter most when
// slots are few.
func merge(found []blazepose.Detection) []blazepose.Detection {
	slices.SortStableFunc(found, func(a, b blazepose.Detection) int { return cmp.Compare(b.Score, a.Score) })
	var kept []blazepose.Detection
	for _, d := range found {
		if !slices.ContainsFunc(kept, func(k blazepose.Detection) bool { return sameRegion(k.ROI, d.ROI) || k.Box.IoU(d.Box) > 0.3 }) {
			kept = append(kept, d)
		}
	}
	slices.SortStableFunc(kept, func(a, b blazepose.Detection) int { return cmp.Compare(b.ROI.Size, a.ROI.Size) })
	return kept
}

// sameRegion reports whether two search regions are about one person.
func sameRegion(a, b blazepose.ROI) bool {
	near := math.Hypot(a.Cx-b.Cx, a.Cy-b.Cy) < 0.2*math.Min(a.Size, b.Size)
	ratio := a.Size / math.Max(b.Size, 1)
	return near && ratio < 2 && ratio > 0.5
}
