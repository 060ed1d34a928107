package extract

import (
	"image"
	"slices"

	"github.com/posefleet/posefleet/pose"
)

// motion is how much each cell of a coarse grid over the picture changed from the frame before, in levels of 255.
type motion struct {
	change [cutGrid * cutGrid]uint8
	// usual is the median change: of a camera that moves all cells change.
	usual uint8
}

const (
	// stir and stirContrast are the least change of a cell in which something moves, in levels and as a multiple of the usual one.
	stir, stirContrast = 20, 4
	// stirCells is how many such cells there must be.
	stirCells = 4
	// stirRoom is how far around a person's box motion is the person's, in parts of its longer side.
	stirRoom = 0.1
)

// measure takes the samples of two frames, three levels a cell.
func (m *motion) measure(before, now []uint8) {
	for i := range m.change {
		sum := 0
		for c := range 3 {
			a, b := before[3*i+c], now[3*i+c]
			sum += int(max(a, b) - min(a, b))
		}
		m.change[i] = uint8(sum / 3)
	}
	sorted := m.change
	slices.Sort(sorted[:])
	m.usual = sorted[len(sorted)/2]
}

// beyond is a square around what moves outside of the given boxes of people, in a picture of the given size; it is empty where nothing does.
func (m *motion) beyond(people []pose.Observation, size image.Point) image.Rectangle {
	least := max(stir, stirContrast*int(m.usual))
	var bounds image.Rectangle
	n := 0
	for i, v := range m.change {
		if int(v) < least {
			continue
		}
		x, y := (2*(i%cutGrid)+1)*size.X/(2*cutGrid), (2*(i/cutGrid)+1)*size.Y/(2*cutGrid)
		theirs := slices.ContainsFunc(people, func(o pose.Observation) bool {
			return o.Box.Distance(float64(x), float64(y)) < stirRoom*o.Box.Side()
		})
		if !theirs {
			n++
			bounds = bounds.Union(image.Rect(x, y, x+1, y+1))
		}
	}
	if n < stirCells {
		return image.Rectangle{}
	}
	// Often only the legs stir, and the whole person must fit with room around. Who comes in from the side is seen best in the middle of what the
	// picture has of the square.
	side := max(2*bounds.Dx(), 2*bounds.Dy(), min(size.X, size.Y)*3/4)
	centre := bounds.Min.Add(bounds.Max).Div(2)
	from := centre.Sub(image.Pt(side/2, side/2))
	from.Y = min(max(from.Y, 0), max(0, size.Y-side))
	region := image.Rectangle{Min: from, Max: from.Add(image.Pt(side, side))}
	return aside(region, bounds, people).Intersect(image.Rectangle{Max: size})
}

// aside moves a region away from people beside whom something moves: the detector sees the one in front and overlooks who comes out from
// behind, unless the region's edge cuts the one in front.
func aside(region, moving image.Rectangle, people []pose.Observation) image.Rectangle {
	for _, o := range people {
		x, _ := o.Box.Centre()
		left, right := int(x-o.Box.W/4), int(x+o.Box.W/4)
		switch {
		case moving.Min.X >= right && region.Min.X < right && right < region.Max.X:
			region = region.Add(image.Pt(right-region.Min.X, 0))
		case moving.Max.X <= left && region.Min.X < left && left < region.Max.X:
			region = region.Add(image.Pt(left-region.Max.X, 0))
		}
	}
	return region
}
