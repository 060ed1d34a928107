package claimcheck_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
)

const callbackURL = "http://" + host + "/cb?" + canary

var resultBody = []byte(`{"type":"pose.completed"}`)

func TestReport(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		handler http.Handler
		outcome claimcheck.ReportOutcome
		code    protocol.Code
		retry   bool
		tries   int
	}{
		{"stored", status(200, `{"ok":true}`), claimcheck.ReportStored, "", false, 1},
		{"204", status(204, ""), claimcheck.ReportStored, "", false, 1},
		{"a broken body", status(200, `{"already`), claimcheck.ReportStored, "", false, 1},
		{"a huge body", status(200, strings.Repeat("x", 1<<20)), claimcheck.ReportStored, "", false, 1},
		{"delivered before", status(200, `{"alreadyDelivered":true}`), claimcheck.ReportAlreadyDelivered, "", false, 1},
		{"conceded", status(409, ""), claimcheck.ReportConceded, "", false, 1},
		{"gone", status(410, ""), claimcheck.ReportGone, "", false, 1},
		{"400", status(400, ""), "", protocol.CodeResultRefused, false, 1},
		{"404", status(404, ""), "", protocol.CodeResultRefused, false, 1},
		{"413", status(413, ""), "", protocol.CodeResultRefused, false, 1},
		{"422", status(422, ""), "", protocol.CodeResultRefused, false, 1},
		{"401", status(401, ""), "", protocol.CodeCallbackUnreachable, true, 12},
		{"403", status(403, ""), "", protocol.CodeCallbackUnreachable, true, 12},
		{"408", status(408, ""), "", protocol.CodeCallbackUnreachable, true, 12},
		{"425", status(425, ""), "", protocol.CodeCallbackUnreachable, true, 12},
		{"429", status(429, ""), "", protocol.CodeCallbackUnreachable, true, 12},
		{"500", status(500, ""), "", protocol.CodeCallbackUnreachable, true, 12},
		{"503", status(503, ""), "", protocol.CodeCallbackUnreachable, true, 12},
		{"reset", http.HandlerFunc(cut), "", protocol.CodeCallbackUnreachable, true, 12},
		{"301", status(301, "", "Location", callbackURL), "", protocol.CodeCallbackUnreachable, true, 2},
		{"302", status(302, "", "Location", "http://evil.test/?"+canary), "", protocol.CodeCallbackUnreachable, true, 2},
		{"303", status(303, "", "Location", "/elsewhere"), "", protocol.CodeCallbackUnreachable, true, 2},
		{"307", status(307, "", "Location", "http://[::/?"+canary), "", protocol.CodeCallbackUnreachable, true, 2},
		{"308", status(308, "", "Location", callbackURL), "", protocol.CodeCallbackUnreachable, true, 2},
		{"comes through", steps(cut, status(503, ""), status(401, ""), status(200, "")), claimcheck.ReportStored, "", false, 4},
		{"conceded in the end", steps(cut, status(500, ""), status(409, "")), claimcheck.ReportConceded, "", false, 3},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := serve(t, tc.handler)
				counts := &counter{}
				start := time.Now()
				outcome, err := n.client(func(c *claimcheck.Config) { c.Observer = counts }).Report(t.Context(), callbackURL, "res_an_1_7", resultBody)
				if outcome != tc.outcome {
					t.Errorf("outcome %q, %v", outcome, err)
				}
				if tc.code != "" {
					wantFault(t, err, tc.code, tc.retry)
				}
				if took := time.Since(start); took > 5*time.Minute {
					t.Errorf("took %v", took)
				}
				if got := len(n.seen()); got != tc.tries || len(counts.tries()) != tc.tries {
					t.Errorf("%d tries, %v observed, want %d", got, counts.tries(), tc.tries)
				}
				for _, r := range n.seen() {
					if r.method != "POST" || !bytes.Equal(r.body, resultBody) || r.path != "/cb" || r.header.Get("Content-Type") != "application/json" {
						t.Errorf("%s %s %s", r.method, r.path, r.body)
					}
					if id := verify(t, r); id != "res_an_1_7" {
						t.Errorf("id %q", id)
					}
				}
			})
		})
	}
}

