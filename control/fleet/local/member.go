package local

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/freeport"
)

const (
	// probeStarting and probeReady are the times between two questions to a worker.
	probeStarting = 50 * time.Millisecond
	probeReady    = 2 * time.Second
	probeMost     = time.Second
	// probesMissed is how many questions in a row a ready worker may leave without any answer: on a busy machine that says nothing.
	probesMissed = 3
	// restartFirst and restartMost bound the pause before a worker that ended is started again, doubled each time until it has run for
	// restartForgiven.
	restartFirst    = 250 * time.Millisecond
	restartMost     = 30 * time.Second
	restartForgiven = time.Minute
	// pipesMost is how long output may be read on after the end of a worker.
	pipesMost = 5 * time.Second
)

// member is one worker, through all of its restarts.
//
//	start ──► starting ──/readyz 200──► ready ──stop: SIGTERM──► gone
//	  ▲           └──────────ends by itself─┴─► pause
//	  └───────────────────────────────────────────┘
type member struct {
	cfg  Config
	stop chan struct{} // closed by the fleet

	mu    sync.Mutex
	pid   int // 0 while there is no process
	ready bool
}

func newMember(cfg Config) *member { return &member{cfg: cfg, stop: make(chan struct{})} }

func (m *member) state() (pid int, ready bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.pid, m.ready
}

func (m *member) set(pid int, ready bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pid, m.ready = pid, ready
}

// among tells whether the worker is one of those that are named: the id of a worker holds that of its process.
func (m *member) among(ids []string) bool {
	pid, _ := m.state()

	return pid != 0 && slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(id, fmt.Sprintf("-%d-", pid)) })
}

// run keeps a worker going until stop is closed.
func (m *member) run() {
	for pause := restartFirst; ; pause = min(2*pause, restartMost) {
		begin := time.Now()
		err := m.once()
		if m.stopped(0) {
			return
		}
		if time.Since(begin) > restartForgiven {
			pause = restartFirst
		}
		m.cfg.Log.Warn("worker ended by itself and is started again", slog.Int64("pause_ms", pause.Milliseconds()), slog.Any("error", err))
		if m.stopped(pause) {
			return
		}
	}
}

// stopped tells whether stop is closed, at the latest after the pause.
func (m *member) stopped(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-m.stop:
		return true
	default:
	}
	select {
	case <-m.stop:
		return true
	case <-timer.C:
		return false
	}
}

// once runs one process from start to end.
func (m *member) once() error {
	admin, err := freeport.Find()
	if err != nil {
		return err
	}
	door, err := freeport.Find()
	if err != nil {
		return err
	}
	cmd := exec.Command(m.cfg.Command[0], m.cfg.Command[1:]...)
	cmd.Env = append(slices.Clip(m.cfg.Env), "POSEFLEET_LISTEN="+loopback(door), "POSEFLEET_ADMIN_LISTEN="+loopback(admin))
	output := newLines(m.cfg.Log)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = output, output, pipesMost
	// A group of its own: Ctrl-C is for the control plane, which lets its workers drain.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begin := time.Now()
	proc, err := child.Start(cmd)
	if err != nil {
		return err
	}
	output.of(proc.Pid())
	defer output.end()
	m.set(proc.Pid(), false)
	defer m.set(0, false)
	m.cfg.Log.Info("worker started", slog.Int("pid", proc.Pid()), slog.Int("admin_port", admin), slog.Int("door_port", door))

	return m.watch(proc, "http://"+loopback(admin)+"/readyz", begin)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// watch asks the process whether it is ready until it ends, by itself or because it was told to.
func (m *member) watch(proc *child.Process, url string, begin time.Time) error {
	probes := &prober{client: &http.Client{Transport: &http.Transport{}, Timeout: probeMost}, url: url}
	defer probes.client.CloseIdleConnections()
	timer := time.NewTimer(probeStarting)
	defer timer.Stop()
	for missed := 0; ; {
		select {
		case <-proc.Done():
			return fmt.Errorf("worker process: %w", proc.Err())
		case <-m.stop:
			m.set(proc.Pid(), false)
			if err := proc.Stop(syscall.SIGTERM, m.cfg.Grace); err != nil {
				m.cfg.Log.Warn("worker does not end by itself", slog.Int("pid", proc.Pid()), slog.Any("error", err))
			}

			return nil
		case <-timer.C:
		}
		_, was := m.state()
		ready, answered := probes.ask()
		if missed++; answered {
			missed = 0
		}
		ready = ready || (was && !answered && missed < probesMissed)
		if ready && !was {
			m.cfg.Log.Debug("worker answers that it is ready", slog.Int("pid", proc.Pid()), slog.Int64("after_ms", time.Since(begin).Milliseconds()))
		}
		m.set(proc.Pid(), ready)
		timer.Reset(probeStarting)
		if ready {
			timer.Reset(probeReady)
		}
	}
}

// prober asks one worker.
type prober struct {
	client *http.Client
	url    string
}

// ask tells whether the worker can take work, and whether it said anything at all.
func (p *prober) ask() (ready, answered bool) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, p.url, http.NoBody)
	if err != nil {
		return false, false
	}
	res, err := p.client.Do(req)
	if err != nil {
		return false, false
	}
	defer res.Body.Close()

	return res.StatusCode == http.StatusOK, true
}
