package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/s3test"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// The whole way of a claim, with what a worker sees at each step.
func TestClaimsWay(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	testWay(t, b)
	if strings.Contains(b.logs.String(), "X-Pf-Signature") || strings.Contains(b.logs.String(), "v1,") {
		t.Error("a signature is in the log")
	}
}

// The same way with the files in a bucket that checks signatures, lengths and checksums.
func TestClaimsWayS3(t *testing.T) {
	server := s3test.Start(t)
	for _, pair := range server.Env() {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	b := setup(t, func(c *control.Config) {
		c.StorageURL = fmt.Sprintf("s3://%s/prefix?endpoint=%s&region=%s", server.Bucket, server.URL, server.Region)
	})
	testWay(t, b)
	if strings.Contains(b.logs.String(), "X-Amz-") {
		t.Error("a signature is in the log")
	}
	server.Kill()
	b.post(t, "/v1/claims/an_2", webhook.NewID("req"), redeemRequest("an_2", "w1", 1)).want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)
	created := b.api(t, http.MethodPost, "/v1/analyses", newAnalysis("an_2")).want(t, http.StatusCreated, "")
	if !strings.Contains(string(created.body), "an_2") {
		t.Fatal(string(created.body))
	}
	// A storage that is away is no missing clip: it is worth another try.
	r := b.api(t, http.MethodPost, "/v1/analyses/an_2/submit", nil).want(t, http.StatusServiceUnavailable, protocol.CodeInternal)
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func testWay(t *testing.T, b *bundle) {
	t.Helper()
	b.queued(t, "an_1")
	got := b.post(t, "/v1/claims/an_1", webhook.NewID("req"), redeemRequest("an_1", "w1", 1)).want(t, http.StatusOK, "")
	c, params, err := protocol.ParseClaim(got.body, "an_1")
	if err != nil {
		t.Fatal(err)
	}
	if string(params) != `{"later":1,"model":"full"}` || c.LeaseSeconds != 120 || c.Epoch != 1 || c.Artifact != nil {
		t.Fatalf("%s", got.body)
	}
	clip := c.Clips[0]
	if clip.ID != "c1" || *clip.Size != int64(len(clipBytes)) || clip.SHA256 != sum(clipBytes) || clip.ETag == "" || clip.ExpiresAt == nil {
		t.Fatalf("%+v", clip)
	}
	r := b.do(t, http.MethodGet, clip.URL, http.Header{"Range": {"bytes=4-8"}, "If-Match": {clip.ETag}}, nil)
	if r.status != http.StatusPartialContent || string(r.body) != string(clipBytes[4:9]) {
		t.Fatalf("download: %d %s", r.status, r.body)
	}
	b.post(t, "/v1/claims/an_1/renew", webhook.NewID("req"), lease(c)).want(t, http.StatusOK, "")

	doc := poseBytes(t, poseDoc)
	art := b.artifact(t, c, doc)
	first := b.report(t, c, completed(c, art)).want(t, http.StatusOK, "")
	again := b.report(t, c, completed(c, art)).want(t, http.StatusOK, "")
	if string(first.body) != `{}` || string(again.body) != `{"alreadyDelivered":true}` {
		t.Fatalf("%s and %s", first.body, again.body)
	}
	for _, packed := range []bool{true, false} {
		h := http.Header{}
		if packed {
			h.Set("Accept-Encoding", "gzip")
		}
		r := b.do(t, http.MethodGet, "/v1/analyses/an_1/pose", h, nil).want(t, http.StatusOK, "")
		if want := map[bool]string{true: string(doc), false: poseDoc}[packed]; string(r.body) != want {
			t.Errorf("pose, packed %v: %q", packed, r.body)
		}
	}
	r = b.do(t, http.MethodGet, "/v1/analyses/an_1/clips/c1", http.Header{"Range": {"bytes=-4"}}, nil)
	if r.status != http.StatusPartialContent || string(r.body) != "rned" || r.header.Get("Content-Type") != "video/mp4" {
		t.Errorf("clip for the page: %d %q %s", r.status, r.body, r.header.Get("Content-Type"))
	}
	gone := b.post(t, "/v1/claims/an_1", webhook.NewID("req"), redeemRequest("an_1", "w2", 2)).want(t, http.StatusGone, protocol.CodeClaimGone)
	if p := gone.problem(t); p.Reason != protocol.GoneDelivered {
		t.Errorf("reason %s", p.Reason)
	}
}

func lease(c protocol.Claim) protocol.LeaseRequest {
	return protocol.LeaseRequest{AnalysisID: c.AnalysisID, Claim: c.Claim, Epoch: c.Epoch}
}

func TestRedeemAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	redeem := func(r protocol.RedeemRequest) reply {
		t.Helper()

		return b.post(t, "/v1/claims/"+r.AnalysisID, webhook.NewID("req"), r)
	}
	redeem(redeemRequest("nobody", "w1", 1)).want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)

	b.uploaded(t, "an_early")
	early := redeem(redeemRequest("an_early", "w1", 1)).want(t, http.StatusConflict, protocol.CodeConflict)
	if early.header.Get("Retry-After") != "10" {
		t.Errorf("Retry-After %q", early.header.Get("Retry-After"))
	}

	b.queued(t, "an_1")
	first := b.redeem(t, redeemRequest("an_1", "w1", 1))
	b.clock.advance(30*time.Second + 500*time.Millisecond)
	held := redeem(protocol.RedeemRequest{AnalysisID: "an_1", WorkerID: "w2", Source: protocol.SourceHTTP, JobID: "an_1", Attempt: 1}).
		want(t, http.StatusConflict, protocol.CodeClaimHeld)
	if held.header.Get("Retry-After") != "90" {
		t.Errorf("Retry-After %q of 89.5 s", held.header.Get("Retry-After"))
	}
	repeat := b.redeem(t, redeemRequest("an_1", "w1", 1))
	if repeat.Claim != first.Claim || repeat.Epoch != first.Epoch || repeat.Clips[0].URL == first.Clips[0].URL {
		t.Error("a repeat needs the same claim and fresh URLs")
	}
	next := b.redeem(t, redeemRequest("an_1", "w2", 2))
	if next.Epoch != 2 || next.Claim == first.Claim {
		t.Errorf("%+v", next)
	}
	b.post(t, "/v1/claims/an_1/renew", webhook.NewID("req"), lease(first)).want(t, http.StatusConflict, protocol.CodeClaimLost)
	b.post(t, "/v1/claims/an_1/artifact", webhook.NewID("req"), artifactRequest(first, clipBytes)).want(t, http.StatusConflict, protocol.CodeClaimLost)
	b.post(t, "/v1/claims/an_1/release", webhook.NewID("req"), lease(first)).want(t, http.StatusNoContent, "")
	b.post(t, "/v1/claims/nobody/renew", webhook.NewID("req"), protocol.LeaseRequest{AnalysisID: "nobody", Claim: "c", Epoch: 1}).
		want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)

	b.api(t, http.MethodPost, "/v1/analyses/an_1/cancel", nil).want(t, http.StatusAccepted, "")
	for _, path := range []string{"renew", "artifact"} { // the claim of epoch 2 is lost to nobody
		r := b.post(t, "/v1/claims/an_1/"+path, webhook.NewID("req"), map[string]any{
			"analysisId": "an_1", "claim": next.Claim, "epoch": next.Epoch, "name": "pose.json.gz", "contentType": "application/json",
			"size": 3, "sha256": strings.Repeat("a", 64),
		}).want(t, http.StatusConflict, protocol.CodeClaimLost)
		if p := r.problem(t); p.Reason != protocol.GoneCancelled {
			t.Errorf("%s: reason %q", path, p.Reason)
		}
	}
	gone := redeem(redeemRequest("an_1", "w3", 3)).want(t, http.StatusGone, protocol.CodeClaimGone)
	if p := gone.problem(t); p.Reason != protocol.GoneCancelled {
		t.Errorf("reason %q", p.Reason)
	}
}

