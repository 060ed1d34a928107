package pose

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
)

// Formats are all formats, the document itself first.
func Formats() []Format {
	return []Format{FormatJSON, FormatOpenPose, FormatCOCO, FormatCSV, FormatTRC}
}

// Source is a finished clip that exporters read. Frames may be called several times.
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

// ExportCSV writes one line per person and frame, and one with empty cells for a frame with nobody, so that every decoded frame
// has its line. Points that are missing are empty cells. Columns: frame (from 0), time_s, person_id, athlete (1 for the
// athlete's line), score, then x, y and score of each point in pixels.
func ExportCSV(w io.Writer, s Source) error {
	out := bufio.NewWriter(w)
	columns := []string{"frame", "time_s", "person_id", "athlete", "score"}
	for _, k := range s.Skeleton.Keypoints {
		columns = append(columns, k+"_x", k+"_y", k+"_score")
	}
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
		for _, p := range f.People {
			b = s.csvLine(b, index, f.T, p)
		}
		if len(f.People) == 0 {
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
	b = appendNumber(b, unit(p.Score), scoreDecimals)
	for _, k := range p.Keypoints {
		if !k.usable() {
			b = append(b, ",,,"...)
			continue
		}
		for _, v := range [2]float64{k.X, k.Y} {
			b = appendNumber(append(b, ','), v, pixelDecimals)
		}
		b = appendNumber(append(b, ','), unit(k.Score), scoreDecimals)
	}
	return append(b, '\n')
}

func (s Source) isAthlete(p Person) bool {
	return s.Clip.Athlete != nil && s.Clip.Athlete.Track == p.Track
}

// ExportTRC writes the athlete's points as an OpenSim marker file: in pixels, y up from the picture's lower edge, z 0, with the
// frames' true times. Points and frames without the athlete are empty cells.
func ExportTRC(w io.Writer, s Source) error {
	out := bufio.NewWriter(w)
	if _, err := out.WriteString(s.trcHeader()); err != nil {
		return err
	}
	index := 1
	var b []byte
	for f, err := range s.Frames() {
		if err != nil {
			return err
		}
		b = s.trcLine(b[:0], index, f)
		if _, err := out.Write(b); err != nil {
			return err
		}
		index++
	}
	return out.Flush()
}

func (s Source) trcHeader() string {
	rate := "0"
	if avg := s.Clip.Media.FPS.Average; avg != nil {
		rate = string(appendNumber(nil, *avg, 4))
	}
	n := s.Clip.Media.FramesDecoded
	var b strings.Builder
	fmt.Fprintf(&b, "PathFileType\t4\t(X/Y/Z)\t%s.trc\n", strings.Map(printable, s.Name))
	b.WriteString("DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames\n")
	fmt.Fprintf(&b, "%s\t%s\t%d\t%d\tpx\t%s\t1\t%d\n", rate, rate, n, len(s.Skeleton.Keypoints), rate, n)
	b.WriteString("Frame#\tTime")
	for _, k := range s.Skeleton.Keypoints {
		b.WriteString("\t" + k + "\t\t")
	}
	b.WriteString("\n\t")
	for i := range s.Skeleton.Keypoints {
		fmt.Fprintf(&b, "\tX%d\tY%d\tZ%d", i+1, i+1, i+1)
	}
	b.WriteString("\n\n")
	return b.String()
}

func (s Source) trcLine(b []byte, index int, f Frame) []byte {
	b = strconv.AppendInt(b, int64(index), 10)
	b = appendNumber(append(b, '\t'), f.T/1000, timeDecimals+3)
	points := make([]Keypoint, len(s.Skeleton.Keypoints))
	for _, p := range f.People {
		if s.isAthlete(p) {
			copy(points, p.Keypoints)
		}
	}
	for _, k := range points {
		if !k.usable() {
			b = append(b, "\t\t\t"...)
			continue
		}
		b = appendNumber(append(b, '\t'), k.X, pixelDecimals)
		b = appendNumber(append(b, '\t'), float64(s.Clip.Media.Height)-k.Y, pixelDecimals)
		b = append(b, "\t0"...)
	}
	return append(b, '\n')
}

// printable keeps a file name from breaking a line of a text format.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '_'
	}
	return r
}

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
	b = appendFlat(b, view.Points(p.Keypoints))
	b = append(b, `,"score":`...)
	b = appendNumber(b, unit(p.Score), scoreDecimals)
	b = append(b, `,"bbox":`...)
	b = appendBox(b, p.Box)
	b = append(b, `,"track_id":`...)
	b = strconv.AppendInt(b, int64(p.Track), 10)
	b = append(b, `,"time_ms":`...)
	b = appendNumber(b, t, timeDecimals)
	return append(b, '}')
}

// appendFlat writes x,y,score of all points as one list; missing points are 0,0,0.
func appendFlat(b []byte, points []Keypoint) []byte {
	b = append(b, '[')
	for i, k := range points {
		b = append(b, separator(i)...)
		if !k.usable() {
			b = append(b, "0,0,0"...)
			continue
		}
		b = appendNumber(b, k.X, pixelDecimals)
		b = appendNumber(append(b, ','), k.Y, pixelDecimals)
		b = appendNumber(append(b, ','), unit(k.Score), scoreDecimals)
	}
	return append(b, ']')
}

// ExportOpenPose writes one file per frame into dir, which must exist: NAME_000000000000_keypoints.json with the BODY_25 points
// of all people. person_id is the track.
func ExportOpenPose(dir string, s Source) error {
	view := NewView(s.Skeleton, Body25())
	index := 0
	var b []byte
	for f, err := range s.Frames() {
		if err != nil {
			return err
		}
		b = append(b[:0], `{"version":1.3,"people":[`...)
		for i, p := range f.People {
			b = append(b, separator(i)...)
			b = append(b, `{"person_id":[`...)
			b = strconv.AppendInt(b, int64(p.Track), 10)
			b = append(b, `],"pose_keypoints_2d":`...)
			b = appendFlat(b, view.Points(p.Keypoints))
			b = append(b, openPoseRest...)
		}
		b = append(b, "]}\n"...)
		name := fmt.Sprintf("%s_%012d_keypoints.json", s.Name, index)
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
		index++
	}
	return nil
}

// openPoseRest are the parts of a person that readers of the format expect and that this model does not give.
const openPoseRest = `,"face_keypoints_2d":[],"hand_left_keypoints_2d":[],"hand_right_keypoints_2d":[],` +
	`"pose_keypoints_3d":[],"face_keypoints_3d":[],"hand_left_keypoints_3d":[],"hand_right_keypoints_3d":[]}`