// A silent callback uses the whole budget and not more; each try is signed with its own time.
func TestReportBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, http.HandlerFunc(silent))
		start := time.Now()
		_, err := n.client(nil).Report(t.Context(), callbackURL, "res_an_1_7", resultBody)
		wantFault(t, err, protocol.CodeCallbackUnreachable, true)
		if took := time.Since(start); took < 4*time.Minute || took > 5*time.Minute {
			t.Errorf("took %v", took)
		}
		var stamps []string
		for _, r := range n.seen() {
			verify(t, r)
			stamps = append(stamps, r.header.Get("Webhook-Timestamp"))
		}
		if len(slices.Compact(stamps)) != len(stamps) || len(stamps) < 5 {
			t.Errorf("timestamps %v", stamps)
		}
	})
}

func TestReportRetryAfter(t *testing.T) {
	t.Parallel()
	date := func(d time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", time.Now().Add(d).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	tests := []struct {
		name       string
		answer     http.HandlerFunc
		least, max time.Duration
	}{
		{"5", status(429, "", "Retry-After", "5"), 5 * time.Second, 7500 * time.Millisecond},
		{"0", status(429, "", "Retry-After", "0"), 0, 500 * time.Millisecond},
		{"-5", status(503, "", "Retry-After", "-5"), 0, 500 * time.Millisecond},
		{"1e3", status(503, "", "Retry-After", "1e3"), 0, 500 * time.Millisecond},
		{"garbage", status(503, "", "Retry-After", "soon"), 0, 500 * time.Millisecond},
		{"none", status(503, ""), 0, 500 * time.Millisecond},
		{"a day", status(503, "", "Retry-After", "86400"), time.Minute, 90 * time.Second},
		{"more than fits", status(503, "", "Retry-After", "99999999999999999999"), time.Minute, 90 * time.Second},
		{"a date", date(10 * time.Second), 9 * time.Second, 15 * time.Second},
		{"a date in the past", date(-time.Hour), 0, 500 * time.Millisecond},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := serve(t, steps(tc.answer, status(200, "")))
				if _, err := n.client(nil).Report(t.Context(), callbackURL, "res_an_1_7", resultBody); err != nil {
					t.Fatal(err)
				}
				requests := n.seen()
				if wait := requests[1].at.Sub(requests[0].at); wait < tc.least || wait > tc.max {
					t.Errorf("waited %v, want %v to %v", wait, tc.least, tc.max)
				}
			})
		})
	}
}

// Twenty that are sent away together come back over at least a fifth of the wait.
func TestReportSpreads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		first := map[string]bool{}
		n := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			id := r.Header.Get("Webhook-Id")
			if !first[id] {
				first[id] = true
				w.Header().Set("Retry-After", "20")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		client := n.client(nil)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if _, err := client.Report(t.Context(), callbackURL, "res_an_"+string(rune('a'+i))+"_1", resultBody); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		var back []time.Duration
		for _, r := range n.seen()[20:] {
			back = append(back, r.at.Sub(start))
		}
		slices.Sort(back)
		if len(back) != 20 || back[0] < 20*time.Second || back[19]-back[0] < 4*time.Second {
			t.Errorf("came back from %v to %v", back[0], back[len(back)-1])
		}
	})
}

func TestReportStops(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
	}{{"in a try", silent}, {"while waiting", status(503, "", "Retry-After", "50")}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lost := errors.New("the lock is lost")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(3*time.Second, func() { cancel(lost) })
				start := time.Now()
				_, err := serve(t, tc.handler).client(nil).Report(ctx, callbackURL, "res_an_1_7", resultBody)
				if !errors.Is(err, lost) || time.Since(start) != 3*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		})
	}
}

func TestReportRefusesBeforeSending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := serve(t, status(200, ""))
		client := n.client(nil)
		_, err := client.Report(t.Context(), "http://evil.test/?"+canary, "res_an_1_7", resultBody)
		wantFault(t, err, protocol.CodeHostNotAllowed, false)
		_, err = client.Report(t.Context(), callbackURL, "res_an_1_7", make([]byte, protocol.MaxResultBytes+1))
		wantFault(t, err, protocol.CodeResultRefused, false)
		if len(n.seen()) != 0 {
			t.Error("something was sent")
		}
	})
}
