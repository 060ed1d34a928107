package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
	"github.com/posefleet/posefleet/worker"
	"github.com/posefleet/posefleet/worker/internal/controltest"
	"github.com/posefleet/posefleet/worker/internal/extractortest"
)

// long bounds every wait; a loaded machine needs a small part of it.
const long = 3 * time.Minute

func TestMain(m *testing.M) {
	extractortest.Main()
	workerMain()
	queue.RouteDriverLog(slog.New(slog.DiscardHandler)) // servers are stopped on purpose here
	shareTheWait()
	goleak.VerifyTestMain(m)
}

// shareTheWait lets more tests run at the same time than there are cores, unless -parallel says otherwise: most of their time is waiting
// for locks and outages to be over.
func shareTheWait() {
	const atOnce = "6"
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", atOnce) // package testing has defined it
	}
}

// bench is what a test of the worker stands on: Redis, control plane with storage, work directory, log.
type bench struct {
	t       testing.TB
	redis   *redistest.Server // nil for tests of the HTTP door alone
	plane   *controltest.Plane
	secrets controltest.Secrets
	work    string
	log     *syncBuffer
	queue   *queue.Queue
}

func newBench(t testing.TB, withRedis bool) *bench {
	t.Helper()
	b := &bench{t: t, secrets: controltest.NewSecrets(), work: t.TempDir(), log: &syncBuffer{}}
	b.plane = controltest.Start(t, b.secrets)
	if withRedis {
		b.redis = redistest.Start(t)
		q, err := queue.NewQueue(queue.Options{RedisURL: b.redis.URL, Name: "pose"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = q.Close() })
		b.queue = q
	}
	t.Cleanup(b.checkCanaries)
	return b
}

// env is the worker's environment; pairs override and add, without the prefix.
func (b *bench) env(pairs ...string) map[string]string {
	e := map[string]string{
		"QUEUE_ENABLED": strconv.FormatBool(b.redis != nil), "LISTEN": "127.0.0.1:0", "ADMIN_LISTEN": "127.0.0.1:0",
		"CONTROL_URL": b.plane.URL(), "WORKER_SECRET": b.secrets.Worker, "DOOR_SECRET": b.secrets.Door,
		"STORAGE_HOSTS": b.plane.Host(), "ALLOW_INSECURE": "true", "WORK_DIR": b.work, "SLOTS": "1",
		"LOCK_DURATION": "10s", "STALLED_INTERVAL": "500ms", "LOG_LEVEL": "debug",
		"EXTRACTOR": strings.Join(extractortest.Command(), " "),
	}
	if b.redis != nil {
		e["REDIS_URL"] = b.redis.URL
	}
	for i := 0; i < len(pairs); i += 2 {
		e[pairs[i]] = pairs[i+1]
	}
	out := map[string]string{"PATH": os.Getenv("PATH")}
	for k, v := range e {
		out[worker.EnvPrefix+k] = v
	}
	return out
}

// running is a worker in this process.
type running struct {
	*worker.Worker
	b    *bench
	done chan error
	once sync.Once
	err  error
}

// start starts a worker and waits until it is ready. Cleanup gives back what runs and checks that nothing is left.
func (b *bench) start(pairs ...string) *running {
	b.t.Helper()
	return b.awaitReady(b.launch(pairs...))
}

// startWith is start with a change of the configuration that no variable makes.
func (b *bench) startWith(change func(*worker.Config)) *running {
	b.t.Helper()
	cfg, err := worker.LoadConfig(b.env())
	if err != nil {
		b.t.Fatal(err)
	}
	change(&cfg)
	return b.awaitReady(b.launchConfig(cfg))
}

func (b *bench) awaitReady(r *running) *running {
	b.t.Helper()
	select {
	case <-r.Ready():
	case err := <-r.done:
		b.t.Fatalf("worker ended: %v", err)
	case <-time.After(long):
		b.t.Fatal("worker is not ready")
	}
	return r
}

// launch starts a worker and waits until it listens.
func (b *bench) launch(pairs ...string) *running {
	b.t.Helper()
	cfg, err := worker.LoadConfig(b.env(pairs...))
	if err != nil {
		b.t.Fatal(err)
	}
	return b.launchConfig(cfg)
}

func (b *bench) launchConfig(cfg worker.Config) *running {
	b.t.Helper()
	w, err := worker.New(cfg, slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		b.t.Fatal(err)
	}
	r := &running{Worker: w, b: b, done: make(chan error, 1)}
	go func() { r.done <- w.Run(context.Background()) }() // ends in stop
	select {
	case <-w.Listening():
	case err := <-r.done:
		b.t.Fatalf("worker ended: %v", err)
	}
	b.t.Cleanup(func() {
		w.GiveBack()
		r.wait()
	})
	return r
}

// wait waits for the end of Run and checks that the work directory is empty.
func (r *running) wait() {
	r.once.Do(func() {
		select {
		case r.err = <-r.done:
		case <-time.After(2 * long):
			r.b.t.Error("worker does not end")
			return
		}
		if r.err != nil {
			r.b.t.Errorf("worker ended with %v", r.err)
		}
	})
}

// files lists the files below the work directory.
func (b *bench) files() []string {
	var out []string
	_ = filepath.WalkDir(b.work, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return nil
	})
	return out
}

