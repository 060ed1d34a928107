package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/control/page"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const evil = `</script><img src=x onerror=alert(1)>"'`

var errNone = errors.New("none")

// source is a page's source with one analysis whose every text is hostile.
type source struct{}

func (source) List(_ context.Context, f page.Filter, cursor string) (page.Listing, error) {
	if cursor == "bad" {
		return page.Listing{}, errNone
	}

	return page.Listing{
		Items: []page.Item{{ID: "an_1", Status: "queued", Worker: evil, Name: evil, Account: f.Account, Clips: 2}}, Next: "next=&", Statuses: []string{"queued", "failed"},
	}, nil
}

func (source) Fleet(_ context.Context, span string) (page.Fleet, error) {
	at := time.Unix(0, 0)
	points := []page.Point{{At: at, Value: 1}, {At: at.Add(time.Minute), Value: 7}, {At: at.Add(30 * time.Minute), Value: 3}}

	return page.Fleet{
		Span: span, Spans: []string{"1h", "6h"}, Facts: []page.Fact{{Name: "Queue", Value: evil}},
		Charts: []page.Chart{
			{ID: "depth", Title: "Queue depth", From: at, To: at.Add(time.Hour), Series: []page.Series{{Name: evil, Points: points, Gap: 2 * time.Minute}}},
			{ID: "size", Title: "Fleet size", From: at, To: at.Add(time.Hour), Series: []page.Series{{Name: "desired", Points: points, Steps: true}}},
			{ID: "none", Title: "Nothing"},
		},
	}, nil
}

func (source) Analysis(_ context.Context, id string) (page.Analysis, error) {
	if id != "an_1" {
		return page.Analysis{}, errNone
	}
	data, err := json.Marshal(map[string]string{"error": evil})

	return page.Analysis{
		ID: "an_1", Status: "failed", Error: evil, Data: data,
		Clips:    []page.Clip{{ID: "c1", Name: evil, ContentType: evil}, {ID: "c2", Preview: true, PreviewType: "video/mp4"}},
		Timeline: []page.Event{{At: time.Unix(0, 0), Kind: "taken_over", Worker: evil, Source: "queue", Detail: evil, Actor: evil, Epoch: 3, Attempt: 2}},
		Executions: []page.Execution{{
			Epoch: 3, Worker: evil, Source: "queue", Attempt: 2, Started: time.Unix(0, 0), Ended: time.Unix(61, 0), End: "taken_over", Detail: evil, Late: evil,
		}},
		Runs:    []page.Run{{Reason: "submitted", Stage: evil, Way: evil}},
		Credits: []page.Credit{{Account: evil, State: "settled"}},
		Ledger:  []page.Entry{{Effect: "notice", Instance: evil, Outcome: evil}},
		Actions: []page.Action{{Name: "retry", Label: "Retry", Explains: evil, Key: evil}},
	}, err
}

func (source) Fault(error) (int, string) { return http.StatusNotFound, "There is " + evil }

func get(t *testing.T, h http.HandlerFunc, target, id string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	r.SetPathValue("id", id)
	w := httptest.NewRecorder()
	h(w, r)

	return w
}

// No text of a worker, an uploader or a fault becomes markup or script, wherever it stands.
func TestHostileText(t *testing.T) {
	t.Parallel()
	p := page.New(source{}, slog.New(slog.DiscardHandler))
	for name, w := range map[string]*httptest.ResponseRecorder{
		"list":     get(t, p.List, "/?account="+url.QueryEscape(evil), ""),
		"fleet":    get(t, p.Fleet, "/fleet", ""),
		"analysis": get(t, p.Analysis, "/analyses/an_1", "an_1"),
		"fault":    get(t, p.Analysis, "/analyses/other", "other"),
		"bad page": get(t, p.List, "/?cursor=bad", ""),
	} {
		body := w.Body.String()
		if strings.Contains(body, "<img") || strings.Contains(body, evil[:12]) {
			t.Errorf("%s: %s", name, body)
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s has no policy", name)
		}
	}
}

