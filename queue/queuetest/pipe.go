package queuetest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipe makes a connection in memory. Unlike net.Pipe it holds what was written until it is read, as a socket does: a client that sends
// a long pipeline reads no answer before it has sent all of it.
func pipe() (client, server *conn) {
	a, b := newHalf(), newHalf()
	done := make(chan struct{})
	once := &sync.Once{}
	end := func() { once.Do(func() { a.end(); b.end(); close(done) }) }

	return &conn{in: a, out: b, done: done, end: end}, &conn{in: b, out: a, done: done, end: end}
}

// conn is one end of a pipe. All of its waits are on channels of its own, so that a testing/synctest bubble knows them for waits.
type conn struct {
	in, out *half
	done    chan struct{} // closed when either end is
	end     func()
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) { return c.in.read(p) }

// Write implements net.Conn. It never waits.
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close implements net.Conn. It ends both ends; what was written before can still be read.
func (c *conn) Close() error {
	c.end()

	return nil
}

// LocalAddr implements net.Conn.
func (*conn) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements net.Conn.
func (*conn) RemoteAddr() net.Addr { return address{} }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(t)

	return nil
}

// SetWriteDeadline implements net.Conn; writes don't wait.
func (*conn) SetWriteDeadline(time.Time) error { return nil }

type address struct{}

// Network implements net.Addr.
func (address) Network() string { return "memory" }

// String implements net.Addr.
func (address) String() string { return "memory" }

// half is one direction of a pipe, with a single reader.
type half struct {
	mu       sync.Mutex
	data     []byte
	ended    bool
	deadline time.Time
	changed  chan struct{} // holds at most one signal for the reader
}

func newHalf() *half { return &half{changed: make(chan struct{}, 1)} }

func (h *half) read(p []byte) (int, error) {
	for {
		h.mu.Lock()
		n, ended, deadline := copy(p, h.data), h.ended, h.deadline
		h.data = h.data[n:]
		h.mu.Unlock()

		switch {
		case n > 0 || len(p) == 0:
			return n, nil
		case ended:
			return 0, io.EOF
		case !deadline.IsZero() && !time.Now().Before(deadline):
			return 0, os.ErrDeadlineExceeded
		}

		h.wait(deadline)
	}
}

// wait returns when something may have changed or the deadline has come.
func (h *half) wait(deadline time.Time) {
	if deadline.IsZero() {
		<-h.changed
		return
	}

	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()

	select {
	case <-h.changed:
	case <-t.C:
	}
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.ended {
		return 0, io.ErrClosedPipe
	}

	h.data = append(h.data, p...)
	h.signal()

	return len(p), nil
}

func (h *half) setDeadline(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.deadline = t
	h.signal()
}

func (h *half) end() {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.ended = true
	h.signal()
}

func (h *half) signal() {
	select {
	case h.changed <- struct{}{}:
	default: // the reader has not seen the last one yet
	}
}
