package worker_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/posefleet/posefleet/worker"
)

const workerWord = "child-worker"

// workerMain runs a worker as a process of its own, for tests that kill or freeze it.
func workerMain() {
	if len(os.Args) < 2 || os.Args[1] != workerWord {
		return
	}
	environ := map[string]string{}
	for _, line := range os.Environ() {
		k, v, _ := strings.Cut(line, "=")
		environ[k] = v
	}
	cfg, err := worker.LoadConfig(environ)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	w, err := worker.New(cfg, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	if err != nil {
		os.Exit(2)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM)
	go func() { // ends with the process
		<-signals
		w.Drain()
		<-signals
		w.GiveBack()
	}()
	go func() { // ends with the process
		<-w.Ready()
		fmt.Println("ready", w.Addr(), w.AdminAddr())
	}()
	if w.Run(context.Background()) != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// childWorker is a worker process.
type childWorker struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// spawn starts a worker process and waits until it is ready.
func (b *bench) spawn(pairs ...string) *childWorker {
	b.t.Helper()
	c := &childWorker{cmd: exec.Command(os.Args[0], workerWord), done: make(chan struct{})}
	for k, v := range b.env(pairs...) {
		c.cmd.Env = append(c.cmd.Env, k+"="+v)
	}
	c.cmd.Stderr = b.log
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.kill(b.t) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready ") {
		b.t.Fatalf("worker process: %q, %v", line, err)
	}
	go func() { // ends with the process
		defer close(c.done)
		_ = c.cmd.Wait()
	}()
	return c
}

func (c *childWorker) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		t.Error(err)
	}
}

// kill ends the process without asking it.
func (c *childWorker) kill(t testing.TB) {
	t.Helper()
	_ = c.cmd.Process.Kill()
	<-c.done
}
