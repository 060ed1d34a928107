package nettest_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/internal/nettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every piece with itself.
func echo(t *testing.T) string {
	t.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = l.Close() })

	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}

			go func() { // ends with the connection
				defer c.Close()

				_, _ = io.Copy(c, c)
			}()
		}
	}()

	return l.Addr().String()
}

func dial(t *testing.T, p *nettest.Proxy) net.Conn {
	t.Helper()

	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = c.Close() })

	return c
}

// ask sends text and returns what comes back within the time.
func ask(c net.Conn, text string, within time.Duration) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}

	_ = c.SetReadDeadline(time.Now().Add(within))
	buf := make([]byte, 100)
	n, err := c.Read(buf)

	return string(buf[:n]), err
}

func TestProxy(t *testing.T) {
	t.Parallel()

	const long, short = 10 * time.Second, 50 * time.Millisecond

	p := nettest.Start(t, echo(t))
	c := dial(t, p)

	if got, err := ask(c, "hello", long); got != "hello" {
		t.Fatalf("%q, %v", got, err)
	}

	p.Mute()

	if got, err := ask(c, "anybody?", short); err == nil {
		t.Fatalf("a mute proxy says %q", got)
	}

	p.Heal()

	if got, err := ask(c, "and now?", short); err == nil {
		t.Fatalf("what fell silent speaks again: %q", got)
	}

	c = dial(t, p)
	p.LoseAnswers(1, func(request []byte) bool { return bytes.Contains(request, []byte("secret")) })

	if got, err := ask(c, "open", long); got != "open" {
		t.Fatalf("%q, %v", got, err)
	}

	if got, err := ask(c, "secret", long); err == nil || p.Lost() != 1 {
		t.Fatalf("the answer was not lost: %q, %d lost", got, p.Lost())
	}

	p.Cut()

	if got, err := ask(dial(t, p), "hello", long); err == nil {
		t.Fatalf("a cut line says %q", got)
	}

	p.Heal()
	p.Delay(short)

	start := time.Now()
	if got, err := ask(dial(t, p), "hello", long); got != "hello" || time.Since(start) < 2*short {
		t.Fatalf("%q, %v after %v", got, err, time.Since(start))
	}
}
