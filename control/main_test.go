package control_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock that the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// bundle is a control plane on a free port, and a worker's means to talk to it.
type bundle struct {
	*control.Server
	cfg    control.Config
	clock  *clock
	signer *webhook.Signer
	client *http.Client
	logs   *logBuffer
	// stop ends Run and waits for it.
	stop func()
}

// logBuffer keeps the log for a look at what must not be in it.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.buf.String()
}

// setup starts a control plane on SQLite and a folder. Its Redis is not there unless change names one.
func setup(t *testing.T, change func(*control.Config)) *bundle {
	t.Helper()
	dead, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	secret := webhook.Generate()
	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{
		clock: &clock{now: time.Now().Truncate(time.Second)}, signer: webhook.NewSigner(secrets), logs: &logBuffer{},
		client: &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: time.Minute},
	}
	b.cfg = control.Config{
		RedisURL: fmt.Sprintf("redis://127.0.0.1:%d", dead), Prefix: "bull", Queue: "pose", Listen: "127.0.0.1:0",
		DatabaseURL: "sqlite:" + filepath.Join(dir, "test.db"), StorageURL: "file:" + filepath.Join(dir, "storage"),
		WorkerSecrets: secrets, Now: b.clock.Now,
	}
	if change != nil {
		change(&b.cfg)
	}
	b.start(t)
	t.Cleanup(func() {
		b.stop()
		b.client.CloseIdleConnections()
	})

	return b
}

// start runs a control plane with the bundle's configuration, as a restart does.
func (b *bundle) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s, err := control.New(ctx, b.cfg, slog.New(slog.NewJSONHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	b.Server = s
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }() // ends with stop
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// reply is an answer, with its body read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// problem reads the body as a problem document, which it has to be.
func (r reply) problem(t *testing.T) protocol.Problem {
	t.Helper()
	var p protocol.Problem
	if err := json.Unmarshal(r.body, &p); err != nil || r.header.Get("Content-Type") != protocol.ProblemContentType || p.Status != r.status {
		t.Fatalf("%d %s is no problem document: %s", r.status, r.header.Get("Content-Type"), r.body)
	}

	return p
}

// want checks the status and, for faults, the code.
func (r reply) want(t *testing.T, status int, code protocol.Code) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	if status >= 400 {
		if p := r.problem(t); p.Code != code {
			t.Fatalf("code %s, want %s: %s", p.Code, code, p.Detail)
		}
	}

	return r
}

// decode reads the body.
func decode[T any](t *testing.T, r reply) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}

	return v
}

// do sends a request.
func (b *bundle) do(t *testing.T, method, url string, header http.Header, body []byte) reply {
	t.Helper()
	if strings.HasPrefix(url, "/") {
		url = "http://" + b.Addr() + url
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	r.Host = header.Get("Host")
	resp, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := reply{status: resp.StatusCode, header: resp.Header, body: text}
	b.document(t).check(t, method, r.URL.Path, got)

	return got
}

// api sends an operator's request with a JSON body.
func (b *bundle) api(t *testing.T, method, path string, body any) reply {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if body == nil {
		text = nil
	}

	return b.do(t, method, path, http.Header{"Content-Type": {"application/json"}}, text)
}

// post sends a worker's signed request.
func (b *bundle) post(t *testing.T, path, id string, body any) reply {
	t.Helper()
	text, ok := body.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}

	return b.do(t, http.MethodPost, path, b.signer.Header(id, b.clock.Now(), text), text)
}

// put uploads as the answer of the control plane says.
func (b *bundle) put(t *testing.T, url string, headers map[string]string, body []byte) {
	t.Helper()
	h := http.Header{}
	for name, value := range headers {
		h.Set(name, value)
	}
	if r := b.do(t, http.MethodPut, url, h, body); r.status != http.StatusOK {
		t.Fatalf("upload: %d %s", r.status, r.body)
	}
}

func sum(b []byte) string {
	s := sha256.Sum256(b)

	return hex.EncodeToString(s[:])
}

var clipBytes = []byte("the bytes of a clip, as far as the control plane is concerned")

// created is the answer to a creation.
type created struct {
	AnalysisID string
	Uploads    []struct {
		Clip, URL, Method string
		Headers           map[string]string
	}
}

// newAnalysis is the body that creates an analysis with one clip.
func newAnalysis(id string) map[string]any {
	return map[string]any{
		"analysisId": id, "params": map[string]any{"model": "full", "later": 1},
		"clips": []any{map[string]any{
			"id": "c1", "name": "a clip.mp4", "size": len(clipBytes), "sha256": sum(clipBytes), "contentType": "video/mp4",
		}},
	}
}

// uploaded creates an analysis and uploads its clip.
func (b *bundle) uploaded(t *testing.T, id string) {
	t.Helper()
	c := decode[created](t, b.api(t, http.MethodPost, "/v1/analyses", newAnalysis(id)).want(t, http.StatusCreated, ""))
	b.put(t, c.Uploads[0].URL, c.Uploads[0].Headers, clipBytes)
}

