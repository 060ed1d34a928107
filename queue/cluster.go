package queue

import (
	"context"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// newClusterClient is a client of a Redis Cluster that follows moved slots, but repeats nothing that may have been done: the driver's
// MaxRetries counts for single servers only, and its cluster client sends a command again whose answer was lost.
func newClusterClient(base redis.UniversalOptions) *redis.ClusterClient {
	dial := base.Dialer
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{DialTimeout: base.DialTimeout, TLSConfig: base.TLSConfig})
	}

	base.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, asDial(err) // never sent: may be tried at another node
		}

		return finalErrors(conn), nil
	}

	client := redis.NewClusterClient(base.Cluster())
	client.AddHook(&scout{client: client})

	return client
}

// scriptKeys are the keys that a script is sent with. It gets the queue's base, which is no key, and makes all others from it. On a cluster
// it names one of them as well: while the queue's slot goes to another node, key by key, Redis refuses a script (TRYAGAIN) one of whose
// keys is not there, and would run one that names a single key at the new node, where it saw a part of the queue only.
func scriptKeys(c redis.UniversalClient, k keys) []string {
	if _, ok := c.(*redis.ClusterClient); ok {
		return []string{k.base, k.of(keyMeta)}
	}

	return []string{k.base}
}

// finalErrors makes all errors of a connection such that the driver can't see from them that a repetition might help.
func finalErrors(conn net.Conn) net.Conn {
	if raw, ok := conn.(socket); ok {
		return &struct {
			finalConn
			socket
		}{finalConn{conn}, raw}
	}

	return &finalConn{conn}
}

// socket is at which the driver looks to see whether an idle connection is still there; one over TLS has none.
type socket interface{ syscall.Conn }

type finalConn struct{ net.Conn }

// Read implements io.Reader.
func (c *finalConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)

	return n, asFinal(err)
}

// Write implements io.Writer.
func (c *finalConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)

	return n, asFinal(err)
}

// finalError says what another error says, and is none of its kind.
type finalError struct{ text string }

// Error implements error.
func (e *finalError) Error() string { return e.text }

func asFinal(err error) error {
	if err == nil {
		return nil
	}

	return &finalError{text: err.Error()}
}

// scout asks the cluster who has the slots when a node is not there any more; by itself the driver does so every 10 s.
type scout struct{ client *redis.ClusterClient }

func (s *scout) look(ctx context.Context, err error) error {
	if err != nil && neverSent(err) {
		s.client.ReloadState(ctx)
	}

	return err
}

// DialHook implements redis.Hook.
func (*scout) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (s *scout) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return s.look(ctx, next(ctx, cmd)) }
}

// ProcessPipelineHook implements redis.Hook.
func (s *scout) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return s.look(ctx, next(ctx, cmds)) }
}