func TestAnalysis(t *testing.T) {
	t.Parallel()
	p := page.New(source{}, slog.New(slog.DiscardHandler))
	w := get(t, p.Analysis, "/analyses/an_1", "an_1")
	for _, want := range []string{
		`id="state" class="state" data-status="failed"`, `src="/v1/analyses/an_1/clips/c1"`, `data-clip="c2"`, `<b>taken over</b>`,
		`<p class="id">an_1</p>`, `<section id="player" aria-label="Clip with skeleton" hidden>`, `preload="none"`, `epoch 3`, `queue, attempt 2`, `datetime="1970-01-01T00:00:00Z"`, `"PreviewType":"video/mp4"`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page lacks %s:\n%s", want, w.Body)
		}
	}
	if w := get(t, p.Analysis, "/analyses/other", "other"); w.Code != http.StatusNotFound {
		t.Errorf("unknown: %d", w.Code)
	}
	if w := get(t, p.List, "/", ""); !strings.Contains(w.Body.String(), `<span class="id">an_1</span>`) {
		t.Errorf("no id beside the clip's name: %s", w.Body)
	}
	if w := get(t, p.List, "/", ""); !strings.Contains(w.Body.String(), `href="/?cursor=next%3D%26"`) {
		t.Errorf("no way to older ones: %s", w.Body)
	}
}

// What the script fetches again is the same part of the page, alone.
func TestParts(t *testing.T) {
	t.Parallel()
	p := page.New(source{}, slog.New(slog.DiscardHandler))
	for name, c := range map[string]struct {
		whole, part string
		want        []string
	}{
		"list": {get(t, p.List, "/?status=failed&account=team", "").Body.String(), get(t, p.List, "/?status=failed&account=team&part=live", "").Body.String(), []string{
			`<table id="analyses">`, `data-label="Account">team<`, `href="/?account=team&amp;cursor=next%3D%26&amp;status=failed"`,
		}},
		"analysis": {get(t, p.Analysis, "/analyses/an_1", "an_1").Body.String(), get(t, p.Analysis, "/analyses/an_1?part=live", "an_1").Body.String(), []string{
			`data-epoch="3" data-end="taken_over"`, `1m1s`, `<b>settled</b>`, `data-effect="notice"`, `action="/analyses/an_1/actions"`, `<span class="actor">by `,
		}},
		"fleet": {get(t, p.Fleet, "/fleet?since=6h", "").Body.String(), get(t, p.Fleet, "/fleet?since=6h&part=live", "").Body.String(), []string{
			// The third point is too far from the second for a line, and a step stays to the end.
			`d="M0.0 143.9L12.0 53.3M360.0 113.7"`, `d="M0.0 143.9L12.0 143.9L12.0 53.3L360.0 53.3L360.0 113.7L720 113.7"`, `<td>3</td><td>1</td><td>7</td>`, `Nothing has been counted`,
		}},
	} {
		if !strings.Contains(c.whole, "<html") || strings.Contains(c.part, "<html") || !strings.Contains(c.whole, c.part) && name != "analysis" {
			t.Errorf("%s: the part is not one of the page:\n%s", name, c.part)
		}
		for _, want := range c.want {
			if !strings.Contains(c.part, want) {
				t.Errorf("%s lacks %s:\n%s", name, want, c.part)
			}
		}
	}
}

func TestStatic(t *testing.T) {
	t.Parallel()
	p := page.New(source{}, slog.New(slog.DiscardHandler))
	for path, status := range map[string]int{
		"/static/page.css": 200, "/static/player.js": 200, "/static/curves.js": 200, "/static/operators.css": 200, "/static/icon.svg": 200, "/static/": 404, "/static/../page.go": 404, "/static/list.html": 404,
	} {
		w := get(t, p.Static().ServeHTTP, path, "")
		if w.Code != status {
			t.Errorf("%s: %d", path, w.Code)
		}
		// Without the version in the address the browser has to ask again.
		if status == 200 && w.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %s", path, w.Header().Get("Cache-Control"))
		}
	}
}
