// Package nettest gives a test a TCP proxy that does what networks do: it breaks connections, refuses new ones, falls silent with
// connections open, slows down, and loses the answer of a request that went through.
package nettest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

const bufferSize = 256 << 10

// Proxy passes on what comes to its address, unless it was told not to. Its methods may be called from any goroutine.
//
//	passing --Cut--> refusing --Heal--> passing      all connections break, new ones are closed at once
//	passing --Mute--> silent --Heal--> passing       connections stay open and nothing passes; those of that time stay so for ever
//	passing --Delay--> slow --Heal--> passing        each piece waits, in both directions
type Proxy struct {
	listener net.Listener
	ctx      context.Context //nolint:containedctx // of the test
	target   string
	all      sync.WaitGroup // accept and two goroutines a link

	mu     sync.Mutex
	links  map[*link]bool
	cut    bool
	mute   bool
	delay  time.Duration
	loses  func(request []byte) bool // nil: no answer is lost
	losses int                       // still to come
	lost   int
}

// Start listens on a free loopback port until the test ends. target is host:port.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	p := &Proxy{listener: l, ctx: context.WithoutCancel(t.Context()), target: target, links: map[*link]bool{}}
	p.all.Go(p.accept) // ends with the listener
	t.Cleanup(func() {
		_ = l.Close()
		p.Break()
		p.all.Wait()
	})

	return p
}

// Addr is the proxy's address, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Break ends all connections at once; new ones are welcome.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()

	for l := range p.links {
		l.close()
	}
}

// Cut ends all connections and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	p.cut = true
	p.mu.Unlock()
	p.Break()
}

// Mute lets nothing pass any more while all connections, also new ones, stay open.
func (p *Proxy) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.mute = true

	for l := range p.links {
		l.silence()
	}
}

// Delay lets each piece wait for d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.delay = d
}

// Heal ends Cut, Mute and Delay for what comes from now on.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.cut, p.mute, p.delay = false, false, 0
}

// LoseAnswers loses the answers of the next n requests that match, each with its connection; the requests go through.
func (p *Proxy) LoseAnswers(n int, match func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.losses, p.loses = n, match
}

// Lost is how many answers were lost so far.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.lost
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}

		if l := p.connect(client); l != nil {
			p.all.Go(l.up) // both end when one side closes
			p.all.Go(l.down)
		}
	}
}

// connect opens the other side; it is nil where there is none to be had.
func (p *Proxy) connect(client net.Conn) *link {
	p.mu.Lock()
	refuse := p.cut
	p.mu.Unlock()

	if refuse {
		_ = client.Close()

		return nil
	}

	server, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		_ = client.Close()

		return nil
	}

	l := &link{proxy: p, client: client, server: server}

	p.mu.Lock()
	defer p.mu.Unlock()

	if p.cut {
		l.close()

		return nil
	}

	l.silent = p.mute
	p.links[l] = true

	return l
}

// pause is how long a piece has to wait.
func (p *Proxy) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.delay
}

// mustLose tells whether the answer to this request is to be lost.
func (p *Proxy) mustLose(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.losses == 0 || p.loses == nil || !p.loses(request) {
		return false
	}

	p.losses--

	return true
}

func (p *Proxy) noteLoss() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.lost++
}

func (p *Proxy) forget(l *link) {
	l.close()

	p.mu.Lock()
	defer p.mu.Unlock()

	delete(p.links, l)
}

// link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn

	mu     sync.Mutex
	silent bool // nothing passes, for ever
	losing bool // the next answer is lost
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.silent = true
}

// up passes on what the client says.
func (l *link) up() {
	l.pass(l.client, l.server, func(piece []byte) bool {
		if l.proxy.mustLose(piece) {
			l.mu.Lock()
			l.losing = true
			l.mu.Unlock()
		}

		return true
	})
}

// down passes on what the server says, until an answer is to be lost.
func (l *link) down() {
	l.pass(l.server, l.client, func([]byte) bool {
		l.mu.Lock()
		defer l.mu.Unlock()

		if l.losing {
			l.proxy.noteLoss()
		}

		return !l.losing
	})
}

// pass copies one direction until either side closes or look says no.
func (l *link) pass(from, to net.Conn, look func(piece []byte) bool) {
	defer l.proxy.forget(l)

	buf := make([]byte, bufferSize)

	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}

		if d := l.proxy.pause(); d > 0 {
			<-time.After(d)
		}

		if l.isSilent() {
			continue
		}

		if !look(buf[:n]) {
			return
		}

		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *link) isSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.silent
}
