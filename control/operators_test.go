package control_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	first := decode[created](t, b.api(t, http.MethodPost, "/v1/analyses", newAnalysis("an_1")).want(t, http.StatusCreated, ""))
	again := decode[created](t, b.api(t, http.MethodPost, "/v1/analyses", newAnalysis("an_1")).want(t, http.StatusOK, ""))
	if first.AnalysisID != "an_1" || again.AnalysisID != "an_1" || again.Uploads[0].Method != http.MethodPut || again.Uploads[0].URL == "" {
		t.Fatalf("%+v, %+v", first, again)
	}
	other := newAnalysis("an_1")
	other["params"] = map[string]any{"model": "lite"}
	b.api(t, http.MethodPost, "/v1/analyses", other).want(t, http.StatusConflict, protocol.CodeConflict)
	named := decode[created](t, b.api(t, http.MethodPost, "/v1/analyses", newAnalysis("")).want(t, http.StatusCreated, ""))
	if err := protocol.ValidateID(named.AnalysisID); err != nil {
		t.Errorf("the id that was chosen: %v", err)
	}
	// The bodies that are refused, each by one change.
	for name, change := range map[string]func(a, clip map[string]any){
		"integer id":      func(a, _ map[string]any) { a["analysisId"] = "17" },
		"reserved id":     func(a, _ map[string]any) { a["analysisId"] = "completed" },
		"odd id":          func(a, _ map[string]any) { a["analysisId"] = "a/b" },
		"no clips":        func(a, _ map[string]any) { a["clips"] = []any{} },
		"clip twice":      func(a, c map[string]any) { a["clips"] = []any{c, c} },
		"clip id":         func(_, c map[string]any) { c["id"] = "../x" },
		"negative size":   func(_, c map[string]any) { c["size"] = -1 },
		"too large":       func(_, c map[string]any) { c["size"] = int64(6 << 30) },
		"no sha256":       func(_, c map[string]any) { delete(c, "sha256") },
		"odd type":        func(_, c map[string]any) { c["contentType"] = "video/mp4\nx" },
		"NUL in the name": func(_, c map[string]any) { c["name"] = "a\x00" },
		"unknown model":   func(a, _ map[string]any) { a["params"] = map[string]any{"model": "best"} },
		"athlete nowhere": func(a, _ map[string]any) {
			a["params"] = map[string]any{"athlete": map[string]any{"clip": "c9", "t": 0, "x": 0, "y": 0}}
		},
		"params no object": func(a, _ map[string]any) { a["params"] = []int{1} },
	} {
		a := newAnalysis("an_bad")
		change(a, a["clips"].([]any)[0].(map[string]any))
		if r := b.api(t, http.MethodPost, "/v1/analyses", a); r.status != http.StatusBadRequest || r.problem(t).Detail == "" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	r := b.do(t, http.MethodPost, "/v1/analyses", http.Header{"Content-Type": {"text/plain"}}, []byte(`{}`))
	r.want(t, http.StatusUnsupportedMediaType, protocol.CodeUnsupportedMedia)
	r = b.do(t, http.MethodPost, "/v1/analyses", http.Header{"Content-Type": {"application/json"}}, []byte(strings.Repeat(" ", 300<<10)))
	r.want(t, http.StatusRequestEntityTooLarge, protocol.CodeRequestTooLarge)
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	path := "/v1/analyses/an_1/submit"
	b.api(t, http.MethodPost, path, nil).want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)
	c := decode[created](t, b.api(t, http.MethodPost, "/v1/analyses", newAnalysis("an_1")).want(t, http.StatusCreated, ""))
	b.api(t, http.MethodPost, path, nil).want(t, http.StatusConflict, protocol.CodeInputMissing)
	b.api(t, http.MethodPost, path, map[string]string{"dispatch": "pigeon"}).want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)
	b.put(t, c.Uploads[0].URL, c.Uploads[0].Headers, clipBytes)
	r := b.api(t, http.MethodPost, path, map[string]string{"dispatch": "none"}).want(t, http.StatusAccepted, "")
	if a := decode[struct{ AnalysisID, Status string }](t, r); a.AnalysisID != "an_1" || a.Status != "queued" {
		t.Fatalf("%s", r.body)
	}
	b.api(t, http.MethodPost, path, map[string]string{"dispatch": "queue"}).want(t, http.StatusAccepted, "")
	b.api(t, http.MethodPost, "/v1/analyses/an_1/cancel", nil).want(t, http.StatusAccepted, "")
	b.api(t, http.MethodPost, "/v1/analyses/an_1/cancel", map[string]any{}).want(t, http.StatusAccepted, "")
	b.delivered(t, "an_2")
	b.api(t, http.MethodPost, "/v1/analyses/an_2/cancel", nil).want(t, http.StatusConflict, protocol.CodeConflict)
	b.api(t, http.MethodPost, "/v1/analyses/nobody/cancel", nil).want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)
}

