package main

import (
	"context"
	"log/slog"
	"os"
	"syscall"

	"github.com/posefleet/posefleet/internal/version"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/pose/media"
)

// serveCommand is the extractor process of a worker.
type serveCommand struct {
	Model string `placeholder:"NAME" help:"Model of jobs that name none: lite, full, heavy, or one of your own by its name or path (see docs/pose.md). Default: ${default}." default:"heavy" env:"POSEFLEET_MODEL"`
	engineFlags
}

// Run serves until stdin ends or the process is told to stop.
func (c *serveCommand) Run(ctx context.Context, s streams) error {
	limits, err := media.LimitsFromEnv(os.Getenv)
	if err != nil {
		return usageError{err}
	}
	config := extract.Config{
		Assets: c.Assets, Models: c.Models, Model: c.Model, Engine: c.Engine, Threads: c.Threads, Media: media.Config{Limits: limits},
		Logger: slog.New(slog.NewJSONHandler(s.err, nil)),
	}
	if err := config.Validate(); err != nil {
		return usageError{err}
	}
	out, err := takeStdout(s.out)
	if err != nil {
		return err
	}
	x, err := extract.New(config)
	if err != nil {
		return err
	}
	defer x.Close()
	parent := os.Getppid()
	server := &extract.Server{
		Extractor: x, Name: programName + " " + version.String(), In: s.in, Out: out, Logger: config.Logger,
		Orphaned: func() bool { return os.Getppid() != parent },
	}
	return server.Run(ctx)
}

// takeStdout keeps stdout for messages: whatever a native library prints there goes to stderr.
func takeStdout(stdout *os.File) (*os.File, error) {
	fd, err := syscall.Dup(int(stdout.Fd()))
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	if err := syscall.Dup3(int(os.Stderr.Fd()), int(stdout.Fd()), 0); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "messages"), nil
}
