package queue

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// proxy stands between a client and Redis and does what networks do.
type proxy struct {
	t      *testing.T
	listen net.Listener
	target string

	mu    sync.Mutex
	lose  string // a request that holds this text is done, and its answer is lost with the connection
	lost  int    // how many answers were lost
	times int    // how many more are to be lost
	mute  bool   // connections are open, and nothing passes any more
	conns map[net.Conn]bool
	links []*link
	done  sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	p := &proxy{t: t, listen: l, target: target, conns: map[net.Conn]bool{}}
	p.done.Go(p.accept) // ends when the listener is closed
	t.Cleanup(p.stop)

	return p
}

func (p *proxy) url() string { return "redis://" + p.listen.Addr().String() }

// loseAnswer loses the answers of the next n requests that hold text.
func (p *proxy) loseAnswer(text string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.lose, p.times = text, n
}

func (p *proxy) lostAnswers() int {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.lost
}

// setMute makes all connections half open for ever, or heals the network for new ones.
func (p *proxy) setMute(mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.mute = mute

	for _, l := range p.links {
		l.mu.Lock()
		l.dead = l.dead || mute
		l.mu.Unlock()
	}
}

func (p *proxy) isMute() bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.mute
}

func (p *proxy) stop() {
	_ = p.listen.Close()

	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()

	p.done.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}

		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}

		l := &link{p: p, client: client, server: server, dead: p.isMute()}

		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.links = append(p.links, l)
		p.mu.Unlock()

		p.done.Go(l.up)   // end with either connection
		p.done.Go(l.down) //
	}
}

type link struct {
	p              *proxy
	client, server net.Conn
	mu             sync.Mutex
	losing         bool
	dead           bool // was mute once: stays so
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) up() {
	defer l.close()

	buf := make([]byte, 1<<20)

	for {
		n, err := l.client.Read(buf)
		if err != nil {
			return
		}

		if l.silent() {
			continue
		}

		l.p.mu.Lock()
		if l.p.times > 0 && bytes.Contains(buf[:n], []byte(l.p.lose)) {
			l.p.times--

			l.mu.Lock()
			l.losing = true
			l.mu.Unlock()
		}
		l.p.mu.Unlock()

		if _, err := l.server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *link) down() {
	defer l.close()

	buf := make([]byte, 1<<20)

	for {
		n, err := l.server.Read(buf)
		if err != nil {
			return
		}

		if l.silent() {
			continue
		}

		l.mu.Lock()
		losing := l.losing
		l.mu.Unlock()

		if losing {
			l.p.mu.Lock()
			l.p.lost++
			l.p.mu.Unlock()

			return
		}

		if _, err := l.client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *link) silent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.dead
}
