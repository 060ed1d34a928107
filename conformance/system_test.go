package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/internal/operator"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// How long things may take on a machine that is busy with other tests; none is waited for in vain.
const (
	startLimit = 60 * time.Second
	jobLimit   = 120 * time.Second
)

const queueName = "pose"

// system is one installation: Redis, control plane, storage, and a front that everything from the workers goes through.
type system struct {
	t            testing.TB
	redis        *redistest.Server
	front        *front
	control      *process
	controlURL   string // straight, for operators
	dir          string // of the control plane: database and storage
	workerSecret string
	doorSecret   string
	api          *operator.Client
	queue        *queue.Queue
	clips        int
	logs         []*logLines // of all processes so far
	controlEnv   extra       // settings of the control plane that differ
}

// newSystem starts Redis and the control plane. program is posefleet or a build of it that is wrong on purpose; redisArgs go to
// redis-server.
func newSystem(t testing.TB, program string, redisArgs ...string) *system {
	t.Helper()

	s := newQueueOnly(t, redisArgs...)
	s.front, s.dir = newFront(t), t.TempDir()
	s.workerSecret, s.doorSecret = webhook.Generate(), webhook.Generate()
	s.startControl(program)

	return s
}

// newQueueOnly is a Redis with a queue and nothing around it.
func newQueueOnly(t testing.TB, redisArgs ...string) *system {
	t.Helper()

	s := &system{t: t, redis: redistest.Start(t, append([]string{"--maxmemory-policy", "noeviction"}, redisArgs...)...)}

	q, err := queue.NewQueue(queue.Options{RedisURL: s.redis.URL, Name: queueName})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = q.Close() })
	s.queue = q

	return s
}

// startControl starts the control plane, at the same address each time.
func (s *system) startControl(program string) {
	s.t.Helper()

	if s.controlURL == "" {
		s.controlURL = "http://" + address(s.t)
		s.api = &operator.Client{Base: s.controlURL, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
		s.front.pointTo(s.t, s.controlURL)
	}

	s.launchControl(program, s.controlURL)
}

// launchControl starts a control plane on the system's database and storage and returns its address.
func (s *system) launchControl(program, base string) string {
	s.t.Helper()

	env := map[string]string{
		"POSEFLEET_LISTEN":        strings.TrimPrefix(base, "http://"),
		"POSEFLEET_PUBLIC_URL":    s.front.URL,
		"POSEFLEET_REDIS_URL":     s.redis.URL,
		"POSEFLEET_QUEUE":         queueName,
		"POSEFLEET_DATABASE_URL":  "sqlite:" + filepath.Join(s.dir, "posefleet.db"),
		"POSEFLEET_STORAGE_URL":   "file:" + filepath.Join(s.dir, "storage"),
		"POSEFLEET_WORKER_SECRET": s.workerSecret,
	}
	maps.Copy(env, s.controlEnv)
	s.control = startProcess(s.t, "control", env, program, "control")
	s.logs = append(s.logs, s.control.log)
	awaitHTTP(s.t, s.control, base+"/healthz")

	return base
}

// address is a free loopback address.
func address(t testing.TB) string {
	t.Helper()

	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}

	return "127.0.0.1:" + strconv.Itoa(port)
}

// awaitHTTP waits until a GET is answered 200.
func awaitHTTP(t testing.TB, p *process, url string) {
	t.Helper()
	wait.For(t, startLimit, func() bool { return ended(p.Process) || get(url) == http.StatusOK }, "%s does not answer", p.name)

	if ended(p.Process) {
		t.Fatalf("%s ended at start: %v", p.name, p.Err())
	}
}

// get is the status of a GET, 0 if there is no answer.
func get(url string) int {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

	response, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer response.Body.Close()

	return response.StatusCode
}

// worker is a running worker process with a scratch space of its own.
type worker struct {
	*process

	door, admin, workDir string
	env                  map[string]string
}

// extra are settings of one worker that differ from those of its system.
type extra map[string]string

// startWorker starts posefleet worker and waits until it takes work.
func (s *system) startWorker(name string, settings extra) *worker {
	s.t.Helper()

	w := s.launchWorker(name, settings)
	awaitHTTP(s.t, w.process, w.admin+"/readyz")

	return w
}

// launchWorker starts posefleet worker and does not wait.
func (s *system) launchWorker(name string, settings extra) *worker {
	s.t.Helper()

	w := &worker{workDir: s.t.TempDir()}
	w.env = map[string]string{
		"POSEFLEET_REDIS_URL":      s.redis.URL,
		"POSEFLEET_QUEUE":          queueName,
		"POSEFLEET_SLOTS":          "1",
		"POSEFLEET_LISTEN":         address(s.t),
		"POSEFLEET_ADMIN_LISTEN":   address(s.t),
		"POSEFLEET_CONTROL_URL":    s.front.URL,
		"POSEFLEET_WORKER_SECRET":  s.workerSecret,
		"POSEFLEET_DOOR_SECRET":    s.doorSecret,
		"POSEFLEET_STORAGE_HOSTS":  "127.0.0.1",
		"POSEFLEET_ALLOW_INSECURE": "true",
		"POSEFLEET_WORK_DIR":       w.workDir,
		"POSEFLEET_LOG_LEVEL":      "debug",
	}
	maps.Copy(w.env, settings)
	s.runWorker(w, name)

	return w
}

