package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/node"
	"github.com/posefleet/posefleet/protocol/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both directions against the npm package that Node services use.
func TestNode(t *testing.T) {
	t.Parallel()
	need.Node(t)
	at := time.Now()
	ours := webhook.NewSigner(secrets(t, newKey+","+oldKey)).Header("res_an_1_7", at, body)
	foreign := webhook.NewSigner(secrets(t, newKey)).Header("res_an_1_7", at, body)
	stale := webhook.NewSigner(secrets(t, oldKey)).Header("res_an_1_7", at.Add(-time.Hour), body)
	answer := askNode(t, map[string]any{
		"secret": oldKey,
		"verify": []any{wire(ours, body), wire(foreign, body), wire(stale, body), wire(ours, []byte(`{}`))},
		"sign":   []any{map[string]any{"id": "msg_2", "at": at.Unix(), "body": string(body)}},
	})
	if want := []bool{true, false, false, false}; !equal(answer.Verified, want) {
		t.Errorf("Node verifies %v, want %v", answer.Verified, want)
	}
	theirs := http.Header{}
	theirs.Set(webhook.HeaderID, "msg_2")
	theirs.Set(webhook.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	theirs.Set(webhook.HeaderSignature, answer.Signatures[0])
	v := webhook.NewVerifier(secrets(t, newKey+","+oldKey))
	if id, err := v.Verify(theirs, body); err != nil || id != "msg_2" {
		t.Errorf("Node's signature: %q, %v", id, err)
	}
}

type nodeAnswer struct {
	Verified   []bool   `json:"verified"`
	Signatures []string `json:"signatures"`
}

func wire(h http.Header, body []byte) map[string]any {
	headers := map[string]string{}
	for _, name := range []string{webhook.HeaderID, webhook.HeaderTimestamp, webhook.HeaderSignature} {
		headers[name] = h.Get(name)
	}
	return map[string]any{"headers": headers, "body": string(body)}
}

func equal(a, b []bool) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

func askNode(t *testing.T, question any) nodeAnswer {
	t.Helper()
	input, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := node.Command(t.Context(), "testdata/peer.cjs")
	if err != nil {
		t.Fatal(err)
	}
	var faults bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &faults
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, faults.String())
	}
	var answer nodeAnswer
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}
