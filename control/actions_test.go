package control_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// record is what the operator API tells of an analysis that people acted on.
type record struct {
	Status     string
	Round      int
	Timeline   []struct{ Kind, Actor, Detail string }
	Ledger     []struct{ Effect, Instance, Outcome string }
	Executions []struct {
		Epoch              int
		End, Detail        string
		Holder             struct{ WorkerID, Source string }
		StartedAt, EndedAt time.Time
	}
}

func (b *bundle) record(t *testing.T, id string) record {
	t.Helper()

	return decode[record](t, b.api(t, http.MethodGet, "/v1/analyses/"+id, nil).want(t, http.StatusOK, ""))
}

// by lists who did what.
func (r record) by() []string {
	var out []string
	for _, e := range r.Timeline {
		if e.Actor != "" {
			out = append(out, e.Kind+" by "+e.Actor+": "+e.Detail)
		}
	}

	return out
}

// failed takes an analysis to its failure.
func (b *bundle) failed(t *testing.T, id string) {
	t.Helper()
	b.queued(t, id)
	c := b.redeem(t, redeemRequest(id, "w1", 1))
	b.report(t, c, failed(c)).want(t, http.StatusOK, "")
}

// What a person does happens once, however often it is sent, and says who did it.
func TestActions(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.failed(t, "an_1")
	act := func(path, body, key string) reply {
		h := http.Header{"Content-Type": {"application/json"}, "Posefleet-Actor": {" Ada L."}}
		if key != "" {
			h.Set("Idempotency-Key", key)
		}

		return b.do(t, http.MethodPost, "/v1/analyses/"+path, h, []byte(body))
	}
	for i, replayed := range []string{"", "true"} {
		r := act("an_1/retry", `{"round":0,"reason":"the bucket was away"}`, "k1").want(t, http.StatusAccepted, "")
		if got := decode[record](t, r); got.Status != "queued" || got.Round != 1 || r.header.Get("Idempotent-Replayed") != replayed {
			t.Fatalf("%d: %s %q", i, r.body, r.header.Get("Idempotent-Replayed"))
		}
	}
	act("an_1/cancel", `{}`, "k1").want(t, http.StatusConflict, protocol.CodeConflict)
	act("an_1/cancel", `{"round":0}`, "").want(t, http.StatusConflict, protocol.CodeConflict) // that one is over
	act("an_1/cancel", `{"reason":"not needed"}`, "k2").want(t, http.StatusAccepted, "")
	act("an_1/retry", `{}`, "k3").want(t, http.StatusConflict, protocol.CodeConflict)
	act("an_1/redeliver", `{}`, "").want(t, http.StatusConflict, protocol.CodeConflict) // there is nowhere to send it
	act("nobody/retry", "", "").want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)
	act("an_1/retry", `{"round":-1}`, "").want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)
	act("an_1/retry", `{"reason":"`+strings.Repeat("x", 501)+`"}`, "").want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)
	act("an_1/retry", `{"reason":"a\u0000"}`, "").want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)
	act("an_1/retry", `{}`, "no spaces").want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)
	got := b.record(t, "an_1")
	if d := cmp.Diff([]string{"retried by Ada L. (loopback): the bucket was away", "cancelled by Ada L. (loopback): not needed"}, got.by()); d != "" {
		t.Error(d)
	}
	var ledger []string
	for _, e := range got.Ledger {
		if strings.HasPrefix(e.Effect, "action.") {
			ledger = append(ledger, e.Effect+" "+e.Instance+" "+e.Outcome)
		}
	}
	want := []string{"action.cancel 1 Ada L. (loopback)", "action.request k1 Ada L. (loopback)", "action.request k2 Ada L. (loopback)", "action.retry 0 Ada L. (loopback)"}
	if d := cmp.Diff(want, ledger); d != "" {
		t.Error(d)
	}
	if x := got.Executions; len(x) != 1 || x[0].End != "failed" || x[0].Holder.WorkerID != "w1" || x[0].EndedAt.Before(x[0].StartedAt) {
		t.Errorf("%+v", x)
	}
}

// A notice that is asked for again has the id and the bytes of the first, days later too.
func TestRedeliver(t *testing.T) {
	t.Parallel()
	secrets, err := webhook.ParseSecrets(webhook.Generate())
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{verifier: webhook.NewVerifier(secrets)}
	server := httptest.NewServer(r)
	defer server.Close()
	b := setup(t, func(c *control.Config) {
		c.NoticeURL, c.NoticeSecrets = server.URL, secrets
		r.verifier.Now = c.Now
	})
	b.delivered(t, "an_1")
	wait.For(t, time.Minute, func() bool { return r.seen() == 1 }, "no notice")
	b.clock.advance(5 * 24 * time.Hour) // longer than a notice is tried by itself
	// The first one's end may not have been noted yet: then it is hurried, and nothing new is sent.
	wait.For(t, time.Minute, func() bool {
		answer := b.api(t, http.MethodPost, "/v1/analyses/an_1/redeliver", nil).want(t, http.StatusAccepted, "")

		return answer.header.Get("Idempotent-Replayed") == ""
	}, "it is never sent again")
	wait.For(t, time.Minute, func() bool { return r.seen() == 2 }, "the notice did not come again")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[1] != r.ids[0] || r.bodies[1] != r.bodies[0] || len(r.faults) > 0 {
		t.Errorf("%q %q %v", r.ids, r.bodies, r.faults)
	}
}

