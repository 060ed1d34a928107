package blazepose

import (
	"image"
	"math"
)

// levels are the sides of the tiles of each level of the pyramid, in parts of the picture's shorter side; 0 is the
// whole picture. In a picture of 16:9 they are 1, 3, 15 and 28 tiles.
var levels = [...]float64{0, 1, 0.6, 0.4}

// Levels is the number of levels of the pyramid.
const Levels = len(levels)

// maxStep bounds how far apart tiles lie, in parts of their side: neighbours overlap by at least the rest, so that
// nobody who fits in a tile is cut by all of them.
const maxStep = 0.6

// minTile is the smallest useful tile in pixels: below it a tile shows the detector nothing that the level above
// did not show.
const minTile = 96

// maxTiles bounds the tiles of one level, for pictures that are very long.
const maxTiles = 64

// Tiles returns the regions of one level of the pyramid, 0 ≤ level < Levels, for a picture of the given size. A
// level that adds nothing to the one before has no tiles.
func Tiles(size image.Point, level int) []image.Rectangle {
	if size.X <= 0 || size.Y <= 0 || level < 0 || level >= Levels {
		return nil
	}
	if level == 0 {
		return []image.Rectangle{{Max: size}}
	}
	short := min(size.X, size.Y)
	side := int(math.Round(levels[level] * float64(short)))
	if side < minTile || level == 1 && size.X == size.Y {
		return nil
	}
	columns, rows := starts(size.X, side), starts(size.Y, side)
	if len(columns)*len(rows) > maxTiles {
		return nil
	}
	var out []image.Rectangle
	for _, y := range rows {
		for _, x := range columns {
			out = append(out, image.Rect(x, y, x+side, y+side))
		}
	}
	return out
}

// starts spreads tiles of the given side evenly over a length and returns where they begin.
func starts(length, side int) []int {
	free := length - side
	if free <= 0 {
		return []int{0}
	}
	n := int(math.Ceil(float64(free)/(maxStep*float64(side)))) + 1
	out := make([]int, n)
	for i := range out {
		out[i] = int(math.Round(float64(i) * float64(free) / float64(n-1)))
	}
	return out
}

// insideShare is the part of a person's square that lies in the tile where it was seen, 0..1, counting what lies
// beyond the picture itself as inside: only the edges of tiles cut people who are in the picture.
func insideShare(r ROI, tile image.Rectangle, size image.Point) float64 {
	side := r.Size / roiScale
	if side <= 0 {
		return 0
	}
	axis := func(c float64, low, high, length int) float64 {
		from, to := c-side/2, c+side/2
		in := side
		if low > 0 {
			in -= min(max(float64(low)-from, 0), side)
		}
		if high < length {
			in -= min(max(to-float64(high), 0), side)
		}
		return max(in, 0) / side
	}
	return axis(r.Cx, tile.Min.X, tile.Max.X, size.X) * axis(r.Cy, tile.Min.Y, tile.Max.Y, size.Y)
}
