package claimcheck_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

const claimJSON = `{"analysisId":"an_1","claim":"clm_x","epoch":7,"leaseSeconds":120,
 "clips":[{"id":"c1","url":"https://peer.test/c1?` + canary + `","headers":{},"size":4,"expiresAt":"2026-11-30T12:00:00Z"}],
 "callback":{"url":"https://peer.test/cb"},"params":{"model":"lite","wish":1},"future":true}`

var redeem = protocol.RedeemRequest{AnalysisID: "an_1", WorkerID: "w1", Source: protocol.SourceQueue, JobID: "an_1", Attempt: 2}

func ok(body string) http.HandlerFunc { return status(200, body, "Content-Type", "application/json") }

func TestRedeem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, ok(claimJSON))
		client := n.client(func(c *claimcheck.Config) { c.ControlURL = "http://" + host + "/base/" })
		got, err := client.Redeem(t.Context(), redeem)
		if err != nil {
			t.Fatal(err)
		}
		if got.Epoch != 7 || got.Claim.Claim != "clm_x" || got.Params == nil || got.Params.Model != "lite" || got.ParamsFault != nil {
			t.Errorf("claim %+v, params fault %v", got.Claim, got.ParamsFault)
		}
		if string(got.RawParams) != `{"model":"lite","wish":1}` || !got.At.Equal(time.Now()) {
			t.Errorf("raw params %s, at %v", got.RawParams, got.At)
		}
		request := n.seen()[0]
		if request.method != "POST" || request.path != "/base/v1/claims/an_1" || request.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v", request.method, request.path, request.header)
		}
		want := `{"analysisId":"an_1","workerId":"w1","source":"queue","jobId":"an_1","attempt":2}`
		if string(request.body) != want {
			t.Errorf("body %s, want %s", request.body, want)
		}
		verify(t, request)
	})
}

func verify(t *testing.T, request seen) string {
	t.Helper()
	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		t.Fatal(err)
	}
	v := webhook.NewVerifier(secrets)
	v.Now = func() time.Time { return request.at }
	id, err := v.Verify(request.header, request.body)
	if err != nil {
		t.Fatalf("the request's signature: %v", errors.Unwrap(err))
	}
	return id
}

func TestOtherRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/claims/an_1/renew":
				ok(`{"leaseSeconds":90}`)(w, r)
			case "/v1/claims/an_1/release":
				w.WriteHeader(http.StatusNoContent)
			case "/v1/claims/an_1/artifact":
				ok(`{"url":"https://peer.test/put?`+canary+`","headers":{"a":"b"},"key":"k"}`)(w, r)
			default:
				w.WriteHeader(http.StatusTeapot)
			}
		}))
		client := n.client(nil)
		lease := protocol.LeaseRequest{AnalysisID: "an_1", Claim: "clm_x", Epoch: 7}
		if d, err := client.Renew(t.Context(), lease); err != nil || d != 90*time.Second {
			t.Errorf("renew: %v, %v", d, err)
		}
		if err := client.Release(t.Context(), lease); err != nil {
			t.Errorf("release: %v", err)
		}
		target, err := client.Artifact(t.Context(), protocol.ArtifactRequest{AnalysisID: "an_1", Claim: "clm_x", Epoch: 7})
		if err != nil || target.Key != "k" || target.Headers["a"] != "b" {
			t.Errorf("artifact: %+v, %v", target, err)
		}
		ids := map[string]bool{}
		for _, request := range n.seen() {
			ids[verify(t, request)] = true
		}
		if len(ids) != 3 {
			t.Errorf("ids are used twice: %v", ids)
		}
	})
}

