// Package controltest is a control plane and a storage for tests of the worker. It keeps its state in memory, but
// behaves as the contract says at every edge that the worker can meet: signatures are verified over the raw bytes,
// claims have leases and epochs, a result counts by compare-and-set, clips are served in ranges, artifacts must
// have the size and the sum that were announced. Tests make it fail on purpose.
package controltest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
)

// Canary is in the query of every URL that the plane hands out; it must not be seen anywhere.
const Canary = "canary-url-signature"

// Secrets of the two directions.
type Secrets struct{ Worker, Door string }

// NewSecrets makes random ones.
func NewSecrets() Secrets { return Secrets{Worker: webhook.Generate(), Door: webhook.Generate()} }

// Plane is a running control plane.
type Plane struct {
	Server   *httptest.Server
	Lease    time.Duration // of new claims; default 60 s
	Callback string        // URL of all callbacks instead of the right one, if set
	verifier *webhook.Verifier

	mu       sync.Mutex
	analyses map[string]*analysis
	blobs    map[string][]byte // artifacts by key
	results  []Result
	calls    []Call
	faults   map[string]func(http.ResponseWriter, *http.Request) bool // by operation
}

// Result is one result message that came in.
type Result struct {
	WebhookID string
	Body      []byte
	Parsed    protocol.Result
	Status    int // the answer
}

// Call is one authentic request, for tests that look at the order of effects.
type Call struct {
	Operation string // redeem renew release artifact put get result
	ID        string // the analysis
	At        time.Time
	Status    int
	Redeem    protocol.RedeemRequest // of redeem
	Trace     string                 // the header traceparent
}

type analysis struct {
	clips    []clip
	params   json.RawMessage
	state    string // "", delivered, failed, cancelled
	holder   protocol.RedeemRequest
	claim    string
	epoch    int64
	until    time.Time
	stored   *protocol.StoredArtifact
	storedID string // webhook-id of the result that won
}

type clip struct {
	id   string
	body []byte
}

// Start starts a control plane that accepts messages signed with the worker secret.
func Start(t testing.TB, s Secrets) *Plane {
	t.Helper()
	keys, err := webhook.ParseSecrets(s.Worker)
	if err != nil {
		t.Fatal(err)
	}
	p := &Plane{
		Lease: time.Minute, verifier: webhook.NewVerifier(keys), analyses: map[string]*analysis{}, blobs: map[string][]byte{},
		faults: map[string]func(http.ResponseWriter, *http.Request) bool{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/claims/{id}", p.signed("redeem", p.redeem))
	mux.HandleFunc("POST /v1/claims/{id}/renew", p.signed("renew", p.renew))
	mux.HandleFunc("POST /v1/claims/{id}/release", p.signed("release", p.release))
	mux.HandleFunc("POST /v1/claims/{id}/artifact", p.signed("artifact", p.artifact))
	mux.HandleFunc("POST /v1/results/{id}", p.result)
	mux.HandleFunc("GET /files/{id}/{clip}", p.get)
	mux.HandleFunc("PUT /blobs/{id}/{name}", p.put)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Server.Close)
	return p
}

// URL is the base URL.
func (p *Plane) URL() string { return p.Server.URL }

// Host is host:port, for allow-lists.
func (p *Plane) Host() string { return strings.TrimPrefix(p.Server.URL, "http://") }

// Add makes an analysis whose clips c1, c2 … have these contents.
func (p *Plane) Add(id string, clips ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &analysis{params: json.RawMessage(`{"model":"lite","unknown":1}`)}
	for i, body := range clips {
		a.clips = append(a.clips, clip{id: fmt.Sprintf("c%d", i+1), body: []byte(body)})
	}
	p.analyses[id] = a
}

// SetParams sets what the claim says of the wishes.
func (p *Plane) SetParams(id, params string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.analyses[id].params = json.RawMessage(params)
}

// Cancel cancels an analysis as an operator would.
func (p *Plane) Cancel(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.analyses[id].state = "cancelled"
}

// Steal gives the claim to somebody else.
func (p *Plane) Steal(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.analyses[id]
	a.take(protocol.RedeemRequest{WorkerID: "thief"}, p.Lease)
}

// Free ends the present lease.
func (p *Plane) Free(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.analyses[id].until = time.Time{}
}

// Fault makes an operation misbehave: f answers the request and returns true, or returns false to let it pass. nil
// heals it.
func (p *Plane) Fault(operation string, f func(http.ResponseWriter, *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f == nil {
		delete(p.faults, operation)
		return
	}
	p.faults[operation] = f
}

// Status is a fault that answers with a status.
func Status(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		problem(w, code, protocol.CodeInternal, "")
		return true
	}
}

// State returns delivered, failed, cancelled or "" and the epoch.
func (p *Plane) State(id string) (string, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.analyses[id].state, p.analyses[id].epoch
}

// Held tells whether somebody holds a live lease.
func (p *Plane) Held(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.analyses[id].until)
}

