package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// message is one request that went through the front, and how it was answered.
type message struct {
	Method, Path string
	WebhookID    string
	Header       http.Header
	Body         []byte
	// Status is 0 while there is no answer, and when it was lost.
	Status      int
	Answer      []byte
	Came, Ended time.Time
}

// is tells whether the message is a POST to this kind of endpoint (redeem, renew, release, artifact, result) for this analysis.
func (m *message) is(kind, id string) bool {
	path := map[string]string{
		"redeem": "/v1/claims/" + id, "renew": "/v1/claims/" + id + "/renew", "release": "/v1/claims/" + id + "/release",
		"artifact": "/v1/claims/" + id + "/artifact", "result": "/v1/results/" + id,
	}[kind]

	return m.Method == http.MethodPost && m.Path == path
}

// resultType is the type of a posted result.
func (m *message) resultType() protocol.ResultType {
	var r protocol.Result
	_ = json.Unmarshal(m.Body, &r)

	return r.Type
}

// front stands before the control plane as the network does: workers reach it by the front only, and a test can hold a message, lose its
// answer or drop it.
type front struct {
	*httptest.Server

	mu       sync.Mutex
	target   *url.URL
	messages []*message
	// before may hold a request or, by returning false, lose it; after may lose the answer. Both run on the request's goroutine.
	before, after func(ctx context.Context, m *message) bool
	// instead answers a request in the control plane's place, with a status; 0 lets it pass.
	instead func(m *message) int
	// storageFaults is how many requests to the storage are still to be answered 503.
	storageFaults int
}

// newFront listens at once; it answers 502 until it has a target.
func newFront(t testing.TB) *front {
	t.Helper()

	f := &front{}
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(f.to()); r.Out.Host = f.to().Host },
		Transport:    &http.Transport{DisableKeepAlives: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:     nil,
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.pass(proxy, w, r) }))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})

	return f
}

// pointTo sets the control plane's address.
func (f *front) pointTo(t testing.TB, base string) {
	t.Helper()

	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	f.target = u
}

func (f *front) to() *url.URL {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.target == nil {
		return &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	}

	return f.target
}

// intercept sets what happens to messages from now on; nil lets them pass.
func (f *front) intercept(before, after func(ctx context.Context, m *message) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.before, f.after = before, after
}

// answerInstead sets what answers in the control plane's place; nil ends it.
func (f *front) answerInstead(instead func(m *message) int) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.instead = instead
}

// seen are the messages of a kind for an analysis, in the order of their coming.
func (f *front) seen(kind, id string) []message {
	f.mu.Lock()
	defer f.mu.Unlock()

	var found []message

	for _, m := range f.messages {
		if m.is(kind, id) {
			found = append(found, *m)
		}
	}

	return found
}

// record is everything that went through so far.
func (f *front) record() []message {
	f.mu.Lock()
	defer f.mu.Unlock()

	all := make([]message, 0, len(f.messages))
	for _, m := range f.messages {
		all = append(all, *m)
	}

	return all
}

func (f *front) pass(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/v1/claims/") && !strings.HasPrefix(r.URL.Path, "/v1/results/") {
		f.passMedia(proxy, w, r)

		return
	}

	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}

	m := &message{Method: r.Method, Path: r.URL.Path, WebhookID: r.Header.Get("webhook-id"), Header: r.Header.Clone(), Body: body, Came: time.Now()}

	f.mu.Lock()
	f.messages = append(f.messages, m)
	before, after, instead := f.before, f.after, f.instead
	f.mu.Unlock()

	if before != nil && !before(r.Context(), m) {
		panic(http.ErrAbortHandler) // the connection breaks, as when a network loses a message
	}

	if instead != nil {
		if status := instead(m); status != 0 {
			f.ended(m, &httptest.ResponseRecorder{Code: status, Body: &bytes.Buffer{}})
			w.WriteHeader(status)

			return
		}
	}

	// A request that was held must still arrive when its sender is gone by then.
	onward := r.WithContext(context.WithoutCancel(r.Context()))
	onward.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	proxy.ServeHTTP(answer, onward)
	f.ended(m, answer)

	if after != nil && !after(r.Context(), m) {
		panic(http.ErrAbortHandler)
	}

	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the worker may be gone
}

// passMedia passes on what is no message: clips and documents from and to storage.
func (f *front) passMedia(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	fail := r.Method == http.MethodGet && f.storageFaults > 0
	if fail {
		f.storageFaults--
	}
	f.mu.Unlock()

	if fail {
		http.Error(w, "SlowDown", http.StatusServiceUnavailable)

		return
	}

	proxy.ServeHTTP(w, r)
}

// failStorage lets the next n downloads fail and returns how many of the former n are still to come.
func (f *front) failStorage(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()

	left := f.storageFaults
	f.storageFaults = n

	return left
}

func (f *front) ended(m *message, answer *httptest.ResponseRecorder) {
	f.mu.Lock()
	defer f.mu.Unlock()

	m.Status, m.Answer, m.Ended = answer.Code, answer.Body.Bytes(), time.Now()
}

// alreadyDelivered tells whether the control plane said that the result was there before.
func alreadyDelivered(m message) bool {
	var a protocol.ResultAnswer

	return json.Unmarshal(m.Answer, &a) == nil && a.AlreadyDelivered
}