// A retry reaches the queue: the job that failed waits again, once.
func TestRetryRunsAgain(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	b := setup(t, func(c *control.Config) { c.RedisURL = redis.URL })
	q := b.openQueue(t)
	b.submitted(t, "an_1")
	wantJob(t, q, "an_1")
	c := b.redeem(t, redeemRequest("an_1", "w1", 1))
	b.report(t, c, failed(c)).want(t, http.StatusOK, "")
	b.failJob(t, q, "an_1")
	for range 2 {
		b.api(t, http.MethodPost, "/v1/analyses/an_1/retry", nil).want(t, http.StatusAccepted, "")
	}
	wait.For(t, patience, func() bool {
		s, err := q.State(t.Context(), "an_1")

		return err == nil && s == queue.StateWaiting
	}, "the failed job does not wait again")
	b.redeem(t, redeemRequest("an_1", "w2", 2))
	if got := b.record(t, "an_1"); got.Round != 1 || got.Status != "processing" || len(got.Executions) != 2 || got.Executions[1].End != "running" {
		t.Errorf("%+v", got)
	}
}

// Who may do what with which token.
func TestRoles(t *testing.T) {
	t.Parallel()
	const reading = "a token for those who look"
	b := setup(t, func(c *control.Config) { c.Listen, c.APIToken, c.ReadToken = "0.0.0.0:0", token, reading })
	_, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	base := "http://127.0.0.1:" + port
	call := func(method, path, bearer string) int {
		h := http.Header{"Content-Type": {"application/json"}}
		if bearer != "" {
			h.Set("Authorization", "Bearer "+bearer)
		}
		body := []byte(nil)
		if method == http.MethodPost {
			body = []byte("{}")
		}

		return b.do(t, method, base+path, h, body).status
	}
	for _, c := range []struct {
		method, path          string
		none, reader, operate int
	}{
		{http.MethodGet, "/v1/analyses", 401, 200, 200},
		{http.MethodGet, "/v1/fleet", 401, 200, 200},
		{http.MethodGet, "/v1/fleet/history", 401, 200, 200},
		{http.MethodGet, "/v1/accounts/team", 401, 200, 200},
		{http.MethodGet, "/v1/analyses/nobody/events", 401, 404, 404},
		{http.MethodGet, "/", 401, 200, 200},
		{http.MethodGet, "/fleet", 401, 200, 200},
		{http.MethodPost, "/v1/analyses", 401, 403, 400},
		{http.MethodPost, "/v1/analyses/nobody/submit", 401, 403, 404},
		{http.MethodPost, "/v1/analyses/nobody/cancel", 401, 403, 404},
		{http.MethodPost, "/v1/analyses/nobody/retry", 401, 403, 404},
		{http.MethodPost, "/v1/analyses/nobody/redeliver", 401, 403, 409},
		{http.MethodPost, "/v1/analyses/nobody/clips/c1/preview", 401, 403, 404},
		{http.MethodPost, "/v1/accounts/team/grants", 401, 403, 400},
		{http.MethodPost, "/analyses/nobody/actions", 401, 403, 400},
	} {
		got := []int{call(c.method, c.path, ""), call(c.method, c.path, reading), call(c.method, c.path, token), call(c.method, c.path, "another")}
		if d := cmp.Diff([]int{c.none, c.reader, c.operate, 401}, got); d != "" {
			t.Errorf("%s %s: %s", c.method, c.path, d)
		}
	}
	if strings.Contains(b.logs.String(), reading) {
		t.Error("the token is in the log")
	}
}

// session logs in and returns the cookie.
func (b *bundle) session(t *testing.T, base, given, name string) http.Header {
	t.Helper()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	form := url.Values{"token": {given}, "name": {name}}.Encode()
	r := b.do(t, http.MethodPost, base+"/login", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(form))
	cookie, err := http.ParseSetCookie(r.header.Get("Set-Cookie"))
	if err != nil || r.status != http.StatusSeeOther {
		t.Fatalf("%d %v", r.status, err)
	}

	return http.Header{"Cookie": {cookie.Name + "=" + cookie.Value}}
}

