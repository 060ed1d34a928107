package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/flagtwice"
	"github.com/posefleet/posefleet/worker"
)

// Exit codes of the contract.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// cli is the command line. Each command is in a file of its own.
type cli struct {
	Version kong.VersionFlag `help:"Show the version and exit."`

	Worker      workerCmd      `cmd:"" help:"Take analyses from the queue and by HTTP, extract, report."`
	Control     controlCmd     `cmd:"" help:"Hand out claims, take results, keep clips and documents, show them."`
	Demo        demoCmd        `cmd:"" help:"Run everything on this machine and show one real analysis."`
	Enqueue     enqueueCmd     `cmd:"" help:"Add claim-check jobs to the queue."`
	Queue       queueCmd       `cmd:"" help:"Look at a queue and steer it."`
	Backup      backupCmd      `cmd:"" help:"Copy the control plane's SQLite database while it is in use."`
	Ledger      ledgerCmd      `cmd:"" help:"The idempotency ledger: its study."`
	Doctor      doctorCmd      `cmd:"" help:"Check a deployment and say what is wrong and how to mend it."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask a worker whether it is healthy; for a container's health check."`
	ShowVersion versionCmd     `cmd:"" name:"version" help:"Show the version."`
}

// host is what commands see of the process; bound into kong so that each Run method can ask for it.
type host struct {
	ctx            context.Context //nolint:containedctx // ends never; commands handle signals themselves
	environ        map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
	// command is the program's name and those of the commands that were named, for hints.
	command string
}

// usageError is a fault of the command line or the configuration: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// run parses and runs one command line and returns the exit code. A fault is one line on stderr; without any argument the
// overview is shown there.
func run(args, environ []string, stdout, stderr io.Writer) (code int) {
	if len(args) == 0 { // nobody knows the commands by heart: the overview, though not as an answer to what was asked
		run([]string{"--help"}, environ, stderr, stderr)
		return exitUsage
	}
	if len(args) == 1 && args[0] == "help" {
		args = []string{"--help"}
	}
	h := &host{ctx: context.Background(), environ: environMap(environ), stdin: os.Stdin, stdout: stdout, stderr: stderr, command: "posefleet"}
	err := execute(args, h)
	if e, ok := errors.AsType[exitError](err); ok {
		return int(e)
	}
	if err == nil {
		return exitDone
	}
	hint := ""
	code = exitFailed
	if _, usage := errors.AsType[*usageError](err); usage {
		hint, code = " (see "+h.command+" --help)", exitUsage
	}
	fmt.Fprintf(stderr, "posefleet: %s%s\n", oneLine(err), hint)
	return code
}

// exitError carries the code of kong's own exits (help, version) up to run.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

func execute(args []string, h *host) (err error) {
	defer func() { // kong calls exit inside of Parse after --help and --version
		switch p := recover().(type) {
		case nil:
		case exitError:
			err = p
		default:
			panic(p)
		}
	}()
	parser, err := kong.New(newCLI(), kong.Name("posefleet"),
		kong.Description("A fleet of workers that extract poses from video, on BullMQ."),
		kong.Vars{"version": versionLine()}, kong.Writers(h.stdout, h.stderr),
		kong.Exit(func(code int) { panic(exitError(code)) }), kong.Bind(h), kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}))
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	h.command = commandOf(parser.Model.Node, args)
	ctx, err := parser.Parse(args)
	if err != nil {
		return &usageError{err: err}
	}
	if err := flagtwice.Check(ctx); err != nil {
		return &usageError{err: err}
	}
	return ctx.Run()
}

// commandOf is the command that args name, as far as they name one: a fault of theirs is explained by its help.
func commandOf(n *kong.Node, args []string) string {
	names := []string{n.Name}
	for _, arg := range args {
		i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Type == kong.CommandNode && c.Name == arg })
		if i < 0 {
			break
		}
		n = n.Children[i]
		names = append(names, n.Name)
	}
	return strings.Join(names, " ")
}

func newCLI() *cli {
	return &cli{Worker: newWorkerCmd(), Control: newControlCmd(), Backup: newBackupCmd(), Enqueue: newEnqueueCmd(), Queue: newQueueCmd(), Doctor: newDoctorCmd()}
}

// environMap turns NAME=value lines into a map; the last one of a name counts.
func environMap(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok {
			m[name] = value
		}
	}
	return m
}

// oneLine makes one line of an error, so that a log of the container platform shows all of it.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

func versionLine() string {
	v := worker.BuildVersion()
	if v.Revision == "" {
		return "posefleet " + v.Version
	}
	return fmt.Sprintf("posefleet %s (%s)", v.Version, v.Revision)
}

// newLogger logs to stderr as the configuration says. The Redis client's own lines go there as well: in its own form
// they would break the log's.
func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	var log *slog.Logger
	if format == "text" {
		log = slog.New(textHandler(w, level))
	} else {
		log = slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})).With(
			slog.String("service_name", "posefleet"), slog.String("service_version", worker.BuildVersion().Version))
	}
	redis.SetLogger(redisLog{log})
	return log
}

// isTerminal tells whether w is a terminal, for colours.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
