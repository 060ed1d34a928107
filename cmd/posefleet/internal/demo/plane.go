package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/internal/operator"
)

const (
	// planeStart is how long the control plane may take to answer; it needs about a second.
	planeStart = 30 * time.Second
	planePoll  = 20 * time.Millisecond
	// planeAsk bounds one question to it, so that one that stands still is no reason to wait for ever.
	planeAsk = 20 * time.Second
)

// errPlaneSilent says that the control plane lives and does not answer.
var errPlaneSilent = errors.New("the control plane does not answer")

// plane is the control plane, a process of its own as in a deployment, so that it can be killed and started again.
type plane struct {
	api   *operator.Client
	env   []string
	out   io.Writer
	stack *stack

	proc *child.Process
	// expect says that the end of the process is no fault.
	expect func()
}

// freeAddress is the address itself, or one with a free port in the place of port 0: a control plane that is started again keeps it.
func freeAddress(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("control plane's address: %w", err)
	}

	if port != "0" {
		return address, nil
	}

	n, err := freeport.Find()
	if err != nil {
		return "", err
	}

	return net.JoinHostPort(host, strconv.Itoa(n)), nil
}

func newPlane(s *stack, address string, env map[string]string, out io.Writer) *plane {
	host, port, _ := net.SplitHostPort(address) // as freeAddress made it
	p := &plane{
		stack: s, out: out,
		api: &operator.Client{Base: "http://" + net.JoinHostPort(reachable(host), port), HTTP: &http.Client{Timeout: planeAsk}},
	}

	for name, value := range env {
		p.env = append(p.env, name+"="+value)
	}

	slices.Sort(p.env)

	return p
}

// start starts the process and waits until it answers.
func (p *plane) start(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}

	cmd := exec.Command(exe, "control")
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, p.out, p.out
	// A group of its own: Ctrl-C is for the demo, which ends the control plane after it has shown what there is.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	if p.proc, err = child.Start(cmd); err != nil {
		return err
	}

	p.expect = p.stack.watch("control plane", p.proc)

	return p.await(ctx)
}

func (p *plane) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, planeStart, errPlaneSilent)
	defer cancel()

	tick := time.NewTicker(planePoll)
	defer tick.Stop()

	for !p.api.Healthy(ctx) {
		select {
		case <-tick.C:
		case <-p.proc.Done():
			return fmt.Errorf("control plane ended at its start: %w", p.proc.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}

	return nil
}

// kill ends the process in the middle of whatever it does. The kernel ends its workers with it.
func (p *plane) kill() {
	p.expect()
	p.proc.Kill()
}

// stop ends the process in order, with its workers.
func (p *plane) stop() error {
	if p.proc == nil {
		return nil
	}

	p.expect()

	if err := p.proc.Stop(syscall.SIGTERM, partStop); err != nil {
		return fmt.Errorf("control plane: %w", err)
	}

	return nil
}
