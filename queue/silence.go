package queue

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is how long the connections of a client may carry nothing while a call goes unanswered, until a fresh connection is asked
// whether the server is there at all, and how long that one has for its answer.
const patience = time.Second

// traffic is when something last went over any connection of a client, either way.
type traffic struct{ moved atomic.Int64 }

func (t *traffic) note() { t.moved.Store(time.Now().UnixNano()) }

// quiet is for how long nothing has.
func (t *traffic) quiet() time.Duration { return time.Since(time.Unix(0, t.moved.Load())) }

// of is the connection, watched. The driver looks at a socket whether it was closed meanwhile: it must go on to see one.
func (t *traffic) of(c net.Conn) net.Conn {
	w := &watchedConn{Conn: c, traffic: t}
	if s, ok := c.(syscall.Conn); ok {
		return &watchedSocket{watchedConn: w, Conn: s}
	}

	return w
}

type watchedConn struct {
	net.Conn
	traffic *traffic
}

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.traffic.note()
	}

	return n, err
}

// Write implements net.Conn.
func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.traffic.note()
	}

	return n, err
}

type watchedSocket struct {
	*watchedConn
	syscall.Conn
}

// prober opens clients of one connection for one question. A cluster has none: which of its nodes is silent is not to be seen this way.
func prober(base redis.UniversalOptions) func() redis.UniversalClient {
	if base.IsClusterMode {
		return nil
	}

	return func() redis.UniversalClient { return newClient(base, profile{pool: 1, timeout: patience}) }
}

// blocks tells a command whose answer takes its time.
func blocks(cmd redis.Cmder) bool {
	return slices.Contains([]string{"bzpopmin", "xread", "wait"}, strings.ToLower(cmd.Name()))
}

// watched makes a call. While it goes unanswered and nothing moves on any connection of the client, fresh connections are asked from time
// to time: once one of them is answered at once, those of the client are dead, however open they look, and are closed. So a line that fell
// silent costs a second and not a timeout, while a network or a server that is slow for everybody, or with much to carry, costs no
// connection.
func (r *replacer) watched(blocking bool, call func() error) error {
	if r.line.probe == nil || blocking {
		return call()
	}

	answered, ended := make(chan struct{}), make(chan struct{})

	timer := time.AfterFunc(patience, func() { // ends soon after the call
		defer close(ended)

		if r.answersElsewhere(answered) {
			r.line.cut(r.client)
		}
	})

	err := call()

	close(answered)

	if !timer.Stop() {
		<-ended
	}

	return err
}

// answersElsewhere waits until the client is silent and asks on fresh connections until one is answered, which is true, or the call is.
func (r *replacer) answersElsewhere(answered <-chan struct{}) bool {
	for {
		silent := r.traffic.quiet() >= patience
		if silent && r.line.ping(answered) && r.traffic.quiet() >= patience {
			return true
		}

		pause := time.NewTimer(max(patience-r.traffic.quiet(), patience/2))

		select {
		case <-answered:
			pause.Stop()
			return false
		case <-pause.C:
		}
	}
}

func (l *line) ping(answered <-chan struct{}) bool {
	fresh := l.probe()
	ctx, cancel := context.WithTimeout(context.Background(), patience)

	defer cancel()

	got := make(chan error, 1)

	go func() { got <- fresh.Ping(ctx).Err() }() // ends when it is answered, or closed below

	select {
	case err := <-got:
		_ = fresh.Close()
		return err == nil || isReply(err)
	case <-answered:
		cancel()

		_ = fresh.Close()

		<-got //nolint:errcheck // cut off

		return false
	}
}

// cut drops a client that is silent, with all that waits for its answers.
func (l *line) cut(c redis.UniversalClient) {
	l.replace(c)

	_ = c.Close() // nothing can be done about it
}
