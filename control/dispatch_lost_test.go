package control_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/internal/nettest"
)

// cable is a client's line to the control plane, which the test cuts when an answer is on its way.
type cable struct {
	*nettest.Proxy
	client *http.Client
}

// post sends a request and tells whether there was an answer.
func (c *cable) post(t *testing.T, path string, body any) bool {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.Addr()+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.client.Do(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()

	return true
}

// loses cuts the line in the answer to the request, after the control plane has committed, and checks that it was cut.
func (c *cable) loses(t *testing.T, path string, body any) {
	t.Helper()
	before := c.Lost()
	c.LoseAnswers(1, func(request []byte) bool { return bytes.HasPrefix(request, []byte("POST "+path+" HTTP")) })
	if c.post(t, path, body) || c.Lost() != before+1 {
		t.Fatalf("the answer to %s arrived", path)
	}
}

// TestLostAnswersOfASubmission: the answers to a creation and to a confirmation are lost after the commit. The client finds out by reading the
// row, or by sending the same again; there is one credit, one confirmation and one run, whichever it does.
func TestLostAnswersOfASubmission(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	line := &cable{Proxy: nettest.Start(t, b.Addr()), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	// One credit more than is needed: a second reservation would find it.
	b.api(t, http.MethodPost, "/v1/accounts/team/grants", map[string]any{"key": "order-1", "credits": 2}).want(t, http.StatusCreated, "")
	paid := func(when string, reserved, settled int64) {
		t.Helper()
		one := int64(1)
		got := decode[account](t, b.api(t, http.MethodGet, "/v1/accounts/team", nil).want(t, http.StatusOK, ""))
		if d := cmp.Diff(account{Account: "team", Credits: &one, Reserved: reserved, Settled: settled}, got); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}

	order := newAnalysis("an_1")
	order["account"] = "team"
	line.loses(t, "/v1/analyses", order)
	if s := b.status(t, "an_1"); s != "uploading" {
		t.Fatalf("after a creation without an answer it is %s", s)
	}
	paid("created, no answer", 1, 0)
	c := decode[created](t, b.api(t, http.MethodPost, "/v1/analyses", order).want(t, http.StatusOK, ""))
	paid("created again", 1, 0)
	b.put(t, c.Uploads[0].URL, c.Uploads[0].Headers, clipBytes)

	confirm := map[string]string{"dispatch": "none"}
	line.loses(t, "/v1/analyses/an_1/submit", confirm)
	if s := b.status(t, "an_1"); s != "queued" {
		t.Fatalf("after a confirmation without an answer it is %s", s)
	}
	paid("confirmed, no answer", 1, 0)
	line.loses(t, "/v1/analyses/an_1/submit", confirm)
	if !line.post(t, "/v1/analyses/an_1/submit", confirm) {
		t.Error("no answer, although nothing is cut")
	}
	paid("confirmed three times", 1, 0)

	claim := b.redeem(t, redeemRequest("an_1", "w1", 1))
	b.report(t, claim, completed(claim, b.artifact(t, claim, poseBytes(t, poseDoc)))).want(t, http.StatusOK, "")
	paid("delivered", 0, 1)
	type record struct {
		Credits  []struct{ State string }
		Timeline []struct{ Kind string }
		Runs     []struct{ Round int64 }
	}
	got := decode[record](t, b.api(t, http.MethodGet, "/v1/analyses/an_1", nil).want(t, http.StatusOK, ""))
	kinds := map[string]int{}
	for _, e := range got.Timeline {
		kinds[e.Kind]++
	}
	if len(got.Credits) != 1 || len(got.Runs) != 1 || kinds["created"] != 1 || kinds["submitted"] != 1 {
		t.Errorf("%+v", got)
	}
}
