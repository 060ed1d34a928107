package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

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

// errText prints to stderr.
func (s streams) say(format string, args ...any) { fmt.Fprintf(s.err, format+"\n", args...) }

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// engineFlags are common to all commands that load a model.
type engineFlags struct {
	Assets  string `help:"Folder with models and inference library. Default: the usual places." env:"POSEFLEET_ASSETS" placeholder:"DIR"`
	Engine  string `help:"Inference engine: ${enum}." enum:"auto,onnxruntime,opencv" default:"auto"`
	Threads int    `help:"Threads of one inference. One gives the best throughput per core." default:"1"`
}

// cli are the commands and flags.
type cli struct {
	Clip    clipCommand    `cmd:"" default:"withargs" help:"Extract the poses of one clip (the default command)."`
	Serve   serveCommand   `cmd:"" help:"Do jobs given as JSON lines on stdin, as the extractor process of a worker."`
	Models  modelsCommand  `cmd:"" help:"List the models, or check their files."`
	Version versionCommand `cmd:"" help:"Print the version."`
	Show    bool           `name:"version" help:"Print the version and exit."`
}

const description = `Finds people and their body points in a video clip.

Exit codes: 0 done, 1 failed (one line on stderr: ` + programName + `: CODE: sentence, and no output file), 2 wrong usage.

Limits: POSEFLEET_MAX_SIDE (8192 pixels), POSEFLEET_MAX_PIXELS (36000000), POSEFLEET_MAX_DURATION (30m).`

// run parses the arguments, runs a command and returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c, kong.Name(programName), kong.Description(description), kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { exited = code }), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}))
	if err != nil {
		s.say("%s: %v", programName, err)
		return exitFailed
	}
	if len(args) == 1 && args[0] == "--version" {
		return finish(versionCommand{}.Run(s), s)
	}
	k, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		s.say("%s: %v (see --help)", programName, err)
		return exitUsage
	}
	return finish(k.Run(), s)
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
func (versionCommand) Run(s streams) error {
	_, err := io.WriteString(s.out, programName+" "+version()+"\n")
	return err
}

// version is the module's version, or the commit of a build from a working copy.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return "devel-" + setting.Value[:min(12, len(setting.Value))]
		}
	}
	return strings.Trim(info.Main.Version, "()")
}
