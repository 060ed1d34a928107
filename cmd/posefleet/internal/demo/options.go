package demo

import (
	"fmt"
	"io"
	"log/slog"
)

// Options are what can be said on the command line; the tags are kong's.
type Options struct {
	Clips    []string `arg:"" optional:"" name:"clip" help:"Clips to analyse; without one, twelve seconds of vtest.avi of Debian's opencv-doc (people who walk over a yard)."`
	Once     bool     `help:"End after the results; exit 0 only if all were delivered."`
	Kill     *bool    `negatable:"" help:"Take the last clip through once more, and kill the control plane in the middle of it (default: only without clips of your own)."`
	RedisURL string   `name:"redis-url" placeholder:"URL" help:"Use this Redis and leave nothing in it (default: a redis-server of the demo's own)."`
	Listen   string   `default:"127.0.0.1:0" placeholder:"ADDR" help:"Address of control plane and page; port 0 is any free one."`
	Model    string   `enum:"lite,full,heavy" default:"full" help:"Pose model: ${enum}."`
	Verbose  bool     `short:"v" help:"Show what the parts log, not only warnings."`
}

// kills tells whether the control plane is to be killed.
func (o *Options) kills() bool {
	if o.Kill == nil {
		return len(o.Clips) == 0
	}

	return *o.Kill
}

// Streams are where the demo writes: what it shows, and the logs of its parts.
type Streams struct {
	Out io.Writer
	Log *slog.Logger
	// Err is where the control plane, which is a process of its own, writes its log and that of its workers.
	Err io.Writer
}

// NotDeliveredError says that some analysis has no result.
type NotDeliveredError struct{ Failed, All int }

// Error counts them.
func (e *NotDeliveredError) Error() string {
	return fmt.Sprintf("%d of %d analyses were not delivered", e.Failed, e.All)
}

// ClipError says that a file can't be read: a fault of the command line.
type ClipError struct{ Err error }

// Error is the cause's.
func (e *ClipError) Error() string { return "clip: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ClipError) Unwrap() error { return e.Err }
