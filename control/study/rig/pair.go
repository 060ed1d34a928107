package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/queue"
)

const (
	startLimit = time.Minute
	startTries = 5
	startPoll  = 5 * time.Millisecond
)

// pair is a Redis master with a replica, and with another one after each failover.
type pair struct {
	program, dir string

	mu              sync.Mutex
	master, replica *server
	reign           int
	all             []*server
}

// server is one redis-server.
type server struct {
	addr   string
	proc   *child.Process
	client *redis.Client
}

func startPair(ctx context.Context, program, dir string) (*pair, error) {
	if program == "" {
		program = "redis-server"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("real failovers need redis-server: %w", err)
	}
	p := &pair{program: path, dir: dir}
	if p.master, err = p.start(ctx); err != nil {
		return nil, err
	}
	if err := p.follow(ctx); err != nil {
		p.close()

		return nil, err
	}

	return p, nil
}

func (p *pair) close() {
	for _, s := range p.all {
		s.proc.Kill()
		_ = s.client.Close() // of a dead server
	}
}

// start runs a server on a free port. Another process may be faster there, so that it is tried again.
func (p *pair) start(ctx context.Context) (*server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("redis-server does not answer"))
	defer cancel()
	var err error
	for range startTries {
		var s *server
		if s, err = p.launch(ctx); err == nil {
			p.all = append(p.all, s)

			return s, nil
		}
	}

	return nil, err
}

func (p *pair) launch(ctx context.Context) (*server, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(p.dir, "redis-"+strconv.Itoa(port))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	proc, err := child.Start(exec.Command(p.program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--appendonly", "no", "--logfile", "", "--repl-diskless-sync-delay", "0"))
	if err != nil {
		return nil, err
	}
	s := &server{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), proc: proc}
	s.client = redis.NewClient(&redis.Options{Addr: s.addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	if err := s.await(ctx, func() bool { return s.says("server", "process_id", strconv.Itoa(proc.Pid())) }); err != nil {
		proc.Kill()

		return nil, errors.Join(err, s.client.Close(), errors.New(proc.Output()))
	}

	return s, nil
}

func (s *server) says(section, field, value string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	info := s.client.InfoMap(ctx, section)
	for _, fields := range info.Val() {
		if fields[field] == value {
			return true
		}
	}

	return false
}

func (s *server) await(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-s.proc.Done():
			return fmt.Errorf("redis-server ended: %w", s.proc.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}

	return nil
}

// follow gives the master a replica and waits until that has everything.
func (p *pair) follow(ctx context.Context) error {
	s, err := p.start(ctx)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(p.master.addr)
	if err != nil {
		return err
	}
	if err := s.client.ReplicaOf(ctx, host, port).Err(); err != nil {
		return fmt.Errorf("follow the master: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("the replica does not catch up"))
	defer cancel()
	p.replica = s

	return s.await(ctx, func() bool { return s.says("replication", "master_link_status", "up") })
}

// promote makes the replica a master of its own once it has all that was written. Those who talk to the old one do not learn of it.
func (p *pair) promote(ctx context.Context) error {
	// WAIT counts for the writes of its own connection.
	conn := p.master.client.Conn()
	defer conn.Close()
	if err := conn.Set(ctx, "rig:beat", 1, 0).Err(); err != nil {
		return fmt.Errorf("promote the replica: %w", err)
	}
	if n, err := conn.Wait(ctx, 1, startLimit).Result(); err != nil || n < 1 {
		return fmt.Errorf("promote the replica: %d replicas have everything: %w", n, err)
	}
	if err := p.replica.client.ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
		return fmt.Errorf("promote the replica: %w", err)
	}

	return nil
}

// failOver kills the master. From now on the promoted one counts.
func (p *pair) failOver(ctx context.Context) error {
	p.master.proc.Kill()
	p.mu.Lock()
	p.master, p.reign = p.replica, p.reign+1
	p.mu.Unlock()

	return p.follow(ctx)
}

// ruler is the master of now, and how many were before it.
func (p *pair) ruler() (addr string, reign int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.master.addr, p.reign
}

func (p *pair) failovers() int {
	_, n := p.ruler()

	return n
}

// line is one client's way to the master of now. It can be cut off.
type line struct {
	pair *pair

	mu     sync.Mutex
	healed chan struct{} // closed by the end of the cut; nil: not cut off
	conns  map[net.Conn]bool
}

func newLine(p *pair) *line { return &line{pair: p, conns: map[net.Conn]bool{}} }

// options are those of a queue that is reached by the line; the address in them is never used.
func (l *line) options() queue.Options {
	return queue.Options{RedisURL: "redis://master:6379", Name: "shipments", Dialer: l.dial}
}

// dial waits while the line is cut off: nobody answers there.
func (l *line) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	for {
		l.mu.Lock()
		healed := l.healed
		l.mu.Unlock()
		if healed == nil {
			break
		}
		select {
		case <-healed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	addr, _ := l.pair.ruler()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.healed != nil {
		_ = conn.Close() // cut meanwhile
	}
	l.conns[conn] = true

	return &lineConn{Conn: conn, line: l}, nil
}

// cutOff breaks the line.
func (l *line) cutOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.healed == nil {
		l.healed = make(chan struct{})
	}
	for c := range l.conns {
		_ = c.Close() // that is the point
	}
}

// heal ends cutOff.
func (l *line) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.healed != nil {
		close(l.healed)
		l.healed = nil
	}
}

type lineConn struct {
	net.Conn

	line *line
}

// Close implements net.Conn.
func (c *lineConn) Close() error {
	c.line.mu.Lock()
	delete(c.line.conns, c.Conn)
	c.line.mu.Unlock()

	return c.Conn.Close()
}
