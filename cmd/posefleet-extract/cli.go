package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/posefleet/posefleet/internal/flagtwice"
	"github.com/posefleet/posefleet/internal/version"
	"github.com/posefleet/posefleet/pose/extract"
)

// Exit codes of the contract.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const programName = "posefleet-extract"

// streams are the program's files.
type streams struct{ in, out, err *os.File }

// say prints a line to stderr.
func (s streams) say(format string, args ...any) { fmt.Fprintf(s.err, format+"\n", args...) }

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// engineFlags are common to all commands that load a model.
type engineFlags struct {
	Assets  string `help:"Folder with models and inference library. Default: the usual places." env:"POSEFLEET_ASSETS" placeholder:"DIR"`
	Models  string `help:"Folder of your own models: a folder with a pose.json for each." env:"POSEFLEET_MODELS" placeholder:"DIR"`
	Engine  string `help:"Inference engine: ${enum}." enum:"auto,onnxruntime,opencv" default:"auto" env:"POSEFLEET_ENGINE"`
	Threads int    `help:"Threads of one inference. One gives the best throughput per core." default:"1" env:"POSEFLEET_THREADS"`
}

// command is one of the program's commands.
type command struct {
	name, description string
	// flags is a pointer to a struct that kong fills in.
	flags any
}

const (
	exits = `Exit codes: 0 done, 1 failed (one line on stderr: ` + programName + `: CODE: sentence, and no output file), 2 wrong usage.`

	clipText = `Finds people and their body points in a video clip.

Other commands: export (a stored document in another format), serve (the extractor process of a worker), models (list, check, explain), version. Each
has --help.

` + exits + `

Limits: POSEFLEET_MAX_SIDE (8192 pixels), POSEFLEET_MAX_PIXELS (36000000), POSEFLEET_MAX_DURATION (30m).`

	exportText = `Writes a clip of a stored pose document in another format, without looking at the clip again.

` + exits

	modelsText = `Lists the models that can be asked for, checks that they can be used, or explains one.

` + exits + `

Models of your own: docs/pose.md, Bring your own model.`

	serveText = `Does jobs given as JSON lines on stdin and answers on stdout, as the extractor process of a worker.

Ends with stdin, after the job that runs, and at once on SIGTERM.`
)

// commandOf picks the command by the first argument; anything that is no command's name is a clip.
func commandOf(args []string) (command, []string) {
	if len(args) > 0 {
		switch args[0] {
		case "serve":
			return command{programName + " serve", serveText, &serveCommand{}}, args[1:]
		case "export":
			return command{programName + " export", exportText, &exportCommand{}}, args[1:]
		case "models":
			return command{programName + " models", modelsText, &modelsCommand{}}, args[1:]
		case "version", "--version":
			return command{programName + " version", "Prints the version.", &versionCommand{}}, args[1:]
		}
	}
	return command{programName, clipText, &clipCommand{}}, args
}

// nameFiles puts a folder in front of a file name that looks like a flag, so that it is none.
func nameFiles(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if strings.HasPrefix(a, "-") && len(a) > 2 {
			if info, err := os.Lstat(a); err == nil && info.Mode().IsRegular() {
				out[i] = "./" + a
			}
		}
	}
	return out
}

// run parses the arguments, runs a command and returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	c, args := commandOf(nameFiles(args))
	exited := -1
	parser, err := kong.New(c.flags, kong.Name(c.name), kong.Description(c.description), kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 110}))
	if err != nil {
		s.say("%s: %v", programName, err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err == nil {
		err = flagtwice.Check(parsed)
	}
	if err != nil {
		s.say("%s: %v (see %s --help)", programName, err, c.name)
		return exitUsage
	}
	return finish(c.run(ctx, s), s)
}

func (c command) run(ctx context.Context, s streams) error {
	switch f := c.flags.(type) {
	case *clipCommand:
		return f.Run(ctx, s)
	case *serveCommand:
		return f.Run(ctx, s)
	case *exportCommand:
		return f.Run(s)
	case *modelsCommand:
		return f.Run(ctx, s)
	case *versionCommand:
		return f.Run(s)
	}
	return fmt.Errorf("command %s has no way to run", c.name)
}

// usageError is an error of whoever called the program.
type usageError struct{ error }

// finish says what went wrong in one line and returns the exit code.
func finish(err error, s streams) int {
	if err == nil {
		return exitDone
	}
	if u, ok := errors.AsType[usageError](err); ok {
		s.say("%s: %v", programName, u.error)
		return exitUsage
	}
	f := extract.Fault(err)
	s.say("%s: %s", programName, f.Error())
	return exitFailed
}

type versionCommand struct{}

// Run prints the version.
func (*versionCommand) Run(s streams) error {
	_, err := io.WriteString(s.out, programName+" "+version.String()+"\n")
	return err
}
