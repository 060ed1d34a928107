package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/extract"
)

// target is where the document goes: a path, "-", or "" for nowhere.
func (c *clipCommand) target(s streams) (string, error) {
	if c.Output == "" && (c.Overlay != "" || c.Picture != "" || c.Report != "") {
		return "", nil
	}
	return target(s, c.Path, c.Output, pose.Format(c.Format))
}

// target is where a clip goes in a format: to output, or where the format usually goes.
func target(s streams, path, output string, format pose.Format) (string, error) {
	openpose := format == pose.FormatOpenPose
	if output == "-" && openpose {
		return "", errors.New("-o: openpose writes a folder, which can't go to stdout")
	}
	if output != "" {
		return output, nil
	}
	if !isTerminal(s.out) && !openpose {
		return "-", nil
	}
	name := filepath.Base(path)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	endings := map[pose.Format]string{
		pose.FormatJSON: ".pose.json", pose.FormatOpenPose: "_openpose", pose.FormatCOCO: ".coco.json",
	}
	if ending, ok := endings[format]; ok {
		return name + ending, nil
	}
	return name + "." + string(format), nil
}

func (c *clipCommand) draw(ctx context.Context, clip *extract.Clip, config extract.Config, bar *bar) error {
	if c.Overlay == "" && c.Picture == "" {
		return nil
	}
	return clip.Draw(ctx, extract.Overlay{Video: c.Overlay, Picture: c.Picture, Media: config.Media, Progress: bar.stage("drawing")})
}

func (c *clipCommand) report(ctx context.Context, out *extract.Result, dir string, config extract.Config, bar *bar) error {
	if c.Report == "" {
		return nil
	}
	return out.WriteReport(ctx, extract.ReportOptions{
		Path: c.Report, Embed: c.Embed, Dir: dir, Media: config.Media, Progress: bar.stage("report"),
	})
}

func (c *clipCommand) write(s streams, out *extract.Result, target string) error {
	if target == "" {
		return nil
	}
	source, err := out.Clips[0].Source()
	if err != nil {
		return err
	}
	return writeAs(s, pose.Format(c.Format), target, source, out.WriteDocument)
}

// writeAs writes a clip in a format to target; document writes it as our own.
func writeAs(s streams, format pose.Format, target string, source pose.Source, document func(io.Writer) error) error {
	encode := func(w io.Writer) error {
		if format == pose.FormatJSON {
			return document(w)
		}
		return pose.Export(w, format, source)
	}
	switch {
	case format == pose.FormatOpenPose:
		return extract.WriteOpenPose(target, source)
	case target == "-":
		return encode(s.out)
	}
	return extract.WriteFile(target, func(w io.Writer) (err error) {
		out := extract.Compressed(w, target)
		if z, ok := out.(io.Closer); ok && out != w {
			defer func() { err = errors.Join(err, z.Close()) }()
		}
		return encode(out)
	})
}
