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

// traffic is when something last went over any connection of a client, either way. Times count from its start.
type traffic struct {
	start time.Time
	moved atomic.Int64
	asked atomic.Int64 // when a call last asked on a fresh connection
}

func newTraffic() *traffic {
	t := &traffic{start: time.Now()}
	t.asked.Store(-int64(patience))

	return t
}

func (t *traffic) note() { t.moved.Store(int64(time.Since(t.start))) }

// quiet is for how long nothing has.
func (t *traffic) quiet() time.Duration { return time.Since(t.start) - time.Duration(t.moved.Load()) }

// mayAsk is true for one of the calls that wait, and for the next one when the first must have its answer: what one learns holds for all,
// and a server in trouble is not to be met by a connection for each.
func (t *traffic) mayAsk() bool {
	last, now := t.asked.Load(), int64(time.Since(t.start))

	return now-last >= int64(patience) && t.asked.CompareAndSwap(last, now)
}

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
		// A server that goes on after it has held all back answers the question and the calls in one go, in any order.
		if silent && r.traffic.mayAsk() && r.line.ask(answered) && !comes(answered, patience/4) && r.traffic.quiet() >= patience {
			return true
		}

		if comes(answered, max(patience-r.traffic.quiet(), patience/2)) {
			return false
		}
	}
}

// comes tells whether the call is answered within a time.
func comes(answered <-chan struct{}, within time.Duration) bool {
	pause := time.NewTimer(within)
	defer pause.Stop()

	select {
	case <-answered:
		return true
	case <-pause.C:
		return false
	}
}

// question is a script, because a server that holds back what may write, as before it hands over to another one (CLIENT PAUSE … WRITE),
// answers a PING all the same: the calls that wait there are not lost, and those that may not be repeated would be.
const question = "return 1"

// ask tells whether a fresh connection is answered at once.
func (l *line) ask(answered <-chan struct{}) bool {
	fresh := l.probe()
	ctx, cancel := context.WithTimeout(context.Background(), patience)

	defer cancel()

	got := make(chan error, 1)

	go func() { got <- fresh.Eval(ctx, question, nil).Err() }() // ends when it is answered, or closed below

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
