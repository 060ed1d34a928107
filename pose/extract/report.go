package extract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/pose/report"
)

// ReportOptions say where a report goes and what is in it.
type ReportOptions struct {
	// Path is the HTML file.
	Path string
	// Embed puts a small copy of the clip into the file, so that it can be passed on alone. Otherwise the report refers to the clip.
	Embed bool
	// Dir is where the copy is made on the way.
	Dir string
	// Media tunes decoding and names the programs.
	Media media.Config
	// Progress, if set, is told the share of the copy that is done.
	Progress func(done float64)
}

// embeddedSide is the longer side of the copy of the clip inside a report: some hundred kilobytes a second.
const embeddedSide = 720

// WriteReport writes a report on the first clip, always with smoothed points and angles. The file is whole or absent.
func (r *Result) WriteReport(ctx context.Context, o ReportOptions) (err error) {
	c := r.Clips[0]
	source, err := Refine(pose.Source{Name: c.Name, Skeleton: c.Skeleton, Clip: c.ClipHead, Frames: c.Frames})
	if err != nil {
		return err
	}
	page := Page(source, r.Model)
	page.Title = filepath.Base(c.Info.Path)
	page.Facts = append(page.Facts, c.Quality.facts()...)
	page.Video = report.Video{Type: "video/" + c.Info.Container}
	if !o.Embed {
		if page.Video.URL, err = report.RelativeURL(o.Path, c.Info.Path); err != nil {
			return err
		}
		return writePage(o.Path, page)
	}
	copied, err := c.copy(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, copied.Close(), os.Remove(copied.Name())) }()
	page.Video.Type, page.Video.Data = "video/mp4", copied
	return writePage(o.Path, page)
}

func writePage(path string, page report.Page) error {
	return WriteFile(path, func(w io.Writer) error { return report.Write(w, page) })
}

// WriteReportOf writes a report without a clip: the skeletons alone.
func WriteReportOf(path string, s pose.Source, model pose.ModelInfo) error {
	return writePage(path, Page(s, model))
}

// copy makes a small copy of the clip in o.Dir that browsers play, with the frames' true times.
func (c *Clip) copy(ctx context.Context, o ReportOptions) (*os.File, error) {
	small := o.Media
	small.LongSide = embeddedSide
	path := filepath.Join(o.Dir, "copy.mp4")
	if err := c.Draw(ctx, Overlay{Video: path, Plain: true, Media: small, Progress: o.Progress}); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// Page is a report on a refined source, with what its document says; the caller adds the clip.
func Page(s pose.Source, model pose.ModelInfo) report.Page {
	m := s.Clip.Media
	p := report.Page{Title: s.Name, Facts: []report.Fact{
		{Name: "Clip", Value: fmt.Sprintf("%d frames of %d×%d, %.2f s", m.FramesDecoded, m.Width, m.Height, m.DurationMs/1000)},
		{Name: "Frame rate", Value: rates(m)},
		{Name: "Model", Value: strings.TrimSpace(model.Name + " " + model.Version)},
	}}
	if a := s.Clip.Athlete; a != nil {
		p.Facts = append(p.Facts, report.Fact{Name: "Athlete", Value: fmt.Sprintf("#%d: %s", a.Track, a.Reason)})
	}
	if len(m.Cuts) > 0 {
		p.Facts = append(p.Facts, report.Fact{Name: "Cuts", Value: strconv.Itoa(len(m.Cuts))})
	}
	for _, r := range m.Ramps {
		p.Facts = append(p.Facts, report.Fact{Name: "Change of speed", Value: fmt.Sprintf("at %.2f s from %.4g to %.4g frames a second", r.T/1000, r.From, r.To)})
	}
	if m.Partial {
		p.Facts = append(p.Facts, report.Fact{Name: "Damage", Value: "the clip is damaged or cut off: frames are missing"})
	}
	p.Document = func(w io.Writer) error {
		e, err := pose.NewEncoder(w, pose.Head{Model: model, Skeleton: s.Skeleton})
		if err != nil {
			return err
		}
		return errors.Join(e.Clip(s.Clip, s.Frames()), e.Close())
	}
	return p
}

// rates says how many frames a second there are, of the clip and of the camera.
func rates(m pose.Media) string {
	if m.FPS.Average == nil {
		return "unknown"
	}
	text := fmt.Sprintf("%.4g a second", *m.FPS.Average)
	if m.VariableRate {
		text += ", variable"
	}
	if m.FPS.Capture != nil && math.Abs(*m.FPS.Capture / *m.FPS.Average - 1) > 0.1 {
		text += fmt.Sprintf("; captured at %.4g", *m.FPS.Capture)
	}
	return text
}

func (q Quality) facts() []report.Fact {
	if q.AthleteFrames == 0 {
		return nil
	}
	return []report.Fact{{
		Name:  "Seen",
		Value: fmt.Sprintf("in %.0f %% of the frames, mean score %.2f", 100*q.AthleteCoverage, q.AthleteScore),
	}}
}
