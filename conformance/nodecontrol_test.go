package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/internal/node"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// objects is a storage of others: it takes exactly what was announced and gives it back.
type objects struct {
	mu  sync.Mutex
	all map[string][]byte
}

// ServeHTTP implements http.Handler.
func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		body, err := io.ReadAll(r.Body)
		sum := sha256.Sum256(body)
		if err != nil || hex.EncodeToString(sum[:]) != r.Header.Get("X-Sha256") {
			w.WriteHeader(http.StatusBadRequest)

			return
		}
		o.all[r.URL.Path] = body
	case http.MethodGet:
		body, ok := o.all[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)

			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}

// readmeControl writes the control plane of the README into a folder, with what it says is the reader's own beside it, and a way for the
// test to see its rows.
func readmeControl(t *testing.T, storageURL string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Being the control plane\n")
	code := regexp.MustCompile("(?s)```js\n(.*?)```").FindStringSubmatch(section)
	if !ok || code == nil {
		t.Fatal("the README shows no control plane")
	}
	dir := t.TempDir()
	modules := filepath.Join(dir, "node_modules")
	installed := filepath.Join(need.Node(t), "node_modules")
	for _, d := range []string{modules, filepath.Join(modules, "@posefleet")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"bullmq": filepath.Join(installed, "bullmq6"), "@posefleet/protocol": packed(t, filepath.Join(need.ModuleRoot(t), "protocol", "ts")),
		"express": filepath.Join(installed, "express"), "standardwebhooks": filepath.Join(installed, "standardwebhooks"),
	} {
		if err := os.Symlink(to, filepath.Join(modules, name)); err != nil {
			t.Fatal(err)
		}
	}
	const around = `
app.post("/test/submit", (req, res) => { const { id, clips } = JSON.parse(req.body); submit(id, clips).then(() => res.json({}), (e) => res.status(500).send(String(e))); });
app.get("/test/rows/:id", (req, res) => res.json(rows.get(req.params.id)));
`
	storage := fmt.Sprintf(`const at = (key) => %q + "/" + key;
exports.get = (key) => ({ url: at(key), headers: {} });
exports.put = (key, { size, sha256, contentType }) => ({ url: at(key), headers: { "content-type": contentType, "content-length": String(size), "x-sha256": sha256 } });
`, storageURL)
	for name, body := range map[string]string{"control.js": code[1] + around, "storage.js": storage} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return filepath.Join(dir, "control.js")
}

// packed is what npm makes of a package for whoever installs it.
func packed(t *testing.T, pkg string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), need.Program(t, "npm"), "pack", "--silent", "--offline", "--pack-destination", dir)
	cmd.Dir = pkg
	cmd.Env = append(os.Environ(), "npm_config_cache="+filepath.Join(dir, "cache"), "npm_config_update_notifier=false")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("npm pack: %v: %s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(dir, strings.TrimSpace(string(out))), "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v: %s", err, out)
	}

	return filepath.Join(dir, "package")
}

