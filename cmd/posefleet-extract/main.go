// Command posefleet-extract finds people and their body points in video clips. It works on one file from the command line, or as
// the extractor process of a posefleet worker (serve).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/posefleet/posefleet/internal/sandbox"
)

func main() {
	// Nothing here needs the network, and a clip may be a playlist of addresses: ffmpeg, which inherits this, can then reach nobody.
	if err := sandbox.NoNetwork(); err != nil && !errors.Is(err, sandbox.ErrUnsupported) {
		fmt.Fprintf(os.Stderr, "%s: goes on with the network open: %v\n", programName, err)
	}

	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup would have it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	code := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}
