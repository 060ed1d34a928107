// Package child runs a server program for the length of a test and makes sure that it ends with it, even if the test process
// is killed.
package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// ErrStillRunning is the answer of Stop when the program had to be killed because it ignored its signal.
var ErrStillRunning = errors.New("child ignored its stop signal and was killed")

// Process is a running child. All methods may be called from any goroutine.
type Process struct {
	cmd    *exec.Cmd
	done   chan struct{}
	err    error // valid once done is closed
	output *tail
}

// Start starts cmd, which must not have been started. Output of the program that cmd does not redirect is kept for Output.
// The kernel kills the child when this process dies. Whoever calls Start ends it by Stop or Kill.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{}), output: &tail{limit: 64 << 10}}
	if cmd.Stdout == nil {
		cmd.Stdout = p.output
	}

	if cmd.Stderr == nil {
		cmd.Stderr = p.output
	}

	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}

	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL

	started := make(chan error, 1)
	// Ends when the child has ended.
	go p.run(started)

	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}

	return p, nil
}

// run owns the child from start to end on one thread: the kernel's death signal follows the thread that forked, not the process.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)

	if err := p.cmd.Start(); err != nil {
		p.err = err
		started <- err

		return
	}

	started <- nil
	p.err = p.cmd.Wait()
}

// Pid is the process id of the child.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the child ended; nil while it runs or when it ended with status 0.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Signal sends sig; a child that has ended already is no error.
func (p *Process) Signal(sig os.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}

	return err
}

// Kill ends the child by SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // the only fault is "already gone"
	<-p.done
}

// Stop sends sig, waits for the end for at most grace, then kills.
func (p *Process) Stop(sig os.Signal, grace time.Duration) error {
	if err := p.Signal(sig); err != nil {
		p.Kill()

		return fmt.Errorf("stop child: %w", err)
	}

	timer := time.NewTimer(grace)
	defer timer.Stop()

	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.Kill()

		return ErrStillRunning
	}
}

// Output is the last part of what the child wrote to stdout and stderr.
func (p *Process) Output() string { return p.output.String() }

// tail keeps the last limit bytes written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	buf   bytes.Buffer
}

// Write implements io.Writer.
func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.buf.Write(b)

	if over := w.buf.Len() - w.limit; over > 0 {
		w.buf.Next(over)
	}

	return len(b), nil
}

// String is the kept text.
func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.buf.String()
}