// E04, E05, E08: what is not signed as agreed is refused before anything happens, and never with a 500.
func TestSignatures(t *testing.T) {
	t.Parallel()
	old, other := newSecrets(t), newSecrets(t)
	b := setup(t, func(c *control.Config) { c.WorkerSecrets = append(c.WorkerSecrets, old...) })
	b.queued(t, "an_1")
	body, err := json.Marshal(redeemRequest("an_1", "w1", 1))
	if err != nil {
		t.Fatal(err)
	}
	now := b.clock.Now()
	header := func(change func(h http.Header)) http.Header {
		h := b.signer.Header("req_1", now, body)
		change(h)

		return h
	}
	for name, h := range map[string]http.Header{
		"none":           {},
		"another secret": webhook.NewSigner(other).Header("req_1", now, body),
		"stale":          b.signer.Header("req_1", now.Add(-6*time.Minute), body),
		"of tomorrow":    b.signer.Header("req_1", now.Add(6*time.Minute), body),
		"another body":   b.signer.Header("req_1", now, append(body, ' ')),
		"two lines":      header(func(h http.Header) { h.Add("webhook-signature", "v1,xxx") }),
		"no timestamp":   header(func(h http.Header) { h.Del("webhook-timestamp") }),
		"no id":          header(func(h http.Header) { h.Del("webhook-id") }),
		"garbage":        header(func(h http.Header) { h.Set("webhook-signature", "v1,"+strings.Repeat("%", 10000)) }),
	} {
		r := b.do(t, http.MethodPost, "/v1/claims/an_1", h, body)
		if r.status != http.StatusUnauthorized || r.problem(t).Code != protocol.CodeUnauthorized || r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	log := b.logs.String()
	if !strings.Contains(log, `"level":"WARN","msg":"a worker's signature was refused"`) || !strings.Contains(log, b.cfg.WorkerSecrets[0].Fingerprint()) {
		t.Errorf("nobody is told what to compare: %s", log)
	}
	if s := b.status(t, "an_1"); s != "queued" {
		t.Fatalf("a refused redeem made it %s", s)
	}
	r := b.do(t, http.MethodPost, "/v1/claims/an_1", webhook.NewSigner(old).Header("req_1", now, body), body)
	r.want(t, http.StatusOK, "") // the former secret still verifies
}

func newSecrets(t *testing.T) []webhook.Secret {
	t.Helper()
	s, err := webhook.ParseSecrets(webhook.Generate())
	if err != nil {
		t.Fatal(err)
	}

	return s
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.queued(t, "an_1")
	c := b.redeem(t, redeemRequest("an_1", "w1", 1))
	long := redeemRequest("an_1", strings.Repeat("w", 257), 1)
	big := artifactRequest(c, clipBytes)
	big.Size = 1 << 40
	odd := artifactRequest(c, clipBytes)
	odd.ContentType = "text/html\r\nx: y"
	for name, v := range map[string]struct {
		path   string
		body   any
		status int
		code   protocol.Code
	}{
		"path of another":     {"/v1/claims/an_2", redeemRequest("an_1", "w1", 1), 400, protocol.CodeInvalidRequest},
		"no JSON":             {"/v1/claims/an_1", []byte("{"), 400, protocol.CodeInvalidRequest},
		"no worker":           {"/v1/claims/an_1", redeemRequest("an_1", "", 1), 400, protocol.CodeInvalidRequest},
		"long name":           {"/v1/claims/an_1", long, 400, protocol.CodeInvalidRequest},
		"NUL":                 {"/v1/claims/an_1", redeemRequest("an_1", "a\x00b", 1), 400, protocol.CodeInvalidRequest},
		"too large":           {"/v1/claims/an_1", []byte(strings.Repeat(" ", 65*1024)), 413, protocol.CodeRequestTooLarge},
		"renew of another":    {"/v1/claims/an_2/renew", lease(c), 400, protocol.CodeInvalidRequest},
		"release of another":  {"/v1/claims/an_2/release", lease(c), 400, protocol.CodeInvalidRequest},
		"artifact of another": {"/v1/claims/an_2/artifact", artifactRequest(c, clipBytes), 400, protocol.CodeInvalidRequest},
		"huge artifact":       {"/v1/claims/an_1/artifact", big, 413, protocol.CodeRequestTooLarge},
		"odd content type":    {"/v1/claims/an_1/artifact", odd, 400, protocol.CodeInvalidRequest},
		"result too large":    {"/v1/results/an_1", []byte(strings.Repeat(" ", protocol.MaxResultBytes+1)), 413, protocol.CodeRequestTooLarge},
		"result of another":   {"/v1/results/an_2", failed(c), 400, protocol.CodeInvalidRequest},
		"no result":           {"/v1/results/an_1", []byte(`{"type":"pose.what"}`), 400, protocol.CodeInvalidID},
	} {
		r := b.post(t, v.path, webhook.NewID("req"), v.body)
		if r.status != v.status || r.problem(t).Code != v.code {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	r := b.do(t, http.MethodGet, "/v1/claims/an_1", nil, nil).want(t, http.StatusMethodNotAllowed, protocol.CodeMethodNotAllowed)
	if r.header.Get("Allow") != "POST" {
		t.Errorf("Allow %q", r.header.Get("Allow"))
	}
	b.do(t, http.MethodGet, "/v1/nothing", nil, nil).want(t, http.StatusNotFound, protocol.CodeNotFound)
	b.do(t, http.MethodGet, "/healthz", nil, nil).want(t, http.StatusOK, "")
}

func TestResultAnswers(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.queued(t, "an_1")
	c := b.redeem(t, redeemRequest("an_1", "w1", 1))

	art := protocol.Artifact{Key: "analyses/an_1/artifacts/nowhere", Size: 1, SHA256: strings.Repeat("0", 64)}
	b.report(t, c, completed(c, art)).want(t, http.StatusUnprocessableEntity, protocol.CodeResultRefused)

	// A key that no object can have is no storage that is away: to try again would help nobody.
	for _, key := range []string{"..", "analyses/an_1/clips/c1/below", strings.Repeat("x", 300)} {
		art.Key = key
		b.report(t, c, completed(c, art)).want(t, http.StatusUnprocessableEntity, protocol.CodeResultRefused)
	}

	// Allowed to be uploaded is not uploaded.
	granted := decode[protocol.ArtifactAnswer](t,
		b.post(t, "/v1/claims/an_1/artifact", webhook.NewID("req"), artifactRequest(c, clipBytes)).want(t, http.StatusOK, ""))
	art = protocol.Artifact{Key: granted.Key, Size: int64(len(clipBytes)), SHA256: sum(clipBytes)}
	b.report(t, c, completed(c, art)).want(t, http.StatusUnprocessableEntity, protocol.CodeResultRefused)

	forged := c
	forged.Claim = "clm_forged"
	b.report(t, c, failed(forged)).want(t, http.StatusUnprocessableEntity, protocol.CodeResultRefused)

	body, err := protocol.MarshalResult(failed(c))
	if err != nil {
		t.Fatal(err)
	}
	b.post(t, c.Callback.URL, "res_an_1_2", body).want(t, http.StatusUnprocessableEntity, protocol.CodeResultRefused)

	unknown := c
	unknown.AnalysisID = "an_9"
	unknown.Callback.URL = strings.ReplaceAll(c.Callback.URL, "an_1", "an_9")
	b.report(t, unknown, failed(unknown)).want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)

	// None of them has used the id up (G07).
	next := b.redeem(t, redeemRequest("an_1", "w2", 2))
	b.report(t, c, failed(c)).want(t, http.StatusConflict, protocol.CodeConflict) // superseded
	b.report(t, next, completed(next, b.artifact(t, next, clipBytes))).want(t, http.StatusOK, "")
	other := failed(next)
	b.report(t, next, other).want(t, http.StatusConflict, protocol.CodeConflict) // the same id with another body
	if s := b.status(t, "an_1"); s != "delivered" {
		t.Fatalf("the analysis is %s", s)
	}

	b.queued(t, "an_2")
	c = b.redeem(t, redeemRequest("an_2", "w1", 1))
	art = b.artifact(t, c, clipBytes)
	b.api(t, http.MethodPost, "/v1/analyses/an_2/cancel", nil).want(t, http.StatusAccepted, "")
	gone := b.report(t, c, completed(c, art)).want(t, http.StatusGone, protocol.CodeClaimGone)
	if p := gone.problem(t); p.Reason != protocol.GoneCancelled {
		t.Errorf("reason %q", p.Reason)
	}
}

// Design row "6": the artifact of an earlier start is named if it is really there, and only then.
func TestStoredArtifact(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.queued(t, "an_1")
	doc := poseBytes(t, poseDoc)
	first := b.redeem(t, redeemRequest("an_1", "w1", 1))
	b.post(t, "/v1/claims/an_1/artifact", webhook.NewID("req"), artifactRequest(first, doc)).want(t, http.StatusOK, "")
	second := b.redeem(t, redeemRequest("an_1", "w2", 2))
	if second.Artifact != nil {
		t.Fatalf("it was granted, never stored: %+v", second.Artifact)
	}
	art := b.artifact(t, second, doc)
	third := b.redeem(t, redeemRequest("an_1", "w3", 3))
	want := &protocol.StoredArtifact{Artifact: art, Model: model, Clips: resultClips}
	if d := cmp.Diff(want, third.Artifact); d != "" {
		t.Fatal(d)
	}
	// It is posted under the new epoch and counts.
	b.report(t, third, completed(third, art)).want(t, http.StatusOK, "")
	if s := b.status(t, "an_1"); s != "delivered" {
		t.Fatalf("the analysis is %s", s)
	}
}

// An artifact of which nobody said what is in it could not be posted by a later start.
func TestStoredArtifactUnknownContent(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.queued(t, "an_1")
	c := b.redeem(t, redeemRequest("an_1", "w1", 1))
	r := artifactRequest(c, clipBytes)
	r.Model, r.Clips = nil, nil
	a := decode[protocol.ArtifactAnswer](t, b.post(t, "/v1/claims/an_1/artifact", webhook.NewID("req"), r).want(t, http.StatusOK, ""))
	b.put(t, a.URL, a.Headers, clipBytes)
	if next := b.redeem(t, redeemRequest("an_1", "w2", 2)); next.Artifact != nil {
		t.Fatalf("%+v", next.Artifact)
	}
}

// G01, by HTTP: twenty redeems and twenty results at once have one effect each.
func TestParallel(t *testing.T) {
	t.Parallel()
	var settled atomic.Int32
	b := setup(t, func(c *control.Config) {
		c.OnSettled = func(_ context.Context, s control.Settled) error {
			if s.AnalysisID == "an_1" {
				settled.Add(1)
			}

			return nil
		}
	})
	b.queued(t, "an_1")
	var wg sync.WaitGroup
	var won atomic.Int32
	claims := make(chan protocol.Claim, 20)
	for i := range 20 {
		wg.Go(func() {
			r := redeemRequest("an_1", fmt.Sprint("w", i), 1)
			switch got := b.post(t, "/v1/claims/an_1", webhook.NewID("req"), r); got.status {
			case http.StatusOK:
				won.Add(1)
				claims <- decode[protocol.Claim](t, got)
			case http.StatusConflict:
			default:
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d redeemed at once", won.Load())
	}
	c := <-claims
	art := b.artifact(t, c, clipBytes)
	var stored, already atomic.Int32
	for range 20 {
		wg.Go(func() {
			if got := b.report(t, c, completed(c, art)).want(t, http.StatusOK, ""); string(got.body) == "{}" {
				stored.Add(1)
			} else {
				already.Add(1)
			}
		})
	}
	wg.Wait()
	if stored.Load() != 1 || already.Load() != 19 {
		t.Fatalf("%d stored, %d told so", stored.Load(), already.Load())
	}
	b.stop()
	if settled.Load() > 1 {
		t.Fatalf("%d notices", settled.Load())
	}
}

// Whoever wants to hear of outcomes hears of each, also if hearing failed at first.
func TestOnSettled(t *testing.T) {
	t.Parallel()
	heard := make(chan control.Settled, 10)
	var calls atomic.Int32
	b := setup(t, func(c *control.Config) {
		c.OnSettled = func(_ context.Context, s control.Settled) error {
			if calls.Add(1) == 1 {
				return errors.New("not now")
			}
			heard <- s

			return nil
		}
	})
	b.delivered(t, "an_1")
	var got control.Settled
	wait.For(t, time.Minute, func() bool {
		b.clock.advance(time.Second) // past the pause after the first failure, whenever that was
		select {
		case got = <-heard:
			return true
		default:
			return false
		}
	}, "nothing heard")
	if want := (control.Settled{AnalysisID: "an_1", Outcome: "delivered"}); got != want {
		t.Fatalf("%+v", got)
	}
}
