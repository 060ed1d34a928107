package pose

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ExportCSV writes one line per person and frame, and one with empty cells for a frame with nobody, so that every decoded frame
// has its line. Points that are missing are empty cells. Columns: frame (from 0), time_s, person_id, athlete (1 for the
// athlete's line), score, then x, y and score of each point in pixels.
//
// A clip with smoothed points has more columns behind these: x and y of each smoothed point and its mark (f filled, r raw point
// rejected, s sides exchanged), then degrees, error and reason of each angle. Who is only there by filling has a line with empty
// raw cells.
func ExportCSV(w io.Writer, s Source) error {
	out := bufio.NewWriter(w)
	columns := s.csvColumns()
	if _, err := out.WriteString(strings.Join(columns, ",") + "\n"); err != nil {
		return err
	}
	index := 0
	var b []byte
	for f, err := range s.Frames() {
		if err != nil {
			return err
		}
		b = b[:0]
		for _, p := range slices.Concat(f.People, f.Filled) {
			b = s.csvLine(b, index, f.T, p)
		}
		if len(b) == 0 {
			b = csvStart(b, index, f.T)
			b = append(b, strings.Repeat(",", len(columns)-2)+"\n"...)
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
		index++
	}
	return out.Flush()
}

func (s Source) csvColumns() []string {
	columns := []string{"frame", "time_s", "person_id", "athlete", "score"}
	for _, k := range s.Skeleton.Keypoints {
		columns = append(columns, k+"_x", k+"_y", k+"_score")
	}
	if s.Clip.Signal == nil {
		return columns
	}
	for _, k := range s.Skeleton.Keypoints {
		columns = append(columns, k+"_smooth_x", k+"_smooth_y", k+"_mark")
	}
	for _, a := range s.Clip.Signal.Angles {
		columns = append(columns, a.Name+"_deg", a.Name+"_error", a.Name+"_reason")
	}
	return columns
}

func csvStart(b []byte, index int, t float64) []byte {
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, ',')
	return appendNumber(b, t/1000, timeDecimals+3)
}

func (s Source) csvLine(b []byte, index int, t float64, p Person) []byte {
	b = csvStart(b, index, t)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(p.Track), 10)
	if s.isAthlete(p) {
		b = append(b, ",1,"...)
	} else {
		b = append(b, ",0,"...)
	}
	points := p.Keypoints
	if points == nil {
		points = make([]Keypoint, len(s.Skeleton.Keypoints)) // only there by filling
	} else {
		b = appendNumber(b, unit(p.Score), scoreDecimals)
	}
	for _, k := range points {
		if !k.usable() {
			b = append(b, ",,,"...)
			continue
		}
		for _, v := range [2]float64{k.X, k.Y} {
			b = appendNumber(append(b, ','), v, pixelDecimals)
		}
		b = appendNumber(append(b, ','), unit(k.Score), scoreDecimals)
	}
	if s.Clip.Signal != nil {
		b = s.csvSignal(b, p)
	}
	return append(b, '\n')
}

func (s Source) csvSignal(b []byte, p Person) []byte {
	smooth := p.Smooth
	if smooth == nil {
		smooth = &Smooth{}
	}
	for i := range s.Skeleton.Keypoints {
		if i < len(smooth.Keypoints) && smooth.Keypoints[i].usable() {
			b = appendNumber(append(b, ','), smooth.Keypoints[i].X, pixelDecimals)
			b = appendNumber(append(b, ','), smooth.Keypoints[i].Y, pixelDecimals)
		} else {
			b = append(b, ",,"...)
		}
		b = append(append(b, ','), smooth.mark(i)...)
	}
	for i := range s.Clip.Signal.Angles {
		switch {
		case i >= len(p.Angles):
			b = append(b, ",,,"...)
		case p.Angles[i].Reason != "":
			b = append(append(b, ",,,"...), p.Angles[i].Reason...)
		default:
			b = appendNumber(append(b, ','), p.Angles[i].Degrees, angleDecimals)
			b = append(appendNumber(append(b, ','), p.Angles[i].Error, angleDecimals), ',')
		}
	}
	return b
}

// mark is what was done to a point, a letter each.
func (s *Smooth) mark(point int) string {
	var out []byte
	for _, m := range []struct {
		letter byte
		list   []int
	}{{'f', s.Filled}, {'r', s.Rejected}, {'s', s.Swapped}} {
		if slices.Contains(m.list, point) {
			out = append(out, m.letter)
		}
	}
	return string(out)
}
