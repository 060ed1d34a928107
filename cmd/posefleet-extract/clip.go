package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
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
	Output     string  `short:"o" placeholder:"PATH" help:"Where to write (a folder for openpose); - is stdout; a name that ends in .gz is compressed. Default: stdout if that is a file or a pipe, else the clip's name with the format's ending in the current folder; nothing if only --overlay, --picture or --report is wanted."`
	Format     string  `help:"Output format: ${enum}; mot are the athlete's angles." enum:"json,openpose,coco,csv,trc,mot" default:"json"`
	Smooth     bool    `help:"Add smoothed points and joint angles beside the raw points (see docs/pose.md); openpose, coco and trc give the smoothed ones instead."`
	Report     string  `placeholder:"PATH.html" help:"Also write a report: the clip with skeleton and angle curves, in any browser. It refers to the clip where that is now."`
	Embed      bool    `name:"report-embed" help:"Put a small copy of the clip into the report, so that it can be passed on alone."`
	Overlay    string  `placeholder:"PATH.mp4" help:"Also write a video with the skeletons drawn in."`
	Picture    string  `placeholder:"PATH.png" help:"Also write a contact sheet with the skeletons drawn in."`
	Model      string  `placeholder:"NAME" help:"Model: lite, full, heavy, or one of your own by its name or path (see docs/pose.md); heavy is the most accurate, lite and full are 8 and 4 times faster. Default: ${default}." default:"heavy" env:"POSEFLEET_MODEL"`
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
	if err := checkPlaces(c.Path, []place{
		{"-o", target, pose.Format(c.Format) == pose.FormatOpenPose}, {"--overlay", c.Overlay, false}, {"--picture", c.Picture, false}, {"--report", c.Report, false},
	}); err != nil {
		return err
	}
	// A clip that can't be used shows before the model is loaded.
	if _, err := media.Probe(ctx, c.Path, config.Media); err != nil {
		return noAddress(c.Path, err)
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
	if err := c.report(ctx, out, dir, config, bar); err != nil {
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
	smooth := c.Smooth || pose.Format(c.Format) == pose.FormatMOT
	p := protocol.Params{CaptureFPS: c.CaptureFPS, MaxPeople: c.MaxPeople, Smooth: &smooth}
	if c.MaxPeople < 0 || c.MaxPeople > extract.MaxPeople {
		return p, fmt.Errorf("--max-people: %d is not in 1..%d", c.MaxPeople, extract.MaxPeople)
	}
	if c.Embed && c.Report == "" {
		return p, errors.New("--report-embed: there is no --report")
	}
	if !(c.CaptureFPS >= 0 && c.CaptureFPS <= extract.MaxCaptureFPS) {
		return p, fmt.Errorf("--capture-fps: %v is not a rate up to %d", c.CaptureFPS, extract.MaxCaptureFPS)
	}
	if c.Athlete == "" {
		return p, nil
	}
	var err error
	p.Athlete, err = parseAthlete(c.Athlete)
	return p, err
}

// parseAthlete reads T,X,Y: three numbers and nothing else.
func parseAthlete(text string) (*protocol.Athlete, error) {
	parts := strings.Split(text, ",")
	var v [3]float64
	for i := range v {
		err := errors.New("too few")
		if len(parts) == len(v) {
			v[i], err = strconv.ParseFloat(strings.TrimSpace(parts[i]), 64)
		}
		if err != nil || math.IsNaN(v[i]) || math.IsInf(v[i], 0) {
			return nil, fmt.Errorf("--athlete: %q is not T,X,Y: a time in ms and a place in pixels", text)
		}
	}
	return &protocol.Athlete{T: v[0], X: v[1], Y: v[2]}, nil
}
