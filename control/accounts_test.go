package control_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// account is the answer of GET /v1/accounts/{account}.
type account struct {
	Account                     string
	Credits                     *int64
	Reserved, Settled, Refunded int64
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	free := decode[account](t, b.api(t, http.MethodGet, "/v1/accounts/team", nil).want(t, http.StatusOK, ""))
	if free.Credits != nil {
		t.Errorf("an account that nobody granted anything is limited: %+v", free)
	}
	order := map[string]any{"key": "order-1", "credits": 1}
	b.api(t, http.MethodPost, "/v1/accounts/team/grants", order).want(t, http.StatusCreated, "")
	b.api(t, http.MethodPost, "/v1/accounts/team/grants", order).want(t, http.StatusOK, "")
	b.api(t, http.MethodPost, "/v1/accounts/team/grants", map[string]any{"key": "order-1", "credits": 2}).
		want(t, http.StatusConflict, protocol.CodeConflict)
	for _, bad := range []map[string]any{{"credits": 1}, {"key": "x"}, {"key": "x", "credits": -1}, {"key": "a/b", "credits": 1}, {"key": "x", "credits": 1 << 40}} {
		b.api(t, http.MethodPost, "/v1/accounts/team/grants", bad).want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)
	}
	b.api(t, http.MethodPost, "/v1/accounts/a%2Fb/grants", order).want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)

	first, second := newAnalysis("an_1"), newAnalysis("an_2")
	first["account"], second["account"] = "team", "team"
	b.api(t, http.MethodPost, "/v1/analyses", first).want(t, http.StatusCreated, "")
	b.api(t, http.MethodPost, "/v1/analyses", first).want(t, http.StatusOK, "") // a lost answer costs nothing
	b.api(t, http.MethodPost, "/v1/analyses", second).want(t, http.StatusPaymentRequired, protocol.CodeNoCredit)
	b.api(t, http.MethodPost, "/v1/analyses/an_1/cancel", nil).want(t, http.StatusAccepted, "")
	b.api(t, http.MethodPost, "/v1/analyses", second).want(t, http.StatusCreated, "")
	zero := int64(0)
	got := decode[account](t, b.api(t, http.MethodGet, "/v1/accounts/team", nil).want(t, http.StatusOK, ""))
	if d := cmp.Diff(account{Account: "team", Credits: &zero, Reserved: 1, Refunded: 1}, got); d != "" {
		t.Error(d)
	}
}

// TestEffectsAreShown: an analysis tells what it cost and caused.
func TestEffectsAreShown(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.delivered(t, "an_1")
	type effects struct {
		Credits []struct{ Account, State string }
		Ledger  []struct{ Effect, Outcome string }
	}
	var v effects
	wait.For(t, patience, func() bool { // the notice is the run's last step
		v = decode[effects](t, b.api(t, http.MethodGet, "/v1/analyses/an_1", nil).want(t, http.StatusOK, ""))

		return len(v.Ledger) == 3
	}, "the ledger is not complete")
	if len(v.Credits) != 1 || v.Credits[0].Account != "default" || v.Credits[0].State != "settled" {
		t.Errorf("credits %+v", v.Credits)
	}
	var got []string
	for _, e := range v.Ledger {
		got = append(got, e.Effect+" "+e.Outcome)
	}
	if d := cmp.Diff([]string{"credit.reserve default", "credit.settle settled", "notice delivered"}, got); d != "" {
		t.Error(d)
	}
}

// receiver is a customer's server that refuses the first notices.
type receiver struct {
	mu       sync.Mutex
	refusals int
	verifier *webhook.Verifier
	// clock is one that the test moves by minutes, maybe while a notice is on its way: what is signed must be of a time that there was.
	clock  func() time.Time
	begun  time.Time
	ids    []string
	bodies []string
	faults []error
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	signed, terr := strconv.ParseInt(q.Header.Get(webhook.HeaderTimestamp), 10, 64)
	if at := time.Unix(signed, 0); r.clock != nil && !at.Before(r.begun) && !at.After(r.clock()) {
		r.verifier.Now = func() time.Time { return at }
	}
	id, verr := r.verifier.Verify(q.Header, body)
	for _, e := range []error{err, terr, verr} {
		if e != nil {
			r.faults = append(r.faults, e)
		}
	}
	r.ids, r.bodies = append(r.ids, id), append(r.bodies, string(body))
	if r.refusals > 0 {
		r.refusals--
		w.WriteHeader(http.StatusBadGateway)
	}
}

func (r *receiver) seen() int {
	r.mu.Lock()
	defer r.mu.Unlock()

	return len(r.ids)
}

// got tells whether a notice has come.
func (r *receiver) got(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Contains(r.ids, id)
}

// TestNotices: a notice is signed, has the same id and bytes on every try, and ends when it was taken. Its address is in no log.
func TestNotices(t *testing.T) {
	t.Parallel()
	secrets, err := webhook.ParseSecrets(webhook.Generate())
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{refusals: 2, verifier: webhook.NewVerifier(secrets)}
	server := httptest.NewServer(r)
	defer server.Close()
	b := setup(t, func(c *control.Config) {
		c.NoticeURL, c.NoticeSecrets = server.URL+"/hook?password=canary", secrets
		r.clock, r.begun = c.Now, c.Now()
	})
	b.delivered(t, "an_1")
	wait.For(t, time.Minute, func() bool {
		b.clock.advance(time.Second)

		return r.seen() >= 3
	}, "the notice was not tried until it was taken")
	b.stop()
	server.Close()
	if len(r.faults) > 0 {
		t.Errorf("faults: %v", r.faults)
	}
	for i, id := range r.ids {
		if id != "ntc_an_1_0" || r.bodies[i] != r.bodies[0] {
			t.Errorf("try %d: %s %s", i, id, r.bodies[i])
		}
	}
	var got struct {
		Type string
		Data map[string]any
	}
	if err := json.Unmarshal([]byte(r.bodies[0]), &got); err != nil || got.Type != "analysis.delivered" ||
		!cmp.Equal(got.Data, map[string]any{"analysisId": "an_1", "round": 0.0, "status": "delivered"}) {
		t.Errorf("%v %s", err, r.bodies[0])
	}
	if logs := b.logs.String(); strings.Contains(logs, "canary") || !strings.Contains(logs, "answered 502") {
		t.Errorf("log:\n%s", logs)
	}
}

// TestAbandonedUpload: a submission that never comes costs nothing in the end.
func TestAbandonedUpload(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.api(t, http.MethodPost, "/v1/accounts/team/grants", map[string]any{"key": "order-1", "credits": 1}).want(t, http.StatusCreated, "")
	a := newAnalysis("an_1")
	a["account"] = "team"
	b.api(t, http.MethodPost, "/v1/analyses", a).want(t, http.StatusCreated, "")
	b.stop()
	b.clock.advance(25 * time.Hour)
	b.start(t) // the keeper looks at once
	wait.For(t, time.Minute, func() bool { return b.status(t, "an_1") == "cancelled" }, "not given up")
	got := decode[account](t, b.api(t, http.MethodGet, "/v1/accounts/team", nil).want(t, http.StatusOK, ""))
	if got.Credits == nil || *got.Credits != 1 || got.Refunded != 1 {
		t.Errorf("%+v", got)
	}
}