// Results returns the result messages of an analysis, all of them for "".
func (p *Plane) Results(id string) []Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Result
	for _, r := range p.results {
		if id == "" || r.Parsed.Data.AnalysisID == id {
			out = append(out, r)
		}
	}
	return out
}

// Stored counts the results that were taken as the first of their analysis.
func (p *Plane) Stored() int {
	n := 0
	for _, r := range p.Results("") {
		if r.Status == http.StatusOK && r.Parsed.Type != protocol.ResultInterrupted {
			n++
		}
	}
	return n
}

// Calls returns the requests of an operation for an analysis; "" means any.
func (p *Plane) Calls(operation, id string) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Call
	for _, c := range p.calls {
		if (operation == "" || c.Operation == operation) && (id == "" || c.ID == id) {
			out = append(out, c)
		}
	}
	return out
}

// Blob returns a stored artifact.
func (p *Plane) Blob(key string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blobs[key]
}

// signed verifies the signature over the raw bytes and that path and body name the same analysis.
func (p *Plane) signed(operation string, f func(a *analysis, body []byte) (int, any, http.Header)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if p.fail(operation, w, r) {
			return
		}
		body, _ := io.ReadAll(r.Body)
		var named struct{ AnalysisID string }
		if _, err := p.verifier.Verify(r.Header, body); err != nil || json.Unmarshal(body, &named) != nil || named.AnalysisID != r.PathValue("id") {
			problem(w, http.StatusUnauthorized, protocol.CodeUnauthorized, "")
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		call := Call{Operation: operation, ID: named.AnalysisID, At: time.Now(), Status: http.StatusNotFound, Trace: r.Header.Get("traceparent")}
		if operation == "redeem" {
			_ = json.Unmarshal(body, &call.Redeem)
		}
		a := p.analyses[named.AnalysisID]
		if a == nil {
			p.calls = append(p.calls, call)
			problem(w, http.StatusNotFound, protocol.CodeUnknownAnalysis, "")
			return
		}
		status, answer, header := f(a, body)
		call.Status = status
		p.calls = append(p.calls, call)
		maps.Copy(w.Header(), header)
		reply(w, status, answer)
	}
}

func (p *Plane) redeem(a *analysis, body []byte) (int, any, http.Header) {
	req, err := protocol.ParseRedeemRequest(body)
	if err != nil {
		return http.StatusBadRequest, nil, nil
	}
	if a.state != "" {
		reason := protocol.GoneDelivered
		if a.state == "cancelled" {
			reason = protocol.GoneCancelled
		}
		return http.StatusGone, protocol.Problem{Type: "about:blank", Status: http.StatusGone, Reason: reason}, nil
	}
	left := time.Until(a.until)
	later := req.Source == protocol.SourceQueue && a.holder.Source == protocol.SourceQueue && req.JobID == a.holder.JobID && req.Attempt > a.holder.Attempt
	switch {
	case left > 0 && a.holder == req:
		a.until = time.Now().Add(p.Lease)
	case left > 0 && !later:
		h := http.Header{"Retry-After": {strconv.Itoa(max(1, int(math.Ceil(left.Seconds()))))}}
		return http.StatusConflict, protocol.Problem{Type: "about:blank", Status: http.StatusConflict}, h
	default:
		a.take(req, p.Lease)
	}
	return http.StatusOK, p.claim(req.AnalysisID, a), nil
}