// What lies in storage is not what was announced: somebody else wrote there, or a restore brought something older.
func TestSubmitMismatch(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.uploaded(t, "an_1")
	dir := strings.TrimPrefix(b.cfg.StorageURL, "file:")
	for name, text := range map[string]string{
		"data/analyses/an_1/clips/c1":      "x",
		"meta/analyses/an_1/clips/c1.json": `{"size":1,"sha256":"` + sum([]byte("x")) + `","contentType":"video/mp4"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.api(t, http.MethodPost, "/v1/analyses/an_1/submit", nil).want(t, http.StatusConflict, protocol.CodeInputMismatch)
	if s := b.status(t, "an_1"); s != "uploading" {
		t.Fatalf("the analysis is %s", s)
	}
}

func TestListAndGet(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	var want []string
	for i := range 5 {
		id := fmt.Sprintf("an_%d", i)
		b.queued(t, id)
		want = append([]string{id}, want...)
	}
	type list struct {
		Analyses []struct{ AnalysisID, Status string }
		Next     string
	}
	var got []string
	for cursor := ""; ; {
		p := decode[list](t, b.api(t, http.MethodGet, "/v1/analyses?limit=2&cursor="+cursor, nil).want(t, http.StatusOK, ""))
		for _, a := range p.Analyses {
			got = append(got, a.AnalysisID)
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	for _, q := range []string{"limit=0", "limit=201", "limit=x", "cursor=!!"} {
		b.api(t, http.MethodGet, "/v1/analyses?"+q, nil).want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)
	}
	b.api(t, http.MethodGet, "/v1/analyses/nobody", nil).want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)
	b.api(t, http.MethodGet, "/v1/analyses/an_1/pose", nil).want(t, http.StatusNotFound, protocol.CodeNotFound)
	b.api(t, http.MethodGet, "/v1/analyses/an_1/clips/c9", nil).want(t, http.StatusNotFound, protocol.CodeNotFound)

	c := b.redeem(t, redeemRequest("an_1", "w1", 1))
	b.report(t, c, failed(c)).want(t, http.StatusOK, "")
	r := b.api(t, http.MethodGet, "/v1/analyses/an_1", nil).want(t, http.StatusOK, "")
	a := decode[struct {
		Status, ErrorCode, Error string
		Result                   protocol.Result
		Timeline                 []struct{ Kind string }
	}](t, r)
	if a.Status != "failed" || a.ErrorCode != "invalid_media" || a.Error == "" || a.Result.Type != protocol.ResultFailed || len(a.Timeline) != 4 {
		t.Fatalf("%s", r.body)
	}
	if strings.Contains(string(r.body), `"claim":"clm_`) && !strings.Contains(string(r.body), `"result"`) {
		t.Error("a claim is shown outside of the result")
	}
}

// A rendition that browsers play can be put beside a clip.
func TestPreview(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.queued(t, "an_1")
	path := "/v1/analyses/an_1/clips/c1/preview"
	b.api(t, http.MethodGet, path, nil).want(t, http.StatusNotFound, protocol.CodeNotFound)
	film := []byte("a film")
	r := b.api(t, http.MethodPost, path, map[string]any{"size": len(film), "sha256": sum(film), "contentType": "video/mp4"})
	u := decode[struct {
		URL     string
		Headers map[string]string
	}](t, r.want(t, http.StatusOK, ""))
	b.put(t, u.URL, u.Headers, film)
	if got := b.api(t, http.MethodGet, path, nil).want(t, http.StatusOK, ""); string(got.body) != "a film" {
		t.Fatalf("%q", got.body)
	}
	b.api(t, http.MethodPost, path, map[string]any{"size": 1}).want(t, http.StatusBadRequest, protocol.CodeInvalidRequest)
	b.api(t, http.MethodPost, "/v1/analyses/an_1/clips/c2/preview", nil).want(t, http.StatusNotFound, protocol.CodeNotFound)
	if page := b.do(t, http.MethodGet, "/analyses/an_1", nil, nil); !strings.Contains(string(page.body), `src="/v1/analyses/an_1/clips/c1/preview"`) {
		t.Error("the page does not show the rendition")
	}
}