func TestClaimRefusals(t *testing.T) {
	t.Parallel()
	redeemOp := func(ctx context.Context, c *claimcheck.Client) error {
		_, err := c.Redeem(ctx, redeem)
		return err
	}
	renewOp := func(ctx context.Context, c *claimcheck.Client) error {
		_, err := c.Renew(ctx, protocol.LeaseRequest{AnalysisID: "an_1", Claim: "x", Epoch: 1})
		return err
	}
	releaseOp := func(ctx context.Context, c *claimcheck.Client) error {
		return c.Release(ctx, protocol.LeaseRequest{AnalysisID: "an_1", Claim: "x", Epoch: 1})
	}
	artifactOp := func(ctx context.Context, c *claimcheck.Client) error {
		_, err := c.Artifact(ctx, protocol.ArtifactRequest{AnalysisID: "an_1", Claim: "x", Epoch: 1})
		return err
	}
	type op = func(context.Context, *claimcheck.Client) error
	tests := []struct {
		name    string
		op      op
		answer  http.HandlerFunc
		kind    claimcheck.Kind
		code    protocol.Code
		retry   bool
		tries   int
		reason  protocol.GoneReason
		heldFor time.Duration
	}{
		{"404", redeemOp, status(404, ""), claimcheck.KindUnknown, protocol.CodeUnknownAnalysis, false, 1, "", 0},
		{"410 delivered", redeemOp, status(410, `{"reason":"delivered"}`), claimcheck.KindGone, protocol.CodeClaimGone, false, 1, "delivered", 0},
		{"410 cancelled", redeemOp, status(410, `{"type":"x","reason":"cancelled"}`), claimcheck.KindGone, protocol.CodeClaimGone, false, 1, "cancelled", 0},
		{"410 with no reason", redeemOp, status(410, `<html>`), claimcheck.KindGone, protocol.CodeClaimGone, false, 1, "delivered", 0},
		{"409", redeemOp, status(409, "", "Retry-After", "17"), claimcheck.KindHeld, protocol.CodeClaimHeld, true, 1, "", 17 * time.Second},
		{"409 for a day", redeemOp, status(409, "", "Retry-After", "86400"), claimcheck.KindHeld, protocol.CodeClaimHeld, true, 1, "", 10 * time.Minute},
		{"409 with nonsense", redeemOp, status(409, "", "Retry-After", "-5"), claimcheck.KindHeld, protocol.CodeClaimHeld, true, 1, "", 30 * time.Second},
		{"401", redeemOp, status(401, ""), claimcheck.KindRefused, protocol.CodeClaimRefused, true, 3, "", 0},
		{"403", redeemOp, status(403, ""), claimcheck.KindRefused, protocol.CodeClaimRefused, true, 3, "", 0},
		{"400", redeemOp, status(400, ""), claimcheck.KindRefused, protocol.CodeClaimRefused, true, 1, "", 0},
		{"422", redeemOp, status(422, ""), claimcheck.KindRefused, protocol.CodeClaimRefused, true, 1, "", 0},
		{"408", redeemOp, status(408, ""), claimcheck.KindUnavailable, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"425", redeemOp, status(425, ""), claimcheck.KindUnavailable, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"429", redeemOp, status(429, ""), claimcheck.KindUnavailable, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"500", redeemOp, status(500, ""), claimcheck.KindUnavailable, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"503", redeemOp, status(503, ""), claimcheck.KindUnavailable, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"reset", redeemOp, cut, claimcheck.KindUnavailable, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"silence", redeemOp, silent, claimcheck.KindUnavailable, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"redirect", redeemOp, status(302, "", "Location", "https://evil.test/?"+canary), claimcheck.KindBadAnswer, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"broken redirect", redeemOp, status(302, "", "Location", "https://[::1/?"+canary), claimcheck.KindBadAnswer, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"HTML", redeemOp, status(200, "<html>hello</html>", "Content-Type", "text/html"), claimcheck.KindBadAnswer, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"nothing", redeemOp, status(200, ""), claimcheck.KindBadAnswer, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"204", redeemOp, status(204, ""), claimcheck.KindBadAnswer, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"another shape", redeemOp, status(200, `{"ok":true}`), claimcheck.KindBadAnswer, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"another analysis", redeemOp, status(200, strings.Replace(claimJSON, "an_1", "an_2", 1)), claimcheck.KindBadAnswer, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"endless", redeemOp, status(200, strings.Repeat(" ", 2<<20)), claimcheck.KindBadAnswer, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"renew lost", renewOp, status(409, "", "Retry-After", "5"), claimcheck.KindLost, protocol.CodeClaimLost, true, 1, "", 0},
		{"renew lost to nobody", renewOp, status(409, `{"reason":"cancelled"}`), claimcheck.KindGone, protocol.CodeClaimGone, false, 1, "cancelled", 0},
		{"renew of what was delivered", renewOp, status(409, `{"reason":"delivered"}`), claimcheck.KindGone, protocol.CodeClaimGone, false, 1, "delivered", 0},
		{"renew lost for a reason of its own", renewOp, status(409, `{"reason":"mood"}`), claimcheck.KindLost, protocol.CodeClaimLost, true, 1, "", 0},
		{"renew gone", renewOp, status(410, `{"reason":"cancelled"}`), claimcheck.KindGone, protocol.CodeClaimGone, false, 1, "cancelled", 0},
		{"renew with no lease", renewOp, status(200, `{}`), claimcheck.KindBadAnswer, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"renew unavailable", renewOp, status(503, ""), claimcheck.KindUnavailable, protocol.CodeControlUnreachable, true, 4, "", 0},
		{"release lost", releaseOp, status(409, ""), claimcheck.KindLost, protocol.CodeClaimLost, true, 1, "", 0},
		{"artifact lost", artifactOp, status(409, ""), claimcheck.KindLost, protocol.CodeClaimLost, true, 1, "", 0},
		{"artifact too large", artifactOp, status(413, ""), claimcheck.KindRejected, protocol.CodeUploadFailed, false, 1, "", 0},
		{"redeem too large", redeemOp, status(413, ""), claimcheck.KindRefused, protocol.CodeClaimRefused, true, 1, "", 0},
		{"artifact with no key", artifactOp, status(200, `{"url":"https://peer.test/"}`), claimcheck.KindBadAnswer, protocol.CodeControlUnreachable, true, 4, "", 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := serve(t, tc.answer)
				counts := &counter{}
				err := tc.op(t.Context(), n.client(func(c *claimcheck.Config) { c.Observer = counts }))
				wantFault(t, err, tc.code, tc.retry)
				e, ok := errors.AsType[*claimcheck.ClaimError](err)
				if !ok || e.Kind != tc.kind || e.Reason != tc.reason || e.RetryAfter != tc.heldFor {
					t.Errorf("got %+v", e)
				}
				if got := len(n.seen()); got != tc.tries {
					t.Errorf("%d requests, want %d", got, tc.tries)
				}
				if got := counts.claims(); len(got) != 1 || !strings.HasSuffix(got[0], " "+string(tc.kind)) {
					t.Errorf("observed %v", got)
				}
				ids := map[string]bool{}
				for _, request := range n.seen() {
					ids[verify(t, request)] = true
				}
				if len(ids) != tc.tries {
					t.Errorf("%d ids for %d requests", len(ids), tc.tries)
				}
			})
		})
	}
}

func TestRedeemComesThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, steps(cut, status(503, "", "Retry-After", "3"), status(200, "<html>"), ok(claimJSON)))
		if _, err := n.client(nil).Redeem(t.Context(), redeem); err != nil {
			t.Fatal(err)
		}
		requests := n.seen()
		if wait := requests[2].at.Sub(requests[1].at); wait < 3*time.Second || wait > 5*time.Second {
			t.Errorf("waited %v after Retry-After: 3", wait)
		}
	})
}

func TestRedeemWithin(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"silence", silent}, {"asked to wait too long", status(503, "", "Retry-After", "9")}, {"down", cut},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := serve(t, tc.answer)
				start := time.Now()
				_, err := n.client(nil).RedeemWithin(t.Context(), redeem, 5*time.Second)
				if spent := time.Since(start); spent > 5*time.Second {
					t.Errorf("took %v", spent)
				}
				e, ok := errors.AsType[*claimcheck.ClaimError](err)
				if !ok || e.Kind != claimcheck.KindUnavailable {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestCallsStopWithTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, steps(status(503, ""), silent))
		lost := errors.New("the lock is lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(lost) })
		start := time.Now()
		_, err := n.client(nil).Redeem(ctx, redeem)
		if !errors.Is(err, lost) || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if _, isClaim := errors.AsType[*claimcheck.ClaimError](err); isClaim {
			t.Errorf("being stopped is no verdict on the claim: %v", err)
		}
	})
}

func TestParamsFault(t *testing.T) {
	t.Parallel()
	for _, params := range []string{`{"model":"huge"}`, `{"model":3}`, `[]`, `{"athlete":{"clip":"c9","t":0,"x":1,"y":1}}`} {
		t.Run(params, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				answer := strings.Replace(claimJSON, `{"model":"lite","wish":1}`, params, 1)
				got, err := serve(t, ok(answer)).client(nil).Redeem(t.Context(), redeem)
				if err != nil {
					t.Fatal(err)
				}
				if got.ParamsFault == nil || got.ParamsFault.Retryable || got.ParamsFault.Code != protocol.CodeInvalidRequest {
					t.Errorf("params fault %v", got.ParamsFault)
				}
				if string(got.RawParams) != params {
					t.Errorf("raw params %s", got.RawParams)
				}
			})
		})
	}
}

func TestClockSkewIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(6*time.Minute).UTC().Format(http.TimeFormat))
			ok(claimJSON)(w, r)
		}))
		counts := &counter{}
		if _, err := n.client(func(c *claimcheck.Config) { c.Observer = counts }).Redeem(t.Context(), redeem); err != nil {
			t.Fatal(err)
		}
		if s := counts.skew(); s < 359 || s > 361 {
			t.Errorf("skew %v s", s)
		}
	})
}

func TestIDsStayInTheirPath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, ok(claimJSON))
		for _, id := range []string{"../admin", "a/b", "a?b", "", "meta", "5"} {
			request := redeem
			request.AnalysisID = id
			if _, err := n.client(nil).Redeem(t.Context(), request); err == nil {
				t.Errorf("%q was sent", id)
			}
		}
		if len(n.seen()) != 0 {
			t.Error(fmt.Sprint(len(n.seen()), " requests went out"))
		}
	})
}
