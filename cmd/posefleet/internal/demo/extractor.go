package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

const (
	// helloLimit is how long the extractor may take to load its models when it is tried; it needs about a second.
	helloLimit = 30 * time.Second
	// complaintLimit is how many bytes of its last line an error carries.
	complaintLimit = 300
)

// errNoHello says that the extractor ended in order and without a hello.
var errNoHello = errors.New("it ends without a hello")

// tryExtractor starts the extractor once and lets it end by the end of its input: after its hello, if it can work at all. A worker would
// try again and again, since what is missing may come; in a demo it doesn't.
func tryExtractor(ctx context.Context, command, env []string, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, helloLimit)
	defer cancel()

	var said, complaints bytes.Buffer

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &said, &complaints
	cmd.Dir, cmd.Env = dir, append(slices.Clip(env), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = stopGrace

	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}

	line, _, _ := bytes.Cut(said.Bytes(), []byte("\n"))
	if err == nil {
		err = checkHello(line)
	}

	if err == nil {
		return nil
	}

	if last := lastLine(complaints.String()); last != "" {
		return fmt.Errorf("the extractor does not start (%w): %s", err, last)
	}

	return fmt.Errorf("the extractor does not start: %w", err)
}

func checkHello(line []byte) error {
	m, err := protocol.ParseExtractorMessage(line)
	if hello, ok := m.(protocol.ExtractorHello); err == nil && ok {
		if hello.Protocol != protocol.ExtractorProtocol {
			return fmt.Errorf("it speaks protocol %d, not %d", hello.Protocol, protocol.ExtractorProtocol)
		}

		return nil
	}

	return errNoHello
}

// lastLine is the last line of text, cut to a readable length.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	last := text[strings.LastIndexByte(text, '\n')+1:]

	return strings.ToValidUTF8(last[:min(len(last), complaintLimit)], "")
}
