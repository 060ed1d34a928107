package extract

import (
	"image"
	"slices"

	"github.com/posefleet/posefleet/pose/blazepose"
)

// finder decides when and where the detector looks. A run of it costs as much as the points of one person, so that it looks at
// little while people are tracked, and at everything when a scene begins.
//
//   - At the start of a scene: the whole picture and its large tiles, and finer and finer tiles while nobody is confirmed.
//   - While nobody is in sight: the whole picture and a large tile every few frames, all tiles at growing intervals.
//   - While somebody is: one region every refresh frames, in turn over whole picture and tiles; sooner where something else moves.
//   - Who was just lost is looked for every second frame where they should be by now.
type finder struct {
	size    image.Point
	refresh int
	turn    int // place in the round of single regions
	idle    int // frames since anybody was in sight
	since   int // frames since the last look while somebody is
	sweepAt int // idle frames until the next sweep
	fresh   bool
	lost    []lostPlace
	// patience is how many frames must go by from one look to the next where something moves: it doubles while nobody is found there.
	patience int
	stirred  bool // the last look was where something moves
}

// lostPlace is where somebody should be who was lost.
type lostPlace struct {
	blazepose.ROI
	vx, vy float64 // pixels a frame
	frames int     // for which the place is watched
}

const (
	idleFrames = 4
	firstSweep = 12
	lastSweep  = 120
	lostFrames = 30
)

// defaultRefresh is the refresh of models whose own cost is not known.
const defaultRefresh = 6

// newFinder returns a finder for pictures of a size that looks for more people every refresh frames.
func newFinder(size image.Point, refresh int) *finder {
	return &finder{size: size, refresh: refresh, fresh: true, patience: hurry}
}

// hurry is the least patience.
const hurry = 3

// cut tells that a new scene begins.
func (f *finder) cut() {
	f.fresh, f.idle, f.lost = true, 0, nil
}

// lose tells where a tracked person was last seen, and how fast they moved in pixels a frame.
func (f *finder) lose(roi blazepose.ROI, vx, vy float64) {
	f.lost = append(f.lost, lostPlace{roi, vx, vy, lostFrames})
}

// back tells that somebody is seen who may be one of those who were lost.
func (f *finder) back(roi blazepose.ROI) {
	f.lost = slices.DeleteFunc(f.lost, func(l lostPlace) bool { return sameRegion(l.ROI, roi) })
}

// found tells whether the last look found somebody new.
func (f *finder) found(somebody bool) {
	switch {
	case somebody:
		f.patience = hurry
	case f.stirred:
		f.patience = min(2*f.patience, f.refresh)
	}
	f.stirred = false
}

// plan moves on by one frame: it says whether to sweep, and which regions to look at otherwise. moving is where something moves that is none
// of the people; it may be empty.
func (f *finder) plan(live, slots int, moving image.Rectangle) (sweep bool, regions []image.Rectangle) {
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
	switch {
	case !moving.Empty() && f.since >= f.patience:
		f.since, f.stirred = 0, true
		regions = append(regions, moving)
	case f.since >= f.refresh:
		f.since, f.patience = 0, hurry
		regions = append(regions, f.nextRegion())
	}
	return false, regions
}

func (f *finder) planIdle() (bool, []image.Rectangle) {
	f.idle++
	if f.idle >= f.sweepAt {
		f.sweepAt = f.idle + min(lastSweep, 2*f.idle)
		return true, nil
	}
	var regions []image.Rectangle
	if f.idle%idleFrames == 1 {
		regions = append(regions, image.Rectangle{Max: f.size})
		if tiles := blazepose.Tiles(f.size, 1); len(tiles) > 0 {
			regions = append(regions, tiles[f.idle/idleFrames%len(tiles)])
		}
	}
	return false, regions
}

// watch moves on by one frame and returns where those should be who were lost lately: every second frame, and those whom others hide in each.
// Who left the picture is not watched. often may be nil.
func (f *finder) watch(often func(blazepose.ROI) bool) []lostPlace {
	var due []lostPlace
	for i := range f.lost {
		l := &f.lost[i]
		l.Cx, l.Cy = l.Cx+l.vx, l.Cy+l.vy
		if out := l.Size / 4; l.Cx < -out || l.Cy < -out || l.Cx > float64(f.size.X)+out || l.Cy > float64(f.size.Y)+out {
			l.frames = 0
			continue
		}
		if l.Valid() && (l.frames%2 == 0 || often != nil && often(l.ROI)) {
			due = append(due, *l)
		}
		l.frames--
	}
	f.lost = slices.DeleteFunc(f.lost, func(l lostPlace) bool { return l.frames <= 0 })
	return due
}

// around are the surroundings of places in the picture, twice as large.
func (f *finder) around(due []lostPlace) []image.Rectangle {
	var regions []image.Rectangle
	for _, d := range due {
		r := image.Rect(int(d.Cx-d.Size), int(d.Cy-d.Size), int(d.Cx+d.Size), int(d.Cy+d.Size)).Intersect(image.Rectangle{Max: f.size})
		if !r.Empty() {
			regions = append(regions, r)
		}
	}
	return regions
}

// guess is the region that plan will give where as many people as in the frame before will be followed and nothing else moves; empty if none.
func (f *finder) guess(live, slots int) image.Rectangle {
	if f.fresh || live == 0 || live >= slots || f.since+1 < f.refresh {
		return image.Rectangle{}
	}
	return f.region(f.turn)
}

func (f *finder) nextRegion() image.Rectangle {
	f.turn++
	return f.region(f.turn - 1)
}

// region goes round: every second look is at the whole picture or a large tile, the others at the next finer tile.
func (f *finder) region(n int) image.Rectangle {
	coarse := append(blazepose.Tiles(f.size, 0), blazepose.Tiles(f.size, 1)...)
	fine := blazepose.Tiles(f.size, 2)
	if n%2 == 1 && len(fine) > 0 {
		return fine[n/2%len(fine)]
	}
	return coarse[n/2%len(coarse)]
}
