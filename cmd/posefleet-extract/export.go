package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/protocol"
)

// exportCommand writes a clip of a stored document in another format.
type exportCommand struct {
	Path   string `arg:"" name:"document" help:"The pose document, plain or compressed."`
	Output string `short:"o" placeholder:"PATH" help:"Where to write (a folder for openpose); - is stdout; a name that ends in .gz is compressed. Default: stdout if that is a file or a pipe, else the clip's name with the format's ending in the current folder; nothing if only --report is wanted."`
	Format string `help:"Output format: ${enum}; mot are the athlete's angles." enum:"json,openpose,coco,csv,trc,mot" default:"json"`
	Clip   string `placeholder:"ID" help:"Which clip. Default: the first one."`
	Smooth bool   `help:"Add smoothed points and joint angles where the document has none (see docs/pose.md)."`
	Report string `placeholder:"PATH.html" help:"Also write a report: skeleton and angle curves, without the clip."`
}

// Run reads the document and writes the clip.
func (c *exportCommand) Run(s streams) error {
	if err := checkPlaces(c.Path, []place{
		{"-o", c.Output, pose.Format(c.Format) == pose.FormatOpenPose}, {"--report", c.Report, false},
	}); err != nil {
		return err
	}
	doc, err := readDocument(c.Path)
	if err != nil {
		return noAddress(c.Path, err)
	}
	source, err := c.source(doc)
	if err != nil {
		return err
	}
	if c.Report != "" {
		if err := c.report(doc, source); err != nil {
			return err
		}
		if c.Output == "" {
			return nil
		}
	}
	to, err := target(s, source.Name, c.Output, pose.Format(c.Format))
	if err != nil {
		return usageError{err}
	}
	return writeAs(s, pose.Format(c.Format), to, source, func(w io.Writer) error {
		e, err := pose.NewEncoder(w, pose.Head{AnalysisID: doc.AnalysisID, Model: doc.Model, Skeleton: doc.Skeleton})
		if err != nil {
			return err
		}
		return errors.Join(e.Clip(source.Clip, source.Frames()), e.Close())
	})
}

// source is the clip that was asked for, with smoothed points and angles if they are needed and absent.
func (c *exportCommand) source(doc *pose.Document) (pose.Source, error) {
	for i := range doc.Clips {
		if c.Clip != "" && doc.Clips[i].ID != c.Clip {
			continue
		}
		name := documentName(c.Path)
		if len(doc.Clips) > 1 {
			name += "-" + doc.Clips[i].ID
		}
		s := pose.SourceOf(name, doc, i)
		if (c.Smooth || pose.Format(c.Format) == pose.FormatMOT) && s.Clip.Signal == nil {
			return extract.Refine(s)
		}
		return s, nil
	}
	if c.Clip == "" {
		return pose.Source{}, protocol.NewFault(protocol.CodeInvalidJob, "the document has no clip")
	}
	return pose.Source{}, usageError{fmt.Errorf("--clip: the document has no clip %q", c.Clip)}
}

func (c *exportCommand) report(doc *pose.Document, s pose.Source) error {
	if s.Clip.Signal == nil {
		var err error
		if s, err = extract.Refine(s); err != nil {
			return err
		}
	}
	return extract.WriteReportOf(c.Report, s, doc.Model)
}

// documentName is the file's name without .pose.json and .gz.
func documentName(path string) string {
	name := filepath.Base(path)
	for _, ending := range []string{".gz", ".json", ".pose"} {
		if short := strings.TrimSuffix(name, ending); short != "" {
			name = short
		}
	}
	return name
}

// maxDocument bounds what a document may unpack to: many times a clip of half an hour.
const maxDocument = 4 << 30

func readDocument(path string) (*pose.Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, protocol.NewFault(protocol.CodeInputMissing, "there is no such document, or it can't be read").WithCause(err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 256<<10)
	var r io.Reader = in
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, notADocument(err)
		}
		defer z.Close()
		r = z
	}
	doc, err := pose.Decode(io.LimitReader(r, maxDocument))
	if err != nil {
		return nil, notADocument(err)
	}
	return doc, nil
}

func notADocument(err error) error {
	return protocol.NewFault(protocol.CodeInvalidMedia, "this is no pose document of this version").WithCause(err)
}