// TestReadmeControlPlane: the control plane that the README shows a Node team serves a real worker: from its queue to a delivered result
// that is verified in storage; it refuses a wrong signature, lets a later start take over, and a result that comes twice counts once.
func TestReadmeControlPlane(t *testing.T) {
	t.Parallel()
	store := &objects{all: map[string][]byte{}}
	storage := httptest.NewServer(store)
	t.Cleanup(storage.Close)
	s := newQueueOnly(t)
	s.workerSecret, s.doorSecret = webhook.Generate(), webhook.Generate()
	listen := address(t)
	_, port, _ := strings.Cut(listen, ":")
	base := "http://" + listen
	script := readmeControl(t, storage.URL)
	redis, err := url.Parse(s.redis.URL)
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := node.Command(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	control := startProcess(t, "readme", map[string]string{
		"BASE_URL": base, "PORT": port, "POSEFLEET_WORKER_SECRET": s.workerSecret, "REDIS_HOST": redis.Hostname(), "REDIS_PORT": redis.Port(), "NODE_PATH": modulesOf(cmd.Env),
	}, cmd.Path, script)
	wait.For(t, startLimit, func() bool { return ended(control.Process) || get(base+"/test/rows/none") != 0 }, "the control plane does not listen")

	c := &readmeCaller{t: t, base: base, secret: s.workerSecret}
	clip := []byte("a clip")
	sum := sha256.Sum256(clip)
	store.all["/clips/a"] = clip
	clips := []any{map[string]any{"id": "c1", "key": "clips/a", "size": len(clip), "sha256": hex.EncodeToString(sum[:])}}

	// By hand, the ways that a healthy worker does not take.
	c.submit("an_hand", clips)
	hold := func(attempt int) protocol.RedeemRequest {
		return protocol.RedeemRequest{AnalysisID: "an_hand", WorkerID: "w", Source: protocol.SourceQueue, JobID: "an_hand", Attempt: attempt}
	}
	bad := &readmeCaller{t: t, base: base, secret: webhook.Generate()}
	bad.want(bad.post("/v1/claims/an_hand", "msg_1", hold(1)), http.StatusUnauthorized, protocol.CodeUnauthorized)
	c.want(c.post("/v1/claims/nobody", "msg_2", hold(1)), http.StatusNotFound, protocol.CodeUnknownAnalysis)
	first := c.claim(c.post("/v1/claims/an_hand", "msg_3", hold(2)))
	if again := c.claim(c.post("/v1/claims/an_hand", "msg_4", hold(2))); again.Epoch != first.Epoch || again.Claim != first.Claim {
		t.Errorf("the same holder got %+v after %+v", again, first)
	}
	c.want(c.post("/v1/claims/an_hand", "msg_5", hold(1)), http.StatusConflict, protocol.CodeClaimHeld)
	second := c.claim(c.post("/v1/claims/an_hand", "msg_6", hold(3)))
	if second.Epoch != first.Epoch+1 {
		t.Errorf("a later start got %+v", second)
	}
	lease := protocol.LeaseRequest{AnalysisID: "an_hand", Claim: first.Claim, Epoch: first.Epoch}
	c.want(c.post("/v1/claims/an_hand/renew", "msg_7", lease), http.StatusConflict, protocol.CodeClaimLost)
	c.report(first, protocol.ResultFailed, http.StatusConflict, "")
	c.report(second, protocol.ResultInterrupted, http.StatusOK, "{}")
	third := c.claim(c.post("/v1/claims/an_hand", "msg_8", hold(4)))
	c.report(third, protocol.ResultFailed, http.StatusOK, "{}")
	c.report(third, protocol.ResultFailed, http.StatusOK, `{"alreadyDelivered":true}`)
	c.want(c.post("/v1/claims/an_hand", "msg_9", hold(5)), http.StatusGone, protocol.CodeClaimGone)
	if err := s.queue.Remove(t.Context(), "an_hand"); err != nil {
		t.Fatal(err)
	}

	// By a real worker.
	w := &worker{workDir: t.TempDir()}
	w.env = map[string]string{
		"POSEFLEET_REDIS_URL": s.redis.URL, "POSEFLEET_QUEUE": queueName, "POSEFLEET_SLOTS": "1", "POSEFLEET_HTTP_ENABLED": "false",
		"POSEFLEET_ADMIN_LISTEN": address(t), "POSEFLEET_CONTROL_URL": base, "POSEFLEET_WORKER_SECRET": s.workerSecret,
		"POSEFLEET_STORAGE_HOSTS": "127.0.0.1", "POSEFLEET_ALLOW_INSECURE": "true", "POSEFLEET_WORK_DIR": w.workDir,
		"POSEFLEET_EXTRACTOR": stopwatch{}.command(),
	}
	s.runWorker(w, "worker")
	c.submit("an_1", clips)
	c.submit("an_1", clips)
	s.awaitState("an_1", queue.StateCompleted)
	row := c.row("an_1")
	if row.Status != "delivered" || row.Epoch != 1 || row.Result.Artifact == nil {
		t.Fatalf("%+v", row)
	}
	stored := store.all["/"+row.Result.Artifact.Key]
	if got := sha256.Sum256(stored); hex.EncodeToString(got[:]) != row.Result.Artifact.SHA256 || len(stored) == 0 {
		t.Errorf("%d bytes are stored, not those of %+v", len(stored), row.Result.Artifact)
	}
}

// modulesOf is NODE_PATH of an environment.
func modulesOf(env []string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "NODE_PATH="); ok {
			return v
		}
	}

	return ""
}

