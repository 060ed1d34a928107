package media

import (
	"math"
	"strconv"
	"strings"
)

// orientation is how a stored picture becomes upright: first un-mirrored left to right, then turned clockwise.
type orientation struct {
	mirrored bool
	rotation int // 0, 90, 180, 270
}

// parseMatrix reads ffprobe's print of a display matrix. One printed angle is not enough: for a mirrored picture ffprobe says
// 180 degrees, and whoever believes it turns the athlete upside down.
func parseMatrix(text string) (orientation, bool) {
	var rows [][]float64
	for line := range strings.Lines(text) {
		_, numbers, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		var row []float64
		for f := range strings.FieldsSeq(numbers) {
			v, err := strconv.ParseFloat(f, 64)
			if err != nil {
				return orientation{}, false
			}
			row = append(row, v)
		}
		rows = append(rows, row)
	}
	if len(rows) != 3 || len(rows[0]) != 3 || len(rows[1]) != 3 {
		return orientation{}, false
	}
	return orient(rows[0][0], rows[0][1], rows[1][0], rows[1][1])
}

// orient takes the linear part of the matrix: x' = a·x + c·y, y' = b·x + d·y. A matrix that mirrors is a mirroring followed by a
// turn; other angles than quarter turns go to the nearest one.
func orient(a, b, c, d float64) (orientation, bool) {
	det := a*d - b*c
	if det == 0 {
		return orientation{}, false
	}
	o := orientation{mirrored: det < 0}
	if o.mirrored {
		a, b = -a, -b
	}
	quarter := int(math.Round(math.Atan2(b, a) / (math.Pi / 2)))
	o.rotation = ((quarter%4 + 4) % 4) * 90
	return o, true
}

// filters are ffmpeg's filters that make the picture upright.
func (o orientation) filters() []string {
	var f []string
	if o.mirrored {
		f = append(f, "hflip")
	}
	switch o.rotation {
	case 90:
		f = append(f, "transpose=clock")
	case 180:
		f = append(f, "hflip", "vflip")
	case 270:
		f = append(f, "transpose=cclock")
	}
	return f
}

// sideways reports whether width and height change places.
func (o orientation) sideways() bool { return o.rotation == 90 || o.rotation == 270 }
