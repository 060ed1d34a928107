package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/protocol"
)

const (
	// ownExtractor is the program that comes with posefleet. Others may need neither our models nor our decoder.
	ownExtractor = "posefleet-extract"
	// maxHello is the longest first line, maxComplaint how much of stderr is kept, in bytes.
	maxHello, maxComplaint = 1 << 20, 4 << 10
	// farewell is how long an extractor may take to end after its stdin did.
	farewell = 2 * time.Second
)

// extractorArea examines the extractor command and what it stands on.
type extractorArea struct {
	command []string
	env     []string // the whole environment of the extractor
}

// own tells whether it is our own extractor.
func (e extractorArea) own() bool {
	return len(e.command) > 0 && filepath.Base(e.command[0]) == ownExtractor
}

// variable is the value of a variable in the extractor's environment.
func (e extractorArea) variable(name string) string {
	for _, line := range slices.Backward(e.env) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value
		}
	}

	return ""
}

// examineHello starts the extractor and waits until it has loaded its model and said hello.
func examineHello(ctx context.Context, e extractorArea) []Finding {
	const name = "extractor"

	started := time.Now()
	hello, complaint, err := e.hello(ctx)

	if complaint != "" {
		complaint = " (it says: " + complaint + ")"
	}

	mend := "run it by hand: " + strings.Join(e.command, " ")

	switch {
	case err != nil:
		return []Finding{failure(name, mend, "%s %s%s", e.command[0], err, complaint)}
	case hello.Protocol != protocol.ExtractorProtocol:
		return []Finding{failure(name, "use an extractor of the same release", "%s speaks protocol %d, not %d", hello.Name, hello.Protocol, protocol.ExtractorProtocol)}
	case e.own() && !e.listed(hello.Model.SHA256):
		return []Finding{warning(name, "see models, and POSEFLEET_ASSETS of this process", "%s loaded %s with the sum %.12s, which no manifest here lists",
			hello.Name, hello.Model.Name, hello.Model.SHA256)}
	}

	return []Finding{good(name, "%s said hello after %s, with %s %s (sha256 %.12s…)",
		hello.Name, span(time.Since(started)), hello.Model.Name, hello.Model.Version, hello.Model.SHA256)}
}

func (e extractorArea) hello(ctx context.Context) (hello protocol.ExtractorHello, complaint string, err error) {
	tmp, err := os.MkdirTemp("", "posefleet-doctor-")
	if err != nil {
		return hello, "", fmt.Errorf("can't be tried: %w", err)
	}
	defer os.RemoveAll(tmp)

	stderr := &tail{}
	cmd := exec.Command(e.command[0], e.command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = tmp, append(slices.Clone(e.env), "TMPDIR="+tmp), stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = farewell

	stdin, err := cmd.StdinPipe()
	if err != nil {
		return hello, "", fmt.Errorf("can't be tried: %w", err)
	}

	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return hello, "", fmt.Errorf("can't be tried: %w", err)
	}

	if err := cmd.Start(); err != nil {
		return hello, "", fmt.Errorf("does not start: %s", plainPathError(err))
	}

	first := make(chan []byte, 1)

	var wg sync.WaitGroup

	wg.Go(func() { firstLine(stdout, first) }) // ends with the process

	hello, err = awaitHello(ctx, first)

	patience := farewell
	if err != nil {
		patience = 0
	}

	_ = stdin.Close() // the friendly way to end it
	kill := time.AfterFunc(patience, func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = stdout.Close() // whoever has left the group may hold the other end for ever
	})

	wg.Wait() // Wait would close what is being read
	kill.Stop()

	_ = cmd.Wait() // how it ends after its hello is nobody's concern

	return hello, stderr.last(), err
}

// awaitHello waits for the first line and reads it.
func awaitHello(ctx context.Context, first <-chan []byte) (protocol.ExtractorHello, error) {
	var none protocol.ExtractorHello

	select {
	case <-ctx.Done():
		return none, errors.New("says no hello in time")
	case line := <-first:
		if len(line) == 0 {
			return none, errors.New("ends without a hello")
		}

		m, err := protocol.ParseExtractorMessage(line)

		hello, ok := m.(protocol.ExtractorHello)
		if err != nil || !ok {
			return none, errors.New("begins with something else than a hello")
		}

		return hello, nil
	}
}

// firstLine passes on the first line and throws the rest away, so that the process can't block on it.
func firstLine(r io.Reader, first chan<- []byte) {
	line, _ := bufio.NewReader(io.LimitReader(r, maxHello)).ReadBytes('\n') // an end without a line end is an answer as well
	first <- bytes.TrimSpace(line)

	_, _ = io.Copy(io.Discard, r)
}

// tail keeps the end of stderr.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(len(t.buf)-maxComplaint, 0):]

	return len(p), nil
}

// last is the last line, cut to a readable length.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()

	rows := strings.Split(strings.TrimSpace(string(t.buf)), "\n")
	last := []rune(oneLine(rows[len(rows)-1]))

	return string(last[:min(len(last), 240)])
}

// listed tells whether the manifest lists a file with the sum.
func (e extractorArea) listed(sum string) bool {
	dir, err := e.assets()
	if err != nil {
		return false
	}

	for _, model := range []string{assets.LandmarkLite, assets.LandmarkFull, assets.LandmarkHeavy} {
		if have, ok := dir.SHA256(assets.ModelFile(model, false)); ok && strings.EqualFold(have, sum) {
			return true
		}
	}

	return false
}

// assets finds the folder that the extractor will use: by its environment, beside its program, at the usual places.
func (e extractorArea) assets() (*assets.Dir, error) {
	if path := e.variable(assets.EnvDir); path != "" {
		return assets.Open(path)
	}

	if len(e.command) > 0 {
		program := e.command[0]
		if real, err := filepath.EvalSymlinks(program); err == nil {
			program = real
		}

		for _, path := range []string{"assets", "../assets"} {
			if dir, err := assets.Open(filepath.Join(filepath.Dir(program), path)); err == nil {
				return dir, nil
			}
		}
	}

	return assets.Find()
}

// examineModels compares every model file with its sum.
func examineModels(ctx context.Context, e extractorArea) []Finding {
	const name = "models"

	dir, err := e.assets()

	switch {
	case err != nil && !e.own():
		return []Finding{good(name, "none here, and %s is not ours", e.command[0])}
	case err != nil:
		return []Finding{failure(name, "install the model files, or name their folder in POSEFLEET_ASSETS", "%s", err)}
	}

	checked := make(chan error, 1)
	go func() { checked <- dir.Check() }() // ends when the files are read; at the latest with the process

	select {
	case err = <-checked:
	case <-ctx.Done():
		return []Finding{warning(name, "look at the disk", "the files in %s are not read within the time", dir.Path)}
	}

	if err != nil {
		return []Finding{failure(name, "install the model files again", "%s", err)}
	}

	return []Finding{good(name, "all files in %s are as their manifest says", dir.Path)}
}
