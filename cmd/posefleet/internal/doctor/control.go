package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 10

// controlArea asks the control plane for claims that can't exist. How it refuses them proves what it thinks of the signature.
type controlArea struct {
	base *url.URL
	// from names the variables that the URL comes from.
	from    string
	secrets []webhook.Secret
	client  *http.Client
}

// answer is how one probe ended.
type answer struct {
	status int
	code   protocol.Code // of the problem document, if it is one
	// ahead is how far the control plane's clock is before ours, give or take uncertain; known is false if it does not tell.
	ahead, uncertain time.Duration
	known            bool
}

// verified tells that the signature was looked at and found good: the claim is unknown, or whatever else a control plane may say of it.
func (a answer) verified() bool {
	return a.status == http.StatusNotFound || a.status == http.StatusGone || a.status == http.StatusConflict || a.status == http.StatusOK
}

func (a answer) refused() bool {
	return a.status == http.StatusUnauthorized || a.status == http.StatusForbidden
}

// examineControl answers the findings about reachability, clock and secret. Without an answer there is only the first. The URL comes from the
// variables that from names.
func examineControl(ctx context.Context, controlURL, from string, secrets []webhook.Secret) []Finding {
	base, err := url.Parse(controlURL)
	if err != nil || base.Host == "" {
		return []Finding{failure("control plane", "correct "+from, "its URL can't be read")}
	}

	transport := &http.Transport{DisableKeepAlives: true} // and no proxy, like a worker
	c := &controlArea{base: base, from: from, secrets: secrets, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}

	// Signed by nobody's secret: whoever accepts it accepts everything.
	stranger, err := webhook.ParseSecrets(webhook.Generate())
	if err != nil {
		return []Finding{failure("control plane", "", "%s", err)}
	}

	first, err := c.probe(ctx, stranger, time.Now())
	if err != nil {
		return []Finding{c.unreachable(err)}
	}

	if f, ok := c.reachable(first); !ok {
		return []Finding{f}
	}

	found := []Finding{good("control plane", "%s answers", c.shown()), c.clock(first)}

	return append(found, c.signature(ctx, first))
}

// shown is the URL without what may be secret in it.
func (c *controlArea) shown() string {
	u := url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: c.base.Path}

	return u.String()
}

func (c *controlArea) unreachable(err error) Finding {
	return failure("control plane", "start the control plane, or correct "+c.from+", or let the network through",
		"%s can't be reached: %s", c.shown(), reason(err))
}

// reachable judges the answer to a false signature: a control plane says 401.
func (c *controlArea) reachable(a answer) (Finding, bool) {
	const name = "control plane"

	switch {
	case a.refused():
		return Finding{}, true
	case a.status/100 == 3:
		return failure(name, "give the final URL: redirects are never followed", "%s answers with a redirect (%d)", c.shown(), a.status), false
	case a.status == http.StatusTooManyRequests || a.status >= 500:
		return failure(name, "look at the control plane's log and its database", "%s answers %d", c.shown(), a.status), false
	case a.code == protocol.CodeUnknownAnalysis:
		return failure("signature", "let the control plane verify signatures (contract, section 4)",
			"the control plane at %s accepts a signature by a secret that it can't know", c.shown()), false
	}

	return failure(name, "correct "+c.from+", its path included",
		"%s answers %d to a claim with a false signature: that is no control plane", c.shown(), a.status), false
}

func (*controlArea) clock(a answer) Finding {
	if !a.known {
		return warning("control clock", "let the control plane, or the proxy before it, send Date", "not compared: its answers have no Date")
	}

	return clock("control clock", "the control plane's", a.ahead, a.uncertain)
}

// signature tries each secret alone, and if all are refused while the clocks differ, with the control plane's time.
func (c *controlArea) signature(ctx context.Context, first answer) Finding {
	const name = "signature"

	accepted, refused, err := c.sort(ctx, 0)

	switch {
	case err != nil:
		return c.unreachable(err)
	case len(refused) == 0:
		return good(name, "the control plane accepts %s", prints(accepted))
	case len(accepted) > 0:
		return warning(name, "end the rotation: the control plane has to know the newest one",
			"the control plane accepts %s but not %s", prints(accepted), prints(refused))
	case first.known && first.ahead.Abs() > clockFail/2:
		late, _, err := c.sort(ctx, first.ahead)
		if err == nil && len(late) > 0 {
			return failure(name, "set the clock right, see control clock",
				"the secret %s is right, but this clock is off by %s and signatures are refused beyond %s", prints(late), span(first.ahead), clockFail)
		}
	}

	return failure(name, "give both sides the same POSEFLEET_WORKER_SECRET and compare the fingerprints in their logs",
		"the control plane refuses %s: it has another secret", prints(refused))
}

// sort finds out which secrets are accepted, with our clock moved by the given span.
func (c *controlArea) sort(ctx context.Context, moved time.Duration) (accepted, refused []webhook.Secret, err error) {
	for _, s := range c.secrets {
		a, err := c.probe(ctx, []webhook.Secret{s}, time.Now().Add(moved))

		switch {
		case err != nil:
			return accepted, refused, err
		case a.verified():
			accepted = append(accepted, s)
		case a.refused():
			refused = append(refused, s)
		default:
			return accepted, refused, fmt.Errorf("it answers %d", a.status)
		}
	}

	return accepted, refused, nil
}

// probe asks for the claim of an analysis that can't exist: nobody else makes that id, and it is new each time.
func (c *controlArea) probe(ctx context.Context, secrets []webhook.Secret, at time.Time) (answer, error) {
	id := "doctor_" + rand.Text()

	body, err := json.Marshal(protocol.RedeemRequest{AnalysisID: id, WorkerID: probeJob, Source: protocol.SourceHTTP, JobID: id, Attempt: 1})
	if err != nil {
		return answer{}, err
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath("v1", "claims", id).String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}

	maps.Copy(req.Header, webhook.NewSigner(secrets).Header(webhook.NewID("doctor"), at, body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "posefleet-doctor")

	sent := time.Now()

	res, err := c.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()

	a := answer{status: res.StatusCode}
	trip := time.Since(sent)

	if date, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		// The header has whole seconds, cut off.
		a.known, a.uncertain = true, trip/2+500*time.Millisecond
		a.ahead = date.Add(500 * time.Millisecond).Sub(sent.Add(trip / 2))
	}

	var problem protocol.Problem
	if text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err == nil && json.Unmarshal(text, &problem) == nil {
		a.code = problem.Code
	}

	return a, nil
}
