package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/protocol"
)

// clipCommand extracts one clip.
type clipCommand struct {
	Path       string  `arg:"" name:"clip" help:"The video clip."`
	Output     string  `short:"o" placeholder:"PATH" help:"Where to write (a folder for openpose); - is stdout; a name that ends in .gz is compressed. Default: stdout if that is a file or a pipe, else the clip's name with the format's ending in the current folder; nothing if only --overlay or --picture is wanted."`
	Format     string  `help:"Output format: ${enum}." enum:"json,openpose,coco,csv,trc" default:"json"`
	Overlay    string  `placeholder:"PATH.mp4" help:"Also write a video with the skeletons drawn in."`
	Picture    string  `placeholder:"PATH.png" help:"Also write a contact sheet with the skeletons drawn in."`
	Model      string  `placeholder:"NAME" help:"Model: lite, full, heavy, or one of your own by its name or path (see docs/pose.md); heavy is the most accurate, lite and full are 8 and 4 times faster. Default: ${default}." default:"heavy"`
	Athlete    string  `placeholder:"T,X,Y" help:"The athlete is the person at this time (ms) and place (pixels)."`
	CaptureFPS float64 `name:"capture-fps" placeholder:"RATE" help:"Rate at which the camera recorded, for slow motion."`
	MaxPeople  int     `placeholder:"N" help:"How many people to follow at once (1-16). Default: 4."`
	Quiet      bool    `short:"q" help:"No progress and no summary."`
	engineFlags
}

// Run extracts the clip, writes what was asked for and sums up in a line on stderr.
func (c *clipCommand) Run(ctx context.Context, s streams) error {
	target, err := c.target(s)
	if err != nil {
		return usageError{err}
	}
	params, err := c.params()
	if err != nil {
		return usageError{err}
	}
	config, err := c.config(s)
	if err != nil {
		return usageError{err}
	}
	// A clip that can't be used shows before the model is loaded.
	if _, err := media.Probe(ctx, c.Path, config.Media); err != nil {
		return err
	}
	x, err := extract.New(config)
	if err != nil {
		return err
	}
	return errors.Join(c.extract(ctx, s, x, config, params, target), x.Close())
}

func (c *clipCommand) extract(ctx context.Context, s streams, x *extract.Extractor, config extract.Config, params protocol.Params, target string) (err error) {
	dir, err := os.MkdirTemp("", "posefleet-extract-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bar := newBar(s, c.Quiet)
	defer bar.clear()
	start := time.Now()
	out, err := x.Run(ctx, extract.Request{Clips: []extract.Input{{ID: "c1", Path: c.Path}}, Params: params, Dir: dir, Progress: bar.frames})
	if err != nil {
		return err
	}
	took := time.Since(start)
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := c.draw(ctx, out.Clips[0], config, bar); err != nil {
		return err
	}
	if err := c.write(s, out, target); err != nil {
		return err
	}
	bar.clear()
	if !c.Quiet {
		s.say("%s", summary(c.Path, out.Clips[0], took))
	}
	return nil
}

func (c *clipCommand) config(s streams) (extract.Config, error) {
	limits, err := media.LimitsFromEnv(os.Getenv)
	config := extract.Config{Assets: c.Assets, Models: c.Models, Model: c.Model, Engine: c.Engine, Threads: c.Threads, Media: media.Config{Limits: limits}}
	if os.Getenv("POSEFLEET_LOG_LEVEL") == "debug" {
		config.Logger = slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if err == nil {
		err = config.Validate()
	}
	return config, err
}

func (c *clipCommand) params() (protocol.Params, error) {
	p := protocol.Params{CaptureFPS: c.CaptureFPS, MaxPeople: c.MaxPeople}
	if c.MaxPeople < 0 || c.MaxPeople > extract.MaxPeople {
		return p, fmt.Errorf("--max-people: %d is not in 1..%d", c.MaxPeople, extract.MaxPeople)
	}
	if c.CaptureFPS < 0 {
		return p, fmt.Errorf("--capture-fps: %v is not a rate", c.CaptureFPS)
	}
	if c.Athlete == "" {
		return p, nil
	}
	var a protocol.Athlete
	if n, err := fmt.Sscanf(c.Athlete, "%g,%g,%g", &a.T, &a.X, &a.Y); n != 3 || err != nil {
		return p, fmt.Errorf("--athlete: %q is not T,X,Y", c.Athlete)
	}
	p.Athlete = &a
	return p, nil
}

// target is where the document goes: a path, "-", or "" for nowhere.
func (c *clipCommand) target(s streams) (string, error) {
	if c.Output == "" && (c.Overlay != "" || c.Picture != "") {
		return "", nil
	}
	openpose := pose.Format(c.Format) == pose.FormatOpenPose
	if c.Output == "-" && openpose {
		return "", errors.New("-o: openpose writes a folder, which can't go to stdout")
	}
	if c.Output != "" {
		return c.Output, nil
	}
	if !isTerminal(s.out) && !openpose {
		return "-", nil
	}
	name := filepath.Base(c.Path)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	endings := map[pose.Format]string{
		pose.FormatJSON: ".pose.json", pose.FormatOpenPose: "_openpose", pose.FormatCOCO: ".coco.json",
		pose.FormatCSV: ".csv", pose.FormatTRC: ".trc",
	}
	return name + endings[pose.Format(c.Format)], nil
}

func (c *clipCommand) draw(ctx context.Context, clip *extract.Clip, config extract.Config, bar *bar) error {
	if c.Overlay == "" && c.Picture == "" {
		return nil
	}
	return clip.Draw(ctx, extract.Overlay{Video: c.Overlay, Picture: c.Picture, Media: config.Media, Progress: bar.drawing})
}

func (c *clipCommand) write(s streams, out *extract.Result, target string) error {
	switch {
	case target == "":
		return nil
	case pose.Format(c.Format) == pose.FormatOpenPose:
		return out.WriteOpenPose(target)
	case target == "-":
		return c.encode(s.out, out)
	}
	return extract.WriteFile(target, func(w io.Writer) error { return c.encode(extract.Compressed(w, target), out) })
}

func (c *clipCommand) encode(w io.Writer, out *extract.Result) (err error) {
	if z, ok := w.(io.Closer); ok && w != os.Stdout {
		defer func() { err = errors.Join(err, z.Close()) }()
	}
	source := out.Clips[0].Source()
	switch pose.Format(c.Format) {
	case pose.FormatCOCO:
		return pose.ExportCOCO(w, source)
	case pose.FormatCSV:
		return pose.ExportCSV(w, source)
	case pose.FormatTRC:
		return pose.ExportTRC(w, source)
	}
	return out.WriteDocument(w)
}
