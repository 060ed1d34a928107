package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// knock is an orchestrator at a worker's HTTP door.
type knock struct {
	base   string
	signer *webhook.Signer
	client *http.Client
}

// answer is what the door said.
type answer struct {
	status  int
	header  http.Header
	problem protocol.Problem
	body    []byte
	at      time.Time
}

// door is an orchestrator that holds the right secret.
func (s *system) door(w *worker) *knock { return newKnock(s.t, w.door, s.doorSecret) }

func newKnock(t testing.TB, base, secret string) *knock {
	t.Helper()

	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		t.Fatal(err)
	}

	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)

	return &knock{base: base, signer: webhook.NewSigner(secrets), client: &http.Client{Timeout: 20 * time.Second, Transport: transport}}
}

// start asks for an analysis.
func (k *knock) start(ctx context.Context, id string) (answer, error) {
	body, err := json.Marshal(protocol.DoorRequest{V: 1, AnalysisID: id})
	if err != nil {
		return answer{}, err
	}

	return k.send(ctx, http.MethodPost, "/v1/jobs", body)
}

// state asks how an analysis is getting on.
func (k *knock) state(ctx context.Context, id string) (protocol.DoorState, error) {
	a, err := k.send(ctx, http.MethodGet, "/v1/jobs/"+id, nil)
	if err != nil {
		return protocol.DoorState{}, err
	}

	if a.status != http.StatusOK {
		return protocol.DoorState{}, errors.New(http.StatusText(a.status))
	}

	var state protocol.DoorState

	return state, json.Unmarshal(a.body, &state)
}

func (k *knock) send(ctx context.Context, method, path string, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, k.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}

	request.Header = k.signer.Header(webhook.NewID("msg"), time.Now(), body)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}

	response, err := k.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	a := answer{status: response.StatusCode, header: response.Header, body: text, at: time.Now()}
	_ = json.Unmarshal(text, &a.problem) // only a refusal is a problem document

	return a, err
}
