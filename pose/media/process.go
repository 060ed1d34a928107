package media

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// process is a running child in a process group of its own. The kernel kills it if this process dies.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid once done is closed
	stop func() bool

	mu    sync.Mutex
	ended bool // guarded by mu: after that the pid may be another's
}

// startProcess starts cmd and kills its group when ctx ends. The caller must see it end: wait, or kill and wait.
func startProcess(ctx context.Context, cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Env = childEnv()
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	// Ends when the child has ended.
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	p.stop = context.AfterFunc(ctx, p.kill)
	return p, nil
}

// run owns the child from start to end on one thread: the kernel's death signal follows the thread that forked.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	close(p.done)
}

// wait waits for the end of the child and returns what exec.Cmd.Wait returned.
func (p *process) wait() error {
	<-p.done
	p.stop()
	return p.err
}

// kill kills the child's group. It may be called at any time.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// stoppedExit is ffmpeg's exit code after it was told to stop.
const stoppedExit = 255

// stopped reports whether a child was ended from outside, by a host that has no memory left, say. That tells nothing about the file: what it
// read until then is no result. A child that crashes by itself is not among them: it does so each time.
func stopped(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return exit.ExitCode() == stoppedExit
	}
	switch status.Signal() {
	case syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGXCPU:
		return true
	}
	return false
}

// childEnv is what the decoder may know: where programs and libraries are. FFREPORT, for one, would make it write files.
func childEnv() []string {
	env := []string{"LC_ALL=C", "AV_LOG_FORCE_NOCOLOR=1"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