// queued creates an analysis that waits for a worker, without a job in the queue.
func (b *bundle) queued(t *testing.T, id string) {
	t.Helper()
	b.uploaded(t, id)
	b.api(t, http.MethodPost, "/v1/analyses/"+id+"/submit", map[string]string{"dispatch": "none"}).want(t, http.StatusAccepted, "")
}

// redeemRequest is a request of a queue job's start.
func redeemRequest(id, worker string, attempt int) protocol.RedeemRequest {
	return protocol.RedeemRequest{AnalysisID: id, WorkerID: worker, Source: protocol.SourceQueue, JobID: id, Attempt: attempt}
}

// redeem expects the claim.
func (b *bundle) redeem(t *testing.T, r protocol.RedeemRequest) protocol.Claim {
	t.Helper()
	got := b.post(t, "/v1/claims/"+r.AnalysisID, webhook.NewID("req"), r).want(t, http.StatusOK, "")
	c, _, err := protocol.ParseClaim(got.body, r.AnalysisID)
	if err != nil {
		t.Fatal(err)
	}

	return c
}

// poseBytes is a stored pose document.
func poseBytes(t *testing.T, doc string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(doc)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}

	return b.Bytes()
}

const poseDoc = `{"schema":"posefleet.pose/1","clips":[]}`

// artifactRequest asks for the upload of a pose document.
func artifactRequest(c protocol.Claim, doc []byte) protocol.ArtifactRequest {
	return protocol.ArtifactRequest{
		AnalysisID: c.AnalysisID, Claim: c.Claim, Epoch: c.Epoch, Name: "pose.json.gz", ContentType: "application/json",
		Size: int64(len(doc)), SHA256: sum(doc), Model: &model, Clips: resultClips,
	}
}

var (
	model       = protocol.Model{Name: "m", Version: "1", SHA256: strings.Repeat("ab", 32)}
	resultClips = []protocol.ResultClip{{ID: "c1", Frames: 1, Width: 2, Height: 2, DurationMs: 33}}
)

// artifact gets the place for a pose document and uploads it there.
func (b *bundle) artifact(t *testing.T, c protocol.Claim, doc []byte) protocol.Artifact {
	t.Helper()
	got := b.post(t, "/v1/claims/"+c.AnalysisID+"/artifact", webhook.NewID("req"), artifactRequest(c, doc)).want(t, http.StatusOK, "")
	a, err := protocol.ParseArtifactAnswer(got.body)
	if err != nil {
		t.Fatal(err)
	}
	b.put(t, a.URL, a.Headers, doc)

	return protocol.Artifact{Key: a.Key, Size: int64(len(doc)), SHA256: sum(doc)}
}

// completed is a pose.completed.
func completed(c protocol.Claim, a protocol.Artifact) protocol.Result {
	return protocol.Result{Type: protocol.ResultCompleted, Timestamp: time.Unix(1, 0).UTC(), Data: protocol.ResultData{
		AnalysisID: c.AnalysisID, Claim: c.Claim, Epoch: c.Epoch, Attempt: 1, WorkerID: "w1",
		Artifact: &a, Model: &model, Clips: resultClips, Timings: &protocol.Timings{},
	}}
}

// failed is a pose.failed.
func failed(c protocol.Claim) protocol.Result {
	return protocol.Result{Type: protocol.ResultFailed, Timestamp: time.Unix(1, 0).UTC(), Data: protocol.ResultData{
		AnalysisID: c.AnalysisID, Claim: c.Claim, Epoch: c.Epoch, Attempt: 1, WorkerID: "w1",
		Error: &protocol.ResultError{Code: protocol.CodeInvalidMedia, Message: "The file is no clip."},
	}}
}

// report posts a result to the claim's callback.
func (b *bundle) report(t *testing.T, c protocol.Claim, r protocol.Result) reply {
	t.Helper()
	body, err := protocol.MarshalResult(r)
	if err != nil {
		t.Fatal(err)
	}

	return b.post(t, c.Callback.URL, protocol.ResultID(r.Type, r.Data.AnalysisID, r.Data.Epoch), body)
}

// delivered takes an analysis from its creation to its result.
func (b *bundle) delivered(t *testing.T, id string) protocol.Claim {
	t.Helper()
	b.queued(t, id)
	c := b.redeem(t, redeemRequest(id, "w1", 1))
	b.report(t, c, completed(c, b.artifact(t, c, poseBytes(t, poseDoc)))).want(t, http.StatusOK, "")

	return c
}

// status reads the status of an analysis.
func (b *bundle) status(t *testing.T, id string) string {
	t.Helper()

	return decode[struct{ Status string }](t, b.api(t, http.MethodGet, "/v1/analyses/"+id, nil).want(t, http.StatusOK, "")).Status
}

// openQueue is a client of the bundle's queue.
func (b *bundle) openQueue(t *testing.T) *queue.Queue {
	t.Helper()
	q, err := queue.NewQueue(queue.Options{RedisURL: b.cfg.RedisURL, Prefix: b.cfg.Prefix, Name: b.cfg.Queue})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })

	return q
}
