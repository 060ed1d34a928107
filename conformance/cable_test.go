package conformance

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cable is a TCP connection to Redis that can break at a bad moment: after a command went through, before its reply comes back.
type cable struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	word   string // commands that contain it lose their reply; empty: none
	losses int
	all    sync.WaitGroup
}

// newCable listens until the test ends.
func newCable(t testing.TB, target string) *cable {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	c := &cable{listener: l, target: target, conns: map[net.Conn]bool{}}
	c.all.Go(c.accept) // ends with the listener
	t.Cleanup(func() {
		_ = l.Close()
		c.cutAll()
		c.all.Wait()
	})

	return c
}

func (c *cable) addr() string { return c.listener.Addr().String() }

// loseReplies makes the next command that contains the word lose its reply, and its connection.
func (c *cable) loseReplies(word string) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.word = word
}

// lost is how many replies were lost.
func (c *cable) lost() int {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.losses
}

func (c *cable) accept() {
	for {
		down, err := c.listener.Accept()
		if err != nil {
			return
		}

		up, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = down.Close()

			continue
		}

		c.mu.Lock()
		c.conns[down], c.conns[up] = true, true
		c.mu.Unlock()

		lose := &atomic.Bool{}

		c.all.Go(func() { c.commands(up, down, lose) }) // both end when one side closes
		c.all.Go(func() { c.replies(down, up, lose) })
	}
}

// commands passes on what the client says and notes the command whose reply is to be lost.
func (c *cable) commands(up, down net.Conn, lose *atomic.Bool) {
	defer up.Close()

	buf := make([]byte, 64<<10)

	for {
		n, err := down.Read(buf)
		if c.matches(buf[:n]) {
			lose.Store(true)
		}

		if n > 0 {
			if _, err := up.Write(buf[:n]); err != nil {
				return
			}
		}

		if err != nil {
			return
		}
	}
}

// replies passes on what Redis says, until a reply is to be lost: then the connection breaks.
func (c *cable) replies(down, up net.Conn, lose *atomic.Bool) {
	defer down.Close()

	buf := make([]byte, 64<<10)

	for {
		n, err := up.Read(buf)
		if n > 0 && lose.Load() {
			c.mu.Lock()
			c.losses++
			c.mu.Unlock()

			return
		}

		if n > 0 {
			if _, err := down.Write(buf[:n]); err != nil {
				return
			}
		}

		if err != nil {
			return
		}
	}
}

// matches tells whether the command loses its reply; it happens once.
func (c *cable) matches(command []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.word == "" || !bytes.Contains(command, []byte(c.word)) || !bytes.Contains(command, []byte("completed")) {
		return false
	}

	c.word = ""

	return true
}

func (c *cable) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()

	for conn := range c.conns {
		_ = conn.Close()
	}
}
