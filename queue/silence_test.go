package queue

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/posefleet/posefleet/internal/wait"
)

// trickle passes connections on to a server; what the server answers comes in small pieces.
type trickle struct {
	net.Listener
	piece  int
	pause  time.Duration
	passed atomic.Int64 // bytes of answers
}

func startTrickle(t *testing.T, target string, piece int, pause time.Duration) *trickle {
	t.Helper()

	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	tr := &trickle{Listener: l, piece: piece, pause: pause}
	t.Cleanup(func() { _ = l.Close() })

	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}

			go tr.pass(c, target) // ends with the connection
		}
	}()

	return tr
}

func (tr *trickle) pass(client net.Conn, target string) {
	defer client.Close()

	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()

	go func() { // ends with the connection
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()

	for buf := make([]byte, tr.piece); ; {
		n, err := server.Read(buf)
		tr.passed.Add(int64(n))

		if n == tr.piece {
			<-time.After(tr.pause) // the line's own slowness
		}

		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// An answer that takes long because there is much of it is waited for: its connection carries something all the time.
func TestLongAnswerIsNoSilence(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	data := json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 300_000)) + `"`)
	id := k.add(k.queue("q"), "n", data, JobOptions{})

	line := startTrickle(t, k.srv.Addr, 20_000, 200*time.Millisecond)
	slow, err := NewQueue(Options{RedisURL: "redis://" + line.Addr().String(), Name: "q"})
	k.must(err)

	defer slow.Close()

	began := time.Now()
	j, err := slow.Job(t.Context(), id)
	k.must(err)

	if took := time.Since(began); len(j.Data) != len(data) || took < 2*patience {
		t.Errorf("%d bytes after %v", len(j.Data), took)
	}

	// A call that is cut off and made again is answered twice, at least in part. The question whether the server is there, which a machine
	// that stands still for a second makes a client ask, has a short answer.
	if n := line.passed.Load(); n > int64(len(data)+line.piece) {
		t.Errorf("%d bytes of answers for one call", n)
	}
}

// A line that falls silent costs a call about the patience, not its whole timeout, once the network is well for others.
func TestSilenceIsNoticed(t *testing.T) {
	t.Parallel()

	k, p := throughProxy(t)
	q := k.queue("q")
	k.must(q.Ping(t.Context()))
	p.setMute(true)

	failed := make(chan time.Duration, 1)
	began := time.Now()

	go func() { // ends with the call
		_, err := q.Counts(t.Context())
		if err == nil {
			t.Error("a silent line has answered")
		}

		failed <- time.Since(began)
	}()

	wait.For(t, testTimeout, func() bool { return time.Since(began) > patience/2 })
	p.setMute(false)

	if took := <-failed; took < patience || took >= commandTimeout {
		t.Errorf("noticed after %v", took)
	}
}

// A server that holds back what may write, before it hands over to another one, answers everything else: a call that waits there is not cut
// off, since one that adds a job without an id could not be repeated.
func TestHeldBackWritesAreNoSilence(t *testing.T) {
	t.Parallel()

	const held = 3 * patience

	k := newKit(t)
	q := k.queue("q")
	k.add(q, "n", nil, JobOptions{})

	began := time.Now()
	k.must(k.r.Do(t.Context(), "CLIENT", "PAUSE", held.Milliseconds(), "WRITE").Err())

	_, err := q.Add(t.Context(), "n", nil, JobOptions{})

	if took := time.Since(began); err != nil || took < patience {
		t.Errorf("%v after %v", err, took)
	}
}

// Many calls that wait together ask whether the server is there on one connection, not on one each.
func TestSilenceIsAskedAboutOnce(t *testing.T) {
	t.Parallel()

	k := newKit(t)
	q := k.queue("q")
	k.must(q.Ping(t.Context()))

	var asked atomic.Int64

	probe := q.client.probe
	q.client.probe = func() redis.UniversalClient {
		asked.Add(1)
		return probe()
	}

	k.must(k.r.Do(t.Context(), "CLIENT", "PAUSE", (5 * patience).Milliseconds(), "ALL").Err())

	began := time.Now()

	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() { _, _ = q.Counts(t.Context()) })
	}

	calls.Wait()

	if n, most := asked.Load(), int64(time.Since(began)/patience)+3; n == 0 || n > most {
		t.Errorf("asked %d times in %v, at most %d", n, time.Since(began), most)
	}
}
