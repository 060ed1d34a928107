package control_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/protocol"
)

// A body that is too large is refused with a reason, however it is sent: clients that send all before they read, as most do, must not
// find the connection reset instead.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	large := bytes.Repeat([]byte("x"), 5<<20)
	for _, path := range []string{"/v1/analyses", "/v1/claims/an_1", "/v1/results/an_1", "/v1/analyses/an_1/cancel"} {
		for name, body := range map[string]io.Reader{"of a known length": bytes.NewReader(large), "in chunks": io.MultiReader(bytes.NewReader(large))} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL()+path, body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			response, err := b.client.Do(r)
			if err != nil {
				t.Errorf("%s, %s: %v", path, name, err)

				continue
			}
			var p protocol.Problem
			err = json.NewDecoder(response.Body).Decode(&p)
			response.Body.Close()
			if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || p.Code != protocol.CodeRequestTooLarge {
				t.Errorf("%s, %s: %d %+v %v", path, name, response.StatusCode, p, err)
			}
		}
	}
}

// The plainest client there is: it writes everything, then reads. It is answered also where it is refused before its body is looked at.
func TestTooLargeByHand(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *control.Config) { c.APIToken, c.Listen, c.PublicURL = token, "0.0.0.0:0", "http://control.test" })
	_, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/v1/analyses": "401", "/v1/claims/an_1": "413", "/nowhere": "404"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		const size = 5 << 20
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: control.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			path, size, strings.Repeat("x", size))
		if err != nil {
			t.Errorf("%s: while it was sent: %v", path, err)
		}
		head := make([]byte, len("HTTP/1.1 413"))
		if _, err := io.ReadFull(conn, head); err != nil || !strings.HasSuffix(string(head), want) {
			t.Errorf("%s: %q %v", path, head, err)
		}
		conn.Close()
	}
}

// Node's fetch is what an orchestrator uses.
func TestTooLargeFromNode(t *testing.T) {
	t.Parallel()
	node := need.Program(t, "node")
	b := setup(t, nil)
	const script = `fetch(process.argv[1], { method: "POST", headers: { "content-type": "application/json" }, body: "x".repeat(5 << 20) })
		.then(async (r) => console.log(r.status, r.headers.get("content-type"), (await r.json()).code), (e) => console.log(String(e.cause ?? e)))`
	out, err := exec.CommandContext(t.Context(), node, "-e", script, b.URL()+"/v1/analyses").CombinedOutput()
	if want := "413 application/problem+json request_too_large\n"; err != nil || string(out) != want {
		t.Errorf("%q %v", out, err)
	}
}