// The page has buttons for those who may press them, and a session can't be turned into another one.
func TestPageRoles(t *testing.T) {
	t.Parallel()
	const reading = "a token for those who look"
	b := setup(t, func(c *control.Config) { c.Listen, c.APIToken, c.ReadToken = "0.0.0.0:0", token, reading })
	_, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	base := "http://127.0.0.1:" + port
	reader, operator := b.session(t, base, reading, ""), b.session(t, base, token, "Grace ✓")
	made := b.do(t, http.MethodPost, base+"/v1/analyses", http.Header{"Cookie": operator["Cookie"], "Content-Type": {"application/json"}},
		[]byte(`{"analysisId":"an_1","clips":[{"id":"c1","size":1,"sha256":"`+sum(nil)+`"}]}`))
	made.want(t, http.StatusCreated, "")
	for name, c := range map[string]struct {
		who  http.Header
		want bool
	}{"reader": {reader, false}, "operator": {operator, true}} {
		r := b.do(t, http.MethodGet, base+"/analyses/an_1", c.who.Clone(), nil)
		if has := strings.Contains(string(r.body), `value="cancel"`); r.status != http.StatusOK || has != c.want {
			t.Errorf("%s: %d, button %v", name, r.status, has)
		}
	}
	form := []byte("action=cancel&reason=a+test&key=k1")
	post := func(who http.Header) reply {
		h := who.Clone()
		h.Set("Content-Type", "application/x-www-form-urlencoded")

		return b.do(t, http.MethodPost, base+"/analyses/an_1/actions", h, form)
	}
	post(reader).want(t, http.StatusForbidden, protocol.CodeUnauthorized)
	forged := http.Header{"Cookie": {strings.Replace(reader.Get("Cookie"), "=read.", "=operate.", 1)}}
	if r := post(forged); r.status != http.StatusUnauthorized {
		t.Errorf("a forged session: %d", r.status)
	}
	if r := post(operator); r.status != http.StatusSeeOther || r.header.Get("Location") != "/analyses/an_1" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := post(operator); r.status != http.StatusSeeOther { // pressed twice
		t.Fatalf("%d %s", r.status, r.body)
	}
	got := decode[record](t, b.do(t, http.MethodGet, base+"/v1/analyses/an_1", operator.Clone(), nil))
	if d := cmp.Diff([]string{"cancelled by Grace ✓ (token): a test"}, got.by()); d != "" || got.Status != "cancelled" {
		t.Error(got.Status, d)
	}
}

// A document that the caller knows is not sent again.
func TestETags(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.queued(t, "an_1")
	for _, path := range []string{"/v1/analyses", "/v1/analyses/an_1", "/v1/accounts/team", "/v1/fleet/history"} {
		// Its run may go on between the two.
		wait.For(t, patience, func() bool {
			first := b.do(t, http.MethodGet, path, http.Header{}, nil).want(t, http.StatusOK, "")
			tag := first.header.Get("ETag")
			again := b.do(t, http.MethodGet, path, http.Header{"If-None-Match": {`"x", W/` + tag}}, nil)

			return again.status == http.StatusNotModified && len(again.body) == 0 && tag != ""
		}, "%s changes all the time, or its tag is not known", path)
	}
	tag := b.do(t, http.MethodGet, "/v1/analyses/an_1", http.Header{}, nil).header.Get("ETag")
	b.api(t, http.MethodPost, "/v1/analyses/an_1/cancel", nil).want(t, http.StatusAccepted, "")
	b.do(t, http.MethodGet, "/v1/analyses/an_1", http.Header{"If-None-Match": {tag}}, nil).want(t, http.StatusOK, "")
}

// Lists are filtered, and what can't be a filter is refused.
func TestListFilters(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.queued(t, "an_1")
	b.uploaded(t, "an_2")
	b.uploaded(t, "zz_1")
	for query, want := range map[string]string{
		"status=queued": "an_1", "status=uploading&account=default": "zz_1 an_2", "id=an_": "an_1 an_2", "id=an_&status=uploading": "an_2", "account=nobody": "",
	} {
		p := decode[struct{ Analyses []struct{ AnalysisID string } }](t, b.api(t, http.MethodGet, "/v1/analyses?"+query, nil).want(t, http.StatusOK, ""))
		var got []string
		for _, a := range p.Analyses {
			got = append(got, a.AnalysisID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", query, got)
		}
	}
	for _, bad := range []string{"status=gone", "account=a/b", "id=%25", "id=a~"} {
		b.api(t, http.MethodGet, "/v1/analyses?"+bad, nil).want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)
	}
	for _, bad := range []string{"1s", "x", "200h"} {
		b.api(t, http.MethodGet, "/v1/fleet/history?since="+bad, nil).want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)
	}
}