// readmeCaller sends what a worker sends.
type readmeCaller struct {
	t            *testing.T
	base, secret string
}

type readmeAnswer struct {
	status int
	body   []byte
}

func (c *readmeCaller) send(method, path string, header http.Header, body []byte) readmeAnswer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}

	return readmeAnswer{resp.StatusCode, text}
}

func (c *readmeCaller) post(path, id string, body any) readmeAnswer {
	c.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	secrets, err := webhook.ParseSecrets(c.secret)
	if err != nil {
		c.t.Fatal(err)
	}

	return c.send(http.MethodPost, path, webhook.NewSigner(secrets).Header(id, time.Now(), text), text)
}

// want checks a refusal: it is a problem document with its code.
func (c *readmeCaller) want(a readmeAnswer, status int, code protocol.Code) {
	c.t.Helper()
	var p protocol.Problem
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != status || p.Code != code || p.Status != status {
		c.t.Errorf("%d %s, not %d %s", a.status, a.body, status, code)
	}
}

// claim reads a claim as a worker does.
func (c *readmeCaller) claim(a readmeAnswer) protocol.Claim {
	c.t.Helper()
	claim, _, err := protocol.ParseClaim(a.body, "an_hand")
	if err != nil || a.status != http.StatusOK {
		c.t.Fatalf("%d %s: %v", a.status, a.body, err)
	}

	return claim
}

// report posts a result that is no delivery.
func (c *readmeCaller) report(claim protocol.Claim, kind protocol.ResultType, status int, body string) {
	c.t.Helper()
	r := protocol.Result{Type: kind, Timestamp: time.Unix(1, 0).UTC(), Data: protocol.ResultData{
		AnalysisID: claim.AnalysisID, Claim: claim.Claim, Epoch: claim.Epoch, Attempt: 1, WorkerID: "w",
	}}
	if kind == protocol.ResultFailed {
		r.Data.Error = &protocol.ResultError{Code: protocol.CodeInvalidMedia, Message: "The file is no clip."}
	}
	a := c.post("/v1/results/"+claim.AnalysisID, protocol.ResultID(kind, claim.AnalysisID, claim.Epoch), r)
	if a.status != status || body != "" && string(a.body) != body {
		c.t.Errorf("%s of epoch %d: %d %s", kind, claim.Epoch, a.status, a.body)
	}
}

func (c *readmeCaller) submit(id string, clips []any) {
	c.t.Helper()
	text, err := json.Marshal(map[string]any{"id": id, "clips": clips})
	if err != nil {
		c.t.Fatal(err)
	}
	if a := c.send(http.MethodPost, "/test/submit", nil, text); a.status != http.StatusOK {
		c.t.Fatalf("submit: %d %s", a.status, a.body)
	}
}

// readmeRow is a row of the example's table.
type readmeRow struct {
	Status string
	Epoch  int64
	Result protocol.ResultData
}

func (c *readmeCaller) row(id string) readmeRow {
	c.t.Helper()
	var row readmeRow
	if err := json.Unmarshal(c.send(http.MethodGet, "/test/rows/"+id, nil, nil).body, &row); err != nil {
		c.t.Fatal(err)
	}

	return row
}
