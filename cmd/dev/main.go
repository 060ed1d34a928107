// Command dev is posefleet's developer tool: `go run ./cmd/dev COMMAND` sets a bare Debian 12 up, builds, runs the main job, tests and
// makes the container image. It needs Go and nothing else: it imports the standard library and those packages of ours that do the
// same.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// command is one of the tool's commands.
type command struct {
	name, args, help string
	run              func(*tool, context.Context, []string) error
}

func commands() []command {
	return []command{
		{"demo", "[CLIP…]", "set up, build, and run the main job once on a real clip", (*tool).demo},
		{"test", "[PACKAGE…]", "set up, build, lint, and run all tests", (*tool).test},
		{"setup", "", "bring this machine what posefleet needs: packages, models, inference library", (*tool).setupAll},
		{"build", "[release]", "build build/bin/posefleet and build/bin/posefleet-extract", (*tool).build},
		{"lint", "", "go vet and golangci-lint", (*tool).lint},
		{"vuln", "", "look for known vulnerabilities in what the programs call, offline", (*tool).vuln},
		{"race", "", "run the tests of the pure Go packages under the race detector", (*tool).race},
		{"drill", "[-jobs N] [-seed N]", "run a fleet under load and faults, and hold its ledger against what is promised", (*tool).drill},
		{"bench", "[PACKAGE…]", "run the benchmarks", (*tool).bench},
		{"eval", "[FLAG…]", "measure how good the poses are, against pictures and clips with truth (-help for its flags)", (*tool).eval},
		{"assets", "DIR [onnxruntime]", "make an assets directory (models, inference library) at DIR", (*tool).assets},
		{"image", "", "build the container image with docker or buildah", (*tool).image},
		{"image-check", "[built]", "build the image without an engine, run the programs from it, print its sizes (root)", (*tool).imageCheck},
	}
}

func main() {
	// The first signal ends the running step and all it started; a second one ends the tool at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)

	os.Exit(run(ctx, os.Args[1:]))
}

// run gives the exit code: 0 done, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Print(usage())

		return 0
	}

	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}

		if err := c.start(ctx, args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "dev %s: %s\n", c.name, oneLine(err))

			return 1
		}

		return 0
	}

	fmt.Fprintf(os.Stderr, "dev: no command %q (go run ./cmd/dev help)\n", args[0])

	return 2
}

func (c command) start(ctx context.Context, args []string) error {
	t, err := newTool()
	if err != nil {
		return err
	}

	return c.run(t, ctx, args)
}

func usage() string {
	var b strings.Builder

	b.WriteString("usage: go run ./cmd/dev COMMAND\n\n")

	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-26s %s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	}

	return b.String()
}

// oneLine folds joined errors: a fault is one line, whatever it is made of.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
