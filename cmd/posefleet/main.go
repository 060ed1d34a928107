// Command posefleet runs the parts of a posefleet deployment: the worker, the control plane and the tools around
// them. It needs no cgo; the extraction itself is the program posefleet-extract.
package main

import (
	"log/slog"
	"os"

	"github.com/posefleet/posefleet/queue"
)

func main() {
	// The Redis driver's own lines would stand between ours. Commands that keep a log route them there.
	queue.RouteDriverLog(slog.New(slog.DiscardHandler))
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