const token = "a token of 16 or more characters"

// Who is let in: by listener, Host, token and origin.
func TestOperatorsTable(t *testing.T) {
	t.Parallel()
	loopback := setup(t, func(c *control.Config) { c.PublicURL = "https://control.example/base/" })
	guarded := setup(t, func(c *control.Config) { c.APIToken = token })
	proxied := setup(t, func(c *control.Config) { c.PublicURL, c.APIToken = "https://control.example/", token })
	wide := setup(t, func(c *control.Config) { c.Listen, c.APIToken = "0.0.0.0:0", token })
	shut := setup(t, func(c *control.Config) { c.Listen = "0.0.0.0:0" })
	bearer := http.Header{"Authorization": {"Bearer " + token}}
	host := func(h string) http.Header { return http.Header{"Host": {h}} }
	for _, c := range []struct {
		name   string
		b      *bundle
		header http.Header
		status int
	}{
		{"loopback", loopback, http.Header{}, 200},
		{"loopback by name", loopback, host("localhost:80"), 200},
		{"loopback by v6", loopback, host("[::1]:80"), 200},
		{"loopback by public name", loopback, host("control.example"), 200},
		{"loopback by public name, as through a proxy, with a token set", proxied, host("control.example"), 401},
		{"loopback by public name with the token", proxied, http.Header{"Host": {"control.example"}, "Authorization": {"Bearer " + token}}, 200},
		{"loopback beside the proxy", proxied, http.Header{}, 200},
		{"loopback rebound", loopback, host("evil.example"), 403},
		{"loopback rebound, token needed", guarded, host("evil.example"), 401},
		{"loopback with a token set", guarded, http.Header{}, 200},
		{"wide without", wide, http.Header{}, 401},
		{"wide with another token", wide, http.Header{"Authorization": {"Bearer x"}}, 401},
		{"wide by Basic", wide, http.Header{"Authorization": {"Basic " + token}}, 401},
		{"wide with the token", wide, bearer, 200},
		{"wide with the scheme in small letters", wide, http.Header{"Authorization": {"bearer " + token}}, 200},
		{"wide with half a scheme", wide, http.Header{"Authorization": {"Bear " + token}}, 401},
		{"no token set", shut, bearer, 403},
		{"no token set, none given", shut, http.Header{}, 403},
	} {
		_, port, err := net.SplitHostPort(c.b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/v1/analyses", "/"} {
			r := c.b.do(t, http.MethodGet, "http://127.0.0.1:"+port+path, c.header.Clone(), nil)
			if r.status != c.status {
				t.Errorf("%s: GET %s: %d, want %d", c.name, path, r.status, c.status)
			}
		}
	}
	for _, c := range []*bundle{loopback, wide, shut} {
		if warned := strings.Contains(c.logs.String(), "operator API and page are off"); warned != (c == shut) {
			t.Errorf("listener %s: warned %t", c.Addr(), warned)
		}
	}
	for _, c := range []*bundle{loopback, guarded, proxied, wide, shut} {
		if warned := strings.Contains(c.logs.String(), "may operate"); warned != (c == loopback) {
			t.Errorf("listener %s with the public URL %s: warned %t", c.Addr(), c.URL(), warned)
		}
	}
	// Workers need no token, and the health check neither.
	_, port, _ := net.SplitHostPort(shut.Addr())
	shut.do(t, http.MethodGet, "http://127.0.0.1:"+port+"/healthz", nil, nil).want(t, http.StatusOK, "")
	shut.post(t, "http://127.0.0.1:"+port+"/v1/claims/nobody", webhook.NewID("req"), redeemRequest("nobody", "w", 1)).
		want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)
	if u := wide.URL(); u != "http://127.0.0.1:"+strings.Split(wide.Addr(), ":")[len(strings.Split(wide.Addr(), ":"))-1] {
		t.Errorf("public URL of a listener on all interfaces: %s", u)
	}
	if loopback.URL() != "https://control.example/base" {
		t.Errorf("public URL %s", loopback.URL())
	}
}