func (a *analysis) take(req protocol.RedeemRequest, lease time.Duration) {
	a.epoch++
	a.holder, a.claim, a.until = req, fmt.Sprintf("clm_%d_%x", a.epoch, time.Now().UnixNano()), time.Now().Add(lease)
}

// claim is the answer to a redeem. params go out verbatim.
func (p *Plane) claim(id string, a *analysis) any {
	type claim struct {
		protocol.Claim
		Params json.RawMessage `json:"params"`
	}
	c := claim{Params: a.params, Claim: protocol.Claim{
		AnalysisID: id, Claim: a.claim, Epoch: a.epoch, LeaseSeconds: int(math.Ceil(p.Lease.Seconds())), Artifact: a.stored,
		Callback: protocol.Callback{URL: p.URL() + "/v1/results/" + id + "?sig=" + Canary},
	}}
	if p.Callback != "" {
		c.Callback.URL = p.Callback
	}
	for _, k := range a.clips {
		size, sum := int64(len(k.body)), sha256.Sum256(k.body)
		c.Clips = append(c.Clips, protocol.ClaimClip{
			ID: k.id, URL: p.URL() + "/files/" + id + "/" + k.id + "?sig=" + Canary, Size: &size, SHA256: hex.EncodeToString(sum[:]),
		})
	}
	return c
}

func (p *Plane) renew(a *analysis, body []byte) (int, any, http.Header) {
	if a.state == "cancelled" {
		return http.StatusGone, protocol.Problem{Type: "about:blank", Status: http.StatusGone, Reason: protocol.GoneCancelled}, nil
	}
	if !a.ours(body) {
		return http.StatusConflict, nil, nil
	}
	a.until = time.Now().Add(p.Lease)
	return http.StatusOK, protocol.LeaseAnswer{LeaseSeconds: int(math.Ceil(p.Lease.Seconds()))}, nil
}

func (p *Plane) release(a *analysis, body []byte) (int, any, http.Header) {
	if !a.ours(body) {
		return http.StatusConflict, nil, nil
	}
	a.until = time.Time{}
	return http.StatusNoContent, nil, nil
}

func (p *Plane) artifact(a *analysis, body []byte) (int, any, http.Header) {
	req, err := protocol.ParseArtifactRequest(body)
	if err != nil {
		return http.StatusBadRequest, nil, nil
	}
	if a.state != "" || !a.ours(body) {
		return http.StatusConflict, nil, nil
	}
	q := url.Values{"sig": {Canary}, "size": {strconv.FormatInt(req.Size, 10)}, "sha256": {req.SHA256}}
	a.stored = nil
	model := protocol.Model{}
	if req.Model != nil {
		model = *req.Model
	}
	key := req.AnalysisID + "/" + req.Name
	p.blobs[key+"/announced"] = mustJSON(protocol.StoredArtifact{
		Artifact: protocol.Artifact{Key: key, Size: req.Size, SHA256: req.SHA256}, Model: model, Clips: req.Clips,
	})
	return http.StatusOK, protocol.ArtifactAnswer{URL: p.URL() + "/blobs/" + key + "?" + q.Encode(), Key: key}, nil
}

// ours tells whether a lease request names the present holder's claim; the caller holds mu.
func (a *analysis) ours(body []byte) bool {
	var l protocol.LeaseRequest
	return json.Unmarshal(body, &l) == nil && l.Claim == a.claim && l.Epoch == a.epoch && time.Now().Before(a.until)
}

