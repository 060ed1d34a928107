package pose

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ExportTRC writes the athlete's points as an OpenSim marker file: in pixels, y up from the picture's lower edge, z 0, with the
// frames' true times. Points and frames without the athlete are empty cells.
func ExportTRC(w io.Writer, s Source) error {
	return s.lines(w, s.trcHeader(), s.trcLine)
}

// lines writes a header and a line for each frame, numbered from 1.
func (s Source) lines(w io.Writer, header string, line func(b []byte, index int, f Frame) []byte) error {
	out := bufio.NewWriter(w)
	if _, err := out.WriteString(header); err != nil {
		return err
	}
	index := 1
	var b []byte
	for f, err := range s.Frames() {
		if err != nil {
			return err
		}
		b = line(b[:0], index, f)
		if _, err := out.Write(b); err != nil {
			return err
		}
		index++
	}
	return out.Flush()
}

func (s Source) trcHeader() string {
	rate := s.rate()
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
	if p, ok := s.athlete(f); ok {
		copy(points, p.Best())
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

// ExportMOT writes the athlete's angles in degrees as an OpenSim motion file, with the frames' true times. What is not measurable is
// nan, the format's word for it. The clip needs its Signal.
func ExportMOT(w io.Writer, s Source) error {
	if s.Clip.Signal == nil {
		return fmt.Errorf("clip %s has no angles", s.Clip.ID)
	}
	return s.lines(w, s.motHeader(), s.motLine)
}

func (s Source) motHeader() string {
	defs := s.Clip.Signal.Angles
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nversion=1\nnRows=%d\nnColumns=%d\ninDegrees=yes\n\nendheader\ntime", strings.Map(printable, s.Name),
		s.Clip.Media.FramesDecoded, len(defs)+1)
	for _, d := range defs {
		b.WriteString("\t" + d.Name)
	}
	b.WriteString("\n")
	return b.String()
}

func (s Source) motLine(b []byte, _ int, f Frame) []byte {
	b = appendNumber(b, f.T/1000, timeDecimals+3)
	p, _ := s.athlete(f)
	for i := range s.Clip.Signal.Angles {
		if i >= len(p.Angles) || p.Angles[i].Reason != "" {
			b = append(b, "\tnan"...)
			continue
		}
		b = appendNumber(append(b, '\t'), p.Angles[i].Degrees, angleDecimals)
	}
	return append(b, '\n')
}
