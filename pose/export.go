package pose

import (
	"fmt"
	"io"
	"iter"
)

// Format is the name of an output format.
type Format string

// Formats of the command line.
const (
	FormatJSON     Format = "json"
	FormatOpenPose Format = "openpose"
	FormatCOCO     Format = "coco"
	FormatCSV      Format = "csv"
	FormatTRC      Format = "trc"
	FormatMOT      Format = "mot"
)

// Formats are all formats, the document itself first.
func Formats() []Format {
	return []Format{FormatJSON, FormatOpenPose, FormatCOCO, FormatCSV, FormatTRC, FormatMOT}
}

// Source is a finished clip that exporters read. Frames may be called several times.
//
// Where the clip has smoothed points (its Signal is set), formats that have room for one point give those; CSV gives both.
type Source struct {
	// Name is the clip's file name without folder and extension.
	Name     string
	Skeleton Skeleton
	Clip     ClipHead
	Frames   func() iter.Seq2[Frame, error]
}

// SourceOf returns a clip of a document as a source.
func SourceOf(name string, d *Document, clip int) Source {
	c := &d.Clips[clip]
	return Source{Name: name, Skeleton: d.Skeleton, Clip: c.ClipHead, Frames: c.All}
}

// Export writes the clip in a format of one file: coco, csv, trc or mot.
func Export(w io.Writer, f Format, s Source) error {
	switch f {
	case FormatCOCO:
		return ExportCOCO(w, s)
	case FormatCSV:
		return ExportCSV(w, s)
	case FormatTRC:
		return ExportTRC(w, s)
	case FormatMOT:
		return ExportMOT(w, s)
	}
	return fmt.Errorf("%s is no format of one file", f)
}

func (s Source) isAthlete(p Person) bool {
	return s.Clip.Athlete != nil && s.Clip.Athlete.Track == p.Track
}

// athlete is the athlete in a frame, also where only smoothed points know; false where nobody is.
func (s Source) athlete(f Frame) (Person, bool) {
	for _, list := range [2][]Person{f.People, f.Filled} {
		for _, p := range list {
			if s.isAthlete(p) {
				return p, true
			}
		}
	}
	return Person{}, false
}

// rate is the average rate as text; 0 where it is unknown.
func (s Source) rate() string {
	if avg := s.Clip.Media.FPS.Average; avg != nil {
		return string(appendNumber(nil, *avg, 4))
	}
	return "0"
}

// printable keeps a file name from breaking a line of a text format.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '_'
	}
	return r
}