// A page of another origin can't make the browser act on an open loopback listener.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.queued(t, "an_1")
	for name, h := range map[string]http.Header{
		"by fetch metadata": {"Sec-Fetch-Site": {"cross-site"}},
		"by origin":         {"Origin": {"https://evil.example"}},
	} {
		b.do(t, http.MethodPost, "/v1/analyses/an_1/cancel", h, nil).want(t, http.StatusForbidden, protocol.CodeUnauthorized)
		if s := b.status(t, "an_1"); s != "queued" {
			t.Fatalf("%s: %s", name, s)
		}
	}
	b.do(t, http.MethodPost, "/v1/analyses/an_1/cancel", http.Header{"Sec-Fetch-Site": {"same-origin"}}, nil).want(t, http.StatusAccepted, "")
}

// A browser gives the token once and gets a cookie for it.
func TestLogin(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *control.Config) { c.Listen, c.APIToken = "0.0.0.0:0", token })
	_, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	base := "http://127.0.0.1:" + port
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if r := b.do(t, http.MethodGet, base+"/", nil, nil); r.status != http.StatusUnauthorized || !strings.Contains(string(r.body), `name="token"`) {
		t.Fatalf("%d %s", r.status, r.body)
	}
	post := func(given string) reply {
		form := url.Values{"token": {given}}.Encode()

		return b.do(t, http.MethodPost, base+"/login", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(form))
	}
	if r := post("wrong"); r.status != http.StatusUnauthorized || r.header.Get("Set-Cookie") != "" {
		t.Fatalf("wrong token: %d", r.status)
	}
	r := post(token)
	cookie, err := http.ParseSetCookie(r.header.Get("Set-Cookie"))
	if err != nil || r.status != http.StatusSeeOther || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || strings.Contains(cookie.Value, token) {
		t.Fatalf("%d %v %v", r.status, cookie, err)
	}
	if r := b.do(t, http.MethodGet, base+"/", http.Header{"Cookie": {cookie.Name + "=" + cookie.Value}}, nil); r.status != http.StatusOK {
		t.Fatalf("with the cookie: %d", r.status)
	}
	if r := b.do(t, http.MethodGet, base+"/", http.Header{"Cookie": {cookie.Name + "=0"}}, nil); r.status != http.StatusUnauthorized {
		t.Fatalf("with another cookie: %d", r.status)
	}
	if strings.Contains(b.logs.String(), token) {
		t.Error("the token is in the log")
	}
}

// The live view tells of every change and ends when nothing can follow.
func TestLive(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.queued(t, "an_1")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.Addr()+"/v1/analyses/an_1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	next := func() string {
		event := ""
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case name == "event":
				event = value
			case name == "data" && event == "end":
				return "end"
			case name == "data":
				var a struct{ Status string }
				if err := json.Unmarshal([]byte(value), &a); err != nil {
					t.Fatal(err)
				}

				return a.Status
			}
		}

		return "closed"
	}
	want := func(status string) {
		t.Helper()
		for got := next(); got != status; got = next() {
			if got == "closed" || got == "end" {
				t.Fatalf("%s before %s", got, status)
			}
		}
	}
	want("queued")
	c := b.redeem(t, redeemRequest("an_1", "w1", 1))
	want("processing")
	b.report(t, c, completed(c, b.artifact(t, c, clipBytes))).want(t, http.StatusOK, "")
	want("delivered")
	want("end")
	if got := next(); got != "closed" {
		t.Fatalf("%s after the end", got)
	}
	b.api(t, http.MethodGet, "/v1/analyses/nobody/events", nil).want(t, http.StatusNotFound, protocol.CodeUnknownAnalysis)
}

// The end of the process does not wait for those who watch.
func TestLiveEndsWithServer(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.queued(t, "an_1")
	resp, err := b.client.Get("http://" + b.Addr() + "/v1/analyses/an_1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	done := make(chan struct{})
	go func() { // ends with stop
		defer close(done)
		b.stop()
	}()
	wait.For(t, time.Minute, func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}, "the server does not end")
	// Had it waited until running requests are cut off, the stream would have no end.
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the server waits for a watcher, and cuts it off: %v", err)
	}
}
