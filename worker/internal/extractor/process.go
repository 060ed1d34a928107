package extractor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/posefleet/posefleet/internal/sandbox"
)

const (
	// drainDelay is how long the pipes may still hold output after the leader has exited: a process that escaped the
	// group may keep them open for ever.
	drainDelay = 500 * time.Millisecond
	// killWait bounds the wait for a killed process; only one that hangs in the kernel takes so long.
	killWait = 10 * time.Second
	// oomScore makes the kernel end an extractor before the worker when memory runs out.
	oomScore = 500
)

// process is one running extractor. Its goroutines (life, reader, stderr) end with the process.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	msgs   chan message  // parsed stdout; closed at its end
	quit   chan struct{} // closed by close: nobody reads msgs any more
	exited chan struct{} // closed when the whole group is gone and reaped
	log    *slog.Logger

	mu     sync.Mutex
	reaped bool   // the pid is free for others: no more signals; written by life
	status string // how the leader ended; written by life before exited is closed
	last   string // the last line of stderr; written by life before exited is closed
	once   sync.Once
}

// startProcess starts the command and returns once it runs.
func startProcess(cfg Config, tmp string, log *slog.Logger) (*process, error) {
	p := &process{
		cmd: exec.Command(cfg.Command[0], cfg.Command[1:]...), log: log,
		msgs: make(chan message), quit: make(chan struct{}), exited: make(chan struct{}),
	}
	p.cmd.Env = append(append([]string{}, cfg.Env...), "TMPDIR="+tmp)
	p.cmd.Dir = tmp
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go p.life(cfg, started) // ends when the group is reaped
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start extractor: %w", err)
	}
	return p, nil
}

// life starts the leader and waits for its end on one locked thread, because the kernel sends the parent-death
// signal when the *thread* that forked ends.
func (p *process) life(cfg Config, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.start(); err != nil {
		started <- err
		return
	}
	lowerPriority(p.cmd.Process.Pid, cfg.Nice)
	if err := sandbox.Limit(p.cmd.Process.Pid); err != nil { // a courtesy as well: where it is not allowed the work goes on
		p.log.Debug("extractor runs without limits", slog.String("error", err.Error()))
	}
	var pipes sync.WaitGroup
	pipes.Go(func() { p.read(cfg.MaxLine) })
	pipes.Go(func() { p.remember(logLines(p.stderr, p.log)) })
	started <- nil
	awaitExit(p.cmd.Process.Pid)
	p.reap()
	deadline := time.Now().Add(drainDelay)
	_ = p.stdout.SetReadDeadline(deadline)
	_ = p.stderr.SetReadDeadline(deadline)
	pipes.Wait()
	_ = errors.Join(p.stdin.Close(), p.stdout.Close(), p.stderr.Close())
	close(p.exited)
}

// start makes the pipes and starts the leader. The pipes are plain files, so that they have deadlines and so that
// waiting for the process never waits for whoever else holds them.
func (p *process) start() (err error) {
	var ours, theirs [3]*os.File
	defer func() {
		closeAll(theirs[:])
		if err != nil {
			closeAll(ours[:])
		}
	}()
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.stdin, p.stdout, p.stderr = ours[0], ours[1], ours[2]
	return nil
}

// reap kills what is left of the group while the leader is still a zombie, so that the group's number can't be
// another's, then reaps the leader and the orphans that came to us.
func (p *process) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid := p.cmd.Process.Pid
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
	p.status = p.cmd.ProcessState.String()
	p.reaped = true
	reapGroup(pid)
}

// send writes one line. It returns early when ctx ends.
func (p *process) send(ctx context.Context, line []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = p.stdin.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("send to extractor: %w", err)
	}
	return nil
}

// terminate ends the process: SIGTERM, after delay SIGKILL, both to the group. It returns when all of it is reaped.
func (p *process) terminate(delay time.Duration) {
	p.abandon()
	p.signal(syscall.SIGTERM)
	if p.waitExit(delay) {
		return
	}
	p.signal(syscall.SIGKILL)
	if !p.waitExit(killWait) {
		p.log.Error("extractor does not end after SIGKILL", slog.Int("pid", p.cmd.Process.Pid))
	}
}

// close ends an idle process the friendly way, by the end of its stdin, and terminates it if it does not listen.
func (p *process) close(delay time.Duration) {
	p.abandon()
	_ = p.stdin.Close()
	if !p.waitExit(delay / 2) {
		p.terminate(delay)
	}
}

// abandon says that nobody reads messages any more.
func (p *process) abandon() { p.once.Do(func() { close(p.quit) }) }

func (p *process) waitExit(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
		return false
	}
}

// signal sends sig to the group unless its number may be another's by now.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// ended describes the leader's end; only valid after exited was closed.
func (p *process) ended() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// lastWords is the last line of its stderr, which may be empty; only valid after exited was closed.
func (p *process) lastWords() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func (p *process) remember(last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = last
}

// adoptOrphans makes this process the parent of extractors' orphaned children, as PID 1 of a container is anyway,
// so that they can be reaped.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// awaitExit blocks until the child has exited and leaves it a zombie.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reapGroup reaps the killed members of the group that became our children; ECHILD says that there are no more.
func reapGroup(pgid int) {
	for {
		if _, err := syscall.Wait4(-pgid, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// lowerPriority puts the extractor behind the worker for CPU time and in front of it for the kernel's memory killer.
// Both are a courtesy: where they are not allowed the work goes on.
func lowerPriority(pid, nice int) {
	_ = syscall.Setpriority(syscall.PRIO_PGRP, pid, nice)
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(oomScore)), 0)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