// checkCanaries looks for secrets and URL queries in everything that was logged or stored.
func (b *bench) checkCanaries() {
	seen := []string{b.log.String(), b.redisText()}
	for _, r := range b.plane.Results("") {
		seen = append(seen, string(r.Body))
	}
	text := strings.Join(seen, "\n")
	for name, canary := range map[string]string{
		"a URL's query": controltest.Canary, "the worker's secret": strings.TrimPrefix(b.secrets.Worker, "whsec_"),
		"the door's secret": strings.TrimPrefix(b.secrets.Door, "whsec_"), "a signature": "v1,",
	} {
		if i := strings.Index(text, canary); i >= 0 {
			b.t.Errorf("%s is in the log, in Redis or in a result: …%s…", name, text[max(0, i-200):min(len(text), i+40)])
		}
	}
	if b.t.Failed() && os.Getenv("POSEFLEET_TEST_LOG") != "" {
		b.t.Log(text)
	}
}

// redisText is everything that Redis holds.
func (b *bench) redisText() string {
	if b.redis == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c := b.redis.Client()
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil {
		return "" // a test that ends without Redis
	}
	var out strings.Builder
	for _, k := range keys {
		hash, _ := c.HGetAll(ctx, k).Result() // of another type: an error and nothing
		list, _ := c.LRange(ctx, k, 0, -1).Result()
		stream, _ := c.XRange(ctx, k, "-", "+").Result()
		fmt.Fprintln(&out, k, hash, list, stream)
	}
	return out.String()
}

// add adds a claim-check job.
func (b *bench) add(id string, attempts int) {
	b.t.Helper()
	_, err := b.queue.Add(b.t.Context(), protocol.JobName, protocol.NewJobData(id), queue.JobOptions{
		JobID: id, Attempts: attempts, Backoff: &queue.Backoff{Type: "fixed", Delay: 50 * time.Millisecond},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) job(id string) *queue.Job {
	b.t.Helper()
	j, err := b.queue.Job(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return j
}

func (b *bench) state(id string) queue.State {
	b.t.Helper()
	s, err := b.queue.State(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// awaitState waits until the job is in the state and returns it.
func (b *bench) awaitState(id string, want queue.State) *queue.Job {
	b.t.Helper()
	wait.For(b.t, long, func() bool { return b.state(id) == want }, "job %s is not %s", id, want)
	return b.job(id)
}

// reply is an answer of the door.
type reply struct {
	Code   int
	Header http.Header
	Body   map[string]any
}

// message is a request to the door; zero fields are filled in.
type message struct {
	method, path, body, id, contentType string
	secret                              string
	at                                  time.Time
	header                              http.Header // over the signed one
}

// send signs and sends.
func (r *running) send(m message) reply {
	r.b.t.Helper()
	if m.method == "" {
		m.method = http.MethodPost
	}
	if m.path == "" {
		m.path = "/v1/jobs"
	}
	if m.id == "" {
		m.id = webhook.NewID("msg")
	}
	if m.secret == "" {
		m.secret = r.b.secrets.Door
	}
	if m.at.IsZero() {
		m.at = time.Now()
	}
	if m.contentType == "" {
		m.contentType = "application/json"
	}
	keys, err := webhook.ParseSecrets(m.secret)
	if err != nil {
		r.b.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(r.b.t.Context(), m.method, "http://"+r.Addr()+m.path, strings.NewReader(m.body))
	if err != nil {
		r.b.t.Fatal(err)
	}
	req.Header = webhook.NewSigner(keys).Header(m.id, m.at, []byte(m.body))
	req.Header.Set("Content-Type", m.contentType)
	for k, v := range m.header {
		req.Header[k] = v
		if len(v) == 0 {
			delete(req.Header, k)
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: long}
	res, err := client.Do(req)
	if err != nil {
		r.b.t.Error(err)
		return reply{}
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	out := reply{Code: res.StatusCode, Header: res.Header}
	if err := json.Unmarshal(raw, &out.Body); err != nil {
		r.b.t.Errorf("%s %s: %d with a body that is no JSON: %q", m.method, m.path, res.StatusCode, raw)
	}
	if res.Header.Get("X-Worker-Id") == "" {
		r.b.t.Errorf("%s %s: no X-Worker-Id", m.method, m.path)
	}
	return out
}

// post sends a job.
func (r *running) post(id string) reply {
	return r.send(message{body: fmt.Sprintf(`{"v":1,"analysisId":%q}`, id)})
}

// get asks for a job's state.
func (r *running) get(id string) reply {
	return r.send(message{method: http.MethodGet, path: "/v1/jobs/" + id})
}

// cancel cancels a job.
func (r *running) cancel(id string) reply {
	return r.send(message{path: "/v1/jobs/" + id + "/cancel", body: "{}"})
}

// awaitStatus waits until the door shows the status.
func (r *running) awaitStatus(id string, want protocol.DoorStatus) {
	r.b.t.Helper()
	last := any(nil)
	ok := wait.Until(r.b.t, long, func() bool {
		last = r.get(id).Body["status"]
		return last == string(want)
	})
	if !ok {
		r.b.t.Fatalf("job %s is %v, want %s", id, last, want)
	}
}

// admin asks the admin port.
func (r *running) admin(path string, accept string) (int, string) {
	r.b.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+r.AdminAddr()+path, nil)
	if err != nil {
		r.b.t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: long}
	res, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// metric reads one series, 0 if it is not there.
func (r *running) metric(series string) float64 {
	r.b.t.Helper()
	_, text := r.admin("/metrics", "")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			_, _ = fmt.Sscan(rest, &v)
			return v
		}
	}
	return 0
}

// awaitIdle waits until nothing runs and the work directory holds no file.
func (r *running) awaitIdle() {
	r.b.t.Helper()
	r.awaitFree()
	wait.For(r.b.t, long, func() bool { return len(r.b.files()) == 0 }, "scratch is not empty")
}

// awaitFree waits until no slot is in use.
func (r *running) awaitFree() {
	r.b.t.Helper()
	wait.For(r.b.t, long, func() bool { return r.metric("posefleet_slots_in_use") == 0 }, "slots are still in use")
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
