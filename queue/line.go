package queue

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// line is a client that replaces itself when the network or the server has let it down: the next call starts on a fresh connection,
// whatever state the old ones were in – half open, to a server that is no longer the master, in the middle of an answer. Without it
// each of a pool's half-open connections would cost one timeout.
//
// A line of one actor has one connection; closing it interrupts a call that blocks, which cancelling the call's context does not.
type line struct {
	open  func() redis.UniversalClient
	probe func() redis.UniversalClient // as open, for a look whether the server answers on a fresh connection; nil: calls are not watched
	grace time.Duration                // how long calls on a replaced client may go on; 0: not at all

	mu      sync.Mutex
	client  redis.UniversalClient // nil: opened by the next get
	retired map[redis.UniversalClient]*time.Timer
	closed  bool
}

// newLine is a line with a single connection.
func newLine(base redis.UniversalOptions, p profile) *line {
	p.pool = 1

	return &line{open: func() redis.UniversalClient { return newClient(base, p) }, probe: prober(base)}
}

// dialedPool is the bound of a hub's connections where a Dialer makes them. It is never reached: a call that waits for a connection does
// so with a timer that the driver shares between all of its clients, and testing/synctest allows no timer in two bubbles.
const dialedPool = 10_000

// newHub is a line with a pool that many goroutines share.
func newHub(base redis.UniversalOptions) *line {
	p := profile{timeout: commandTimeout}
	if base.Dialer != nil {
		p.pool = dialedPool
	}

	return &line{open: func() redis.UniversalClient { return newClient(base, p) }, grace: 2 * commandTimeout, probe: prober(base)}
}

// get is the client of the moment; after close it refuses all calls with redis.ErrClosed.
func (l *line) get() redis.UniversalClient {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.client == nil {
		l.client = l.open()
		l.client.AddHook(&replacer{line: l, client: l.client, traffic: newTraffic()})

		if l.closed {
			_ = l.client.Close() // it has no connection yet
		}
	}

	return l.client
}

// replace drops a client that has let a call down, unless another call has done it already.
func (l *line) replace(c redis.UniversalClient) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.client != c || l.closed {
		return
	}

	l.client = nil

	if l.grace == 0 {
		_ = c.Close() // nothing can be done about it
		return
	}

	if l.retired == nil {
		l.retired = make(map[redis.UniversalClient]*time.Timer)
	}

	l.retired[c] = time.AfterFunc(l.grace, func() { l.retire(c) })
}

// renew replaces the client of the moment because another line's trouble makes it suspect.
func (l *line) renew() {
	l.mu.Lock()
	c := l.client
	l.mu.Unlock()

	if c != nil {
		l.replace(c)
	}
}

func (l *line) retire(c redis.UniversalClient) {
	l.mu.Lock()
	defer l.mu.Unlock()

	delete(l.retired, c)

	_ = c.Close() // nothing can be done about it
}

func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.closed {
		return
	}

	l.closed = true

	if l.client != nil {
		_ = l.client.Close() // nothing can be done about it
	}

	for c, timer := range l.retired {
		timer.Stop()

		_ = c.Close()
	}
}

// replacer watches the calls of one client.
type replacer struct {
	line    *line
	client  redis.UniversalClient
	traffic *traffic
}

// DialHook implements redis.Hook.
func (r *replacer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil || r.line.probe == nil {
			return conn, err
		}

		return r.traffic.of(conn), nil
	}
}

// ProcessHook implements redis.Hook.
func (r *replacer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := r.watched(blocks(cmd), func() error { return next(ctx, cmd) })
		if letDown(err) {
			r.line.replace(r.client)
		}

		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (r *replacer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := r.watched(slices.ContainsFunc(cmds, blocks), func() error { return next(ctx, cmds) })
		if letDown(err) {
			r.line.replace(r.client)
		}

		return err
	}
}

// letDown reports whether the error speaks against the client's connections: not a sound answer of a sound server, not a refused dial,
// not the caller's own change of mind.
func letDown(err error) bool {
	switch {
	case err == nil, neverSent(err), errors.Is(err, context.Canceled), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrClosed):
		return false
	case isReply(err):
		// Servers before 7 wrap the code when a script meets it.
		return redis.HasErrorPrefix(err, "READONLY") || strings.Contains(err.Error(), "-READONLY")
	}

	return true
}