// restart starts a worker that has ended once more, with the same settings and scratch space.
func (s *system) restart(w *worker) {
	s.t.Helper()
	s.runWorker(w, w.name)
	awaitHTTP(s.t, w.process, w.admin+"/readyz")
}

func (s *system) runWorker(w *worker, name string) {
	s.t.Helper()

	w.door, w.admin = "http://"+w.env["POSEFLEET_LISTEN"], "http://"+w.env["POSEFLEET_ADMIN_LISTEN"]
	w.process = startProcess(s.t, name, w.env, posefleet(s.t), "worker")
	s.logs = append(s.logs, w.log)
}

// clip is a file to be analysed.
type clip struct{ name, path string }

// textClip makes a clip for the stopwatch extractor, which does not look at it.
func (s *system) textClip() clip {
	s.t.Helper()
	s.clips++

	path := filepath.Join(s.t.TempDir(), "clip.mp4")
	if err := os.WriteFile(path, []byte(fmt.Sprintf("clip %d", s.clips)), 0o600); err != nil {
		s.t.Fatal(err)
	}

	return clip{name: "clip.mp4", path: path}
}

// upload creates an analysis and uploads its clip.
func (s *system) upload(id string, c clip, params *protocol.Params) {
	s.t.Helper()

	content, err := os.ReadFile(c.path)
	if err != nil {
		s.t.Fatal(err)
	}

	sum := sha256.Sum256(content)

	created, err := s.api.Create(s.t.Context(), id, []operator.Clip{{
		ID: "c1", Name: c.name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:]), ContentType: "video/mp4",
	}}, params)
	if err != nil {
		s.t.Fatal(err)
	}

	if err := s.api.Put(s.t.Context(), created.Uploads[0], c.path); err != nil {
		s.t.Fatal(err)
	}
}

// prepare uploads a clip and submits its analysis without a dispatch.
func (s *system) prepare(id string, c clip, params *protocol.Params) {
	s.t.Helper()
	s.upload(id, c, params)

	if err := s.api.Submit(s.t.Context(), id, operator.DispatchNone); err != nil {
		s.t.Fatal(err)
	}
}

// add enqueues an analysis by our own producer.
func (s *system) add(id string, attempts int) {
	s.t.Helper()

	_, err := s.queue.Add(s.t.Context(), protocol.JobName, protocol.NewJobData(id), queue.JobOptions{
		JobID: id, Attempts: attempts, Backoff: &queue.Backoff{Type: "fixed", Delay: 200 * time.Millisecond},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// awaitJob waits until the job is finished and returns it.
func (s *system) awaitJob(id string) *queue.Job {
	s.t.Helper()

	var job *queue.Job

	wait.For(s.t, jobLimit, func() bool {
		j, err := s.queue.Job(s.t.Context(), id)
		job = j

		return err == nil && !j.FinishedOn.IsZero()
	}, "job %s does not end", id)

	return job
}

// awaitState waits until the job is in a state of the queue.
func (s *system) awaitState(id string, state queue.State) {
	s.t.Helper()
	wait.For(s.t, jobLimit, func() bool {
		now, err := s.queue.State(s.t.Context(), id)

		return err == nil && now == state
	}, "job %s does not become %s", id, state)
}

// status is the status of the analysis at the control plane.
func (s *system) status(id string) string {
	s.t.Helper()

	a, err := s.api.Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}

	return a.Status
}

// checkQuiet checks that nothing is left of any work: no active job, no lock, no scratch file, no slot in use. It waits a moment, since a
// job ends for the outside before its worker has cleared up.
func (s *system) checkQuiet(workers ...*worker) {
	s.t.Helper()

	client := s.redis.Client()
	ctx := s.t.Context()

	wait.For(s.t, time.Minute, func() bool {
		return client.LLen(ctx, "bull:"+queueName+":active").Val() == 0 && len(client.Keys(ctx, "bull:"+queueName+":*:lock").Val()) == 0
	}, "active %v, locks %v", client.LRange(ctx, "bull:"+queueName+":active", 0, -1), client.Keys(ctx, "bull:"+queueName+":*:lock"))

	for _, w := range workers {
		wait.For(s.t, time.Minute, func() bool { return w.metric("posefleet_slots_in_use") == "0" }, "slots in use of %s", w.name)
		wait.For(s.t, time.Minute, func() bool { return len(leftovers(w.workDir)) == 0 }, "scratch space of %s", w.name)
	}
}

// leftovers are the files (not folders) in a scratch space.
func leftovers(dir string) []string {
	var files []string

	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}

		return nil
	})

	return files
}

// metric is the value of a metric without labels, "" if it is not there.
func (w *worker) metric(name string) string {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

	response, err := client.Get(w.admin + "/metrics")
	if err != nil {
		return ""
	}
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}

	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}

	return ""
}
