package rig

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// taken begins the reply to an event that has been committed.
const taken = "HTTP/1.1 202 "

// wire carries HTTP between carriers and door, and cuts replies off: the request has gone through, its reply and the connection are lost.
type wire struct {
	listener net.Listener
	target   string
	// loses tells of an event's id whether the reply to it is to be lost now.
	loses  func(id string) bool
	losses atomic.Int64
	links  sync.WaitGroup

	mu    sync.Mutex
	ended bool
	open  map[net.Conn]bool
}

func openWire(ctx context.Context, target string, loses func(id string) bool) (*wire, error) {
	l, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	w := &wire{listener: l, target: target, loses: loses, open: map[net.Conn]bool{}}
	w.links.Go(func() { w.accept(context.WithoutCancel(ctx)) }) // until close

	return w, nil
}

func (w *wire) addr() string { return w.listener.Addr().String() }

func (w *wire) lost() int { return int(w.losses.Load()) }

func (w *wire) close() {
	_ = w.listener.Close()
	w.mu.Lock()
	w.ended = true
	for c := range w.open {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.links.Wait()
}

// hold keeps the connection for close; false: it is closed, since that was before.
func (w *wire) hold(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		_ = c.Close()

		return false
	}
	w.open[c] = true

	return true
}

func (w *wire) drop(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
	_ = c.Close()
}

func (w *wire) accept(ctx context.Context) {
	for {
		c, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.links.Go(func() { w.link(ctx, c) }) // ends with the connection
	}
}

// link is one connection. What the client has said since the last reply is one request.
func (w *wire) link(ctx context.Context, client net.Conn) {
	if !w.hold(client) {
		return
	}
	defer w.drop(client)
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.target)
	if err != nil || !w.hold(server) {
		return
	}
	defer w.drop(server)
	var said saying
	w.links.Go(func() { // ends with either connection
		_, _ = io.Copy(io.MultiWriter(&said, server), client)
		w.drop(server)
	})
	buf := make([]byte, maxEvent)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if id, ok := said.take(); ok && bytes.HasPrefix(buf[:n], []byte(taken)) && w.loses(id) {
			w.losses.Add(1)

			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// saying is what was said since the last reply.
type saying struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (s *saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)

	return len(p), nil
}

// take finds the event's id in the request that was answered.
func (s *saying) take() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, rest, ok := bytes.Cut(s.text, []byte("\r\nWebhook-Id: "+idPrefix))
	id, _, _ := bytes.Cut(rest, []byte("\r\n"))
	s.text = nil

	return string(id), ok
}
