package pose

import (
	"bufio"
	"io"
	"strconv"
)

// ExportCOCO writes COCO keypoint results: an array with one entry per person and frame, the COCO-17 points in pixels with
// their scores (a missing point is 0,0,0, as that format has no other word for it). image_id is the frame's index from 0.
// track_id and time_ms are additions that COCO's tools ignore.
func ExportCOCO(w io.Writer, s Source) error {
	out := bufio.NewWriter(w)
	view := NewView(s.Skeleton, COCO17())
	if _, err := out.WriteString("["); err != nil {
		return err
	}
	index, entries := 0, 0
	var b []byte
	for f, err := range s.Frames() {
		if err != nil {
			return err
		}
		b = b[:0]
		for _, p := range f.People {
			b = append(b, separator(entries)...)
			b = cocoEntry(b, index, f.T, p, view)
			entries++
		}
		if _, err := out.Write(b); err != nil {
			return err
		}
		index++
	}
	if _, err := out.WriteString("\n]\n"); err != nil {
		return err
	}
	return out.Flush()
}

func cocoEntry(b []byte, index int, t float64, p Person, view View) []byte {
	b = append(b, "\n{\"image_id\":"...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"category_id":1,"keypoints":`...)
	b = usualDigits.flat(b, view.Points(p.Best()))
	b = append(b, `,"score":`...)
	b = appendNumber(b, unit(p.Score), scoreDecimals)
	b = append(b, `,"bbox":`...)
	b = usualDigits.box(b, p.Box)
	b = append(b, `,"track_id":`...)
	b = strconv.AppendInt(b, int64(p.Track), 10)
	b = append(b, `,"time_ms":`...)
	b = appendNumber(b, t, timeDecimals)
	return append(b, '}')
}
