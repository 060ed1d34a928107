// Package proc runs programs for the developer tool: quietly when all goes well, with one telling line when it does not.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a cancelled program may take to end before it is killed.
const stopGrace = 20 * time.Second

// Spec is one run of a program.
type Spec struct {
	Dir  string   // working folder; empty: this process's
	Env  []string // additions to this process's environment
	Args []string // program and arguments
}

// Error is a program that could not be started or did not end with status 0.
type Error struct {
	Args   []string
	Err    error
	Output string // what it said on both streams, if it was captured
}

// Error is one line: the program, how it ended and the line of its output that most likely says why.
func (e *Error) Error() string {
	msg := fmt.Sprintf("%s: %v", strings.Join(short(e.Args), " "), e.Err)
	if why := telling(e.Output); why != "" {
		msg += ": " + why
	}

	return msg
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Run runs the program with its output kept back: only Error shows a line of it.
func Run(ctx context.Context, s Spec) error {
	_, err := Output(ctx, s)

	return err
}

// Output is Run for callers that want what the program wrote to stdout.
func Output(ctx context.Context, s Spec) (string, error) {
	var (
		stdout bytes.Buffer
		all    sharedBuffer
	)

	cmd := command(ctx, s)
	cmd.Stdout = io.MultiWriter(&stdout, &all)
	cmd.Stderr = &all

	if err := cmd.Run(); err != nil {
		return stdout.String(), &Error{Args: s.Args, Err: cause(ctx, err), Output: all.String()}
	}

	return stdout.String(), nil
}

// Show runs the program on this process's terminal.
func Show(ctx context.Context, s Spec) error {
	cmd := command(ctx, s)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr

	if err := cmd.Run(); err != nil {
		return &Error{Args: s.Args, Err: cause(ctx, err)}
	}

	return nil
}

// Stream runs the program with stdout going to w, line by line as it comes, and stderr to this process's.
func Stream(ctx context.Context, s Spec, w io.Writer) error {
	cmd := command(ctx, s)
	cmd.Stdout, cmd.Stderr = w, os.Stderr

	if err := cmd.Run(); err != nil {
		return &Error{Args: s.Args, Err: cause(ctx, err)}
	}

	return nil
}

// Pipe runs from with its output going into to.
func Pipe(ctx context.Context, from, to Spec) error {
	source, sink := command(ctx, from), command(ctx, to)

	var complaints sharedBuffer
	source.Stderr, sink.Stderr = &complaints, &complaints

	pipe, err := source.StdoutPipe()
	if err != nil {
		return fmt.Errorf("pipe %s: %w", from.Args[0], err)
	}

	sink.Stdin = pipe

	if err := source.Start(); err != nil {
		return &Error{Args: from.Args, Err: err}
	}

	// The sink is waited for first: Wait of the source closes the pipe that the sink reads from.
	sinkErr := sink.Run()
	sourceErr := source.Wait()

	if sinkErr != nil {
		return &Error{Args: to.Args, Err: cause(ctx, sinkErr), Output: complaints.String()}
	}

	if sourceErr != nil {
		return &Error{Args: from.Args, Err: cause(ctx, sourceErr), Output: complaints.String()}
	}

	return nil
}

// sharedBuffer takes the output of several streams: exec copies each on a goroutine of its own.
type sharedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p.
func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.buf.Write(p)
}

// String returns what was written so far.
func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.buf.String()
}

// Found reports whether the program is on the PATH.
func Found(name string) bool {
	_, err := exec.LookPath(name)

	return err == nil
}

func command(ctx context.Context, s Spec) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Args[0], s.Args[1:]...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), s.Env...)
	// A cancelled program gets the chance to end what it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace

	return cmd
}

// cause prefers the reason of a cancellation over "signal: terminated".
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return errors.Join(why)
	}

	return err
}

// short keeps a command readable in an error line.
func short(args []string) []string {
	const most = 4
	if len(args) <= most {
		return args
	}

	return append(append([]string{}, args[:most]...), "…")
}

// telling picks the line that says what went wrong: the first that begins as errors do, else the last.
func telling(output string) string {
	var last string

	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}

		lower := strings.ToLower(line)
		for _, mark := range []string{"e: ", "error", "npm error", "npm err!", "fatal", "go: "} {
			if strings.HasPrefix(lower, mark) {
				return line
			}
		}

		last = line
	}

	return last
}