func (p *Plane) get(w http.ResponseWriter, r *http.Request) {
	if p.fail("get", w, r) {
		return
	}
	p.mu.Lock()
	var body []byte
	if a := p.analyses[r.PathValue("id")]; a != nil && r.URL.Query().Get("sig") == Canary {
		for _, c := range a.clips {
			if c.id == r.PathValue("clip") {
				body = c.body
			}
		}
	}
	p.calls = append(p.calls, Call{Operation: "get", ID: r.PathValue("id"), At: time.Now(), Status: http.StatusOK, Trace: r.Header.Get("traceparent")})
	p.mu.Unlock()
	if body == nil {
		http.Error(w, "<Error><Code>AccessDenied</Code></Error>", http.StatusForbidden)
		return
	}
	sum := sha256.Sum256(body)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	w.Header().Set("Content-Type", "video/mp4")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(body)))
}

func (p *Plane) put(w http.ResponseWriter, r *http.Request) {
	if p.fail("put", w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(body)
	q := r.URL.Query()
	if err != nil || q.Get("sig") != Canary || q.Get("size") != strconv.Itoa(len(body)) || q.Get("sha256") != hex.EncodeToString(sum[:]) {
		http.Error(w, "<Error><Code>BadDigest</Code></Error>", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.PathValue("id") + "/" + r.PathValue("name")
	p.blobs[key] = body
	p.calls = append(p.calls, Call{Operation: "put", ID: r.PathValue("id"), At: time.Now(), Status: http.StatusOK, Trace: r.Header.Get("traceparent")})
	var stored protocol.StoredArtifact
	if json.Unmarshal(p.blobs[key+"/announced"], &stored) == nil {
		p.analyses[r.PathValue("id")].stored = &stored
	}
}

// result is the compare-and-set that decides which result counts.
func (p *Plane) result(w http.ResponseWriter, r *http.Request) {
	if p.fail("result", w, r) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	id, err := p.verifier.Verify(r.Header, body)
	if err != nil {
		problem(w, http.StatusUnauthorized, protocol.CodeUnauthorized, "")
		return
	}
	res, err := protocol.ParseResult(body)
	if err != nil || res.Data.AnalysisID != r.PathValue("id") || len(body) > protocol.MaxResultBytes {
		problem(w, http.StatusUnprocessableEntity, protocol.CodeInvalidRequest, "")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	status, answer := p.judge(p.analyses[res.Data.AnalysisID], res, id)
	p.results = append(p.results, Result{WebhookID: id, Body: body, Parsed: res, Status: status})
	p.calls = append(p.calls, Call{Operation: "result", ID: res.Data.AnalysisID, At: time.Now(), Status: status, Trace: r.Header.Get("traceparent")})
	reply(w, status, answer)
}

func (p *Plane) judge(a *analysis, res protocol.Result, id string) (int, any) {
	switch {
	case a == nil:
		return http.StatusNotFound, nil
	case a.state == "cancelled":
		return http.StatusGone, nil
	case a.storedID != "" && a.storedID == id:
		return http.StatusOK, protocol.ResultAnswer{AlreadyDelivered: true}
	case a.state != "" || res.Data.Epoch != a.epoch || res.Data.Claim != a.claim:
		return http.StatusConflict, nil
	case res.Type == protocol.ResultInterrupted:
		a.until = time.Time{}
		return http.StatusOK, nil
	}
	a.storedID, a.until, a.state = id, time.Time{}, "delivered"
	if res.Type == protocol.ResultFailed {
		a.state = "failed"
	}
	return http.StatusOK, nil
}

func (p *Plane) fail(operation string, w http.ResponseWriter, r *http.Request) bool {
	p.mu.Lock()
	f := p.faults[operation]
	p.mu.Unlock()
	return f != nil && f(w, r)
}

func problem(w http.ResponseWriter, status int, code protocol.Code, detail string) {
	w.Header().Set("Content-Type", protocol.ProblemContentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(protocol.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail})
}

func reply(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	if _, isProblem := answer.(protocol.Problem); isProblem {
		w.Header().Set("Content-Type", protocol.ProblemContentType)
	}
	w.WriteHeader(status)
	if answer != nil {
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
