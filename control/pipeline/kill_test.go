package pipeline_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/internal/pgtest"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

var killAll = flag.Bool("kill.all", false, "end the process in every place on Postgres too, not only where an effect was had and not kept")

const (
	patience   = 2 * time.Minute
	atOnce     = 6
	analysisID = "an_1"
)

// scene is one way of a run, with the places that it passes.
type scene struct {
	name string
	// steps and kinds are the steps of the run and the kinds of outbox entries.
	steps, kinds []string
	// refuse fails the precheck; lose removes the first job, so that the run has to send it again.
	refuse, lose bool
}

func scenes() []scene {
	tail := []string{"settled", "notice"}

	return []scene{
		{name: "delivered", steps: []string{"analysing", "wake", "precheck", "dispatch", "await", "persist", "report", "notify"}, kinds: append(tail, "run", "dispatch")},
		{name: "refused", steps: []string{"fail"}, kinds: tail[:1], refuse: true},
		{name: "lost", steps: []string{"retry"}, lose: true},
	}
}

// places are where the process ends: before, in and after each step, and between an effect of the outbox and its being noted.
func (s scene) places() []string {
	var out []string
	for _, step := range s.steps {
		out = append(out, step+":begin", step+":done", step+":kept")
	}
	for _, kind := range s.kinds {
		out = append(out, kind+":carried")
	}

	return out
}

// TestKill: the process of the control plane is killed (SIGKILL) at every boundary of every step and inside of it; the run comes to its
// end after the restart, each effect is had once, and nothing is left.
func TestKill(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	kill(t, redis, func() string { return "sqlite:" + filepath.Join(t.TempDir(), "test.db") }, scene.places)
}

// TestKillPostgres is TestKill on Postgres.
func TestKillPostgres(t *testing.T) {
	t.Parallel()
	redis, server := redistest.Start(t), pgtest.Start(t)
	places := scene.places
	if !*killAll {
		places = func(s scene) []string {
			return slices.DeleteFunc(s.places(), func(p string) bool { return !strings.HasSuffix(p, ":done") })
		}
	}
	var mu sync.Mutex
	kill(t, redis, func() string {
		mu.Lock()
		defer mu.Unlock()

		return server.Database()
	}, places)
}

// kill plays each scene once for each place, several at once: most of the time they wait.
func kill(t *testing.T, redis *redistest.Server, database func() string, places func(scene) []string) {
	t.Helper()
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, s := range scenes() {
		for _, place := range places(s) {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				(&killing{scene: s, place: place}).run(t, redis, database())
			})
		}
	}
	all.Wait()
}

// killing is one scene with an end of the process in one place.
type killing struct {
	scene
	place string
	// twice is an event that is expected to be there twice.
	twice string

	env    []string
	url    string
	signer *webhook.Signer
	redis  *redistest.Server
	proc   *child.Process
	killed bool

	mu      sync.Mutex
	notices map[string]int
	bodies  map[string]bool
}

func (k *killing) run(t *testing.T, redis *redistest.Server, database string) {
	t.Helper()
	fault := func(format string, args ...any) {
		t.Errorf("%s, killed at %s: %s\n%s", k.name, k.place, fmt.Sprintf(format, args...), k.proc.Output())
	}
	receiver := httptest.NewServer(http.HandlerFunc(k.notice))
	defer receiver.Close()
	if err := k.prepare(t, redis, database, receiver.URL); err != nil {
		t.Error(err)

		return
	}
	if err := k.start(killVar + "=" + k.place); err != nil {
		t.Error(err)

		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := k.play(ctx)
	if err == nil {
		err = k.ended(ctx, database)
	}
	if err == nil {
		err = k.checkEffects(ctx, database)
	}
	if err != nil {
		fault("%v", err)
	}
	if err := k.proc.Stop(syscall.SIGTERM, 20*time.Second); err != nil {
		fault("does not end: %v", err)
	}
}

func (k *killing) prepare(t *testing.T, redis *redistest.Server, database, receiver string) error {
	port, err := freeport.Find()
	if err != nil {
		return err
	}
	secret := webhook.Generate()
	secrets, err := webhook.ParseSecrets(secret)
	if err != nil {
		return err
	}
	k.signer, k.redis, k.notices, k.bodies = webhook.NewSigner(secrets), redis, map[string]int{}, map[string]bool{}
	k.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	k.env = []string{
		childVar + "=1", "PATH=" + os.Getenv("PATH"), "POSEFLEET_WORKER_SECRET=" + secret, "POSEFLEET_REDIS_URL=" + redis.URL,
		"POSEFLEET_QUEUE=" + k.queueName(), fmt.Sprintf("POSEFLEET_LISTEN=127.0.0.1:%d", port), "POSEFLEET_DATABASE_URL=" + database,
		"POSEFLEET_STORAGE_URL=file:" + t.TempDir(), "POSEFLEET_NOTICE_URL=" + receiver, "POSEFLEET_NOTICE_SECRET=" + secret,
	}
	if k.refuse {
		k.env = append(k.env, refuseVar+"=1")
	}
	if k.lose {
		k.env = append(k.env, lookVar+"=200")
	}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		k.env = append(k.env, "GOCOVERDIR="+dir)
	}

	return nil
}

// queueName is a queue of its own on the shared Redis.
func (k *killing) queueName() string {
	sum := sha256.Sum256([]byte(k.url + k.name + k.place))

	return "q" + hex.EncodeToString(sum[:6])
}

// start starts the control plane.
func (k *killing) start(more ...string) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.Clone(k.env), more...)
	var err error
	k.proc, err = child.Start(cmd)

	return err
}

// notice is the customer.
func (k *killing) notice(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notices[r.Header.Get("Webhook-Id")]++
	k.bodies[string(body)] = true
}

// call sends a request until it is answered, over the end of the process, which it starts again.
func (k *killing) call(ctx context.Context, method, path string, header http.Header, body []byte, answer any) error {
	last := errNotSent
	for ctx.Err() == nil {
		select {
		case <-k.proc.Done():
			if err := k.again(); err != nil {
				return err
			}
		default:
		}
		var final bool
		if final, last = k.try(ctx, method, path, header, body, answer); final {
			return last
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}

	return fmt.Errorf("%s %s: %w", method, path, last)
}

// again starts the control plane after it was killed, for good.
func (k *killing) again() error {
	if k.killed {
		return fmt.Errorf("the second process ended as well: %w", k.proc.Err())
	}
	k.killed = true

	return k.start()
}

func (k *killing) try(ctx context.Context, method, path string, header http.Header, body []byte, answer any) (bool, error) {
	url := path
	if strings.HasPrefix(path, "/") {
		url = k.url + path
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return true, err
	}
	if header != nil {
		r.Header = header.Clone()
	}
	r.Close = true
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return false, err
	}
	if response.StatusCode >= http.StatusInternalServerError {
		return false, fmt.Errorf("%s: %d %s", path, response.StatusCode, text)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return true, fmt.Errorf("%s: %d %s", path, response.StatusCode, text)
	}
	if answer == nil {
		return true, nil
	}

	return true, json.Unmarshal(text, answer)
}

var errNotSent = errors.New("not sent")

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// post sends a worker's message.
func (k *killing) post(ctx context.Context, path, id string, body, answer any) error {
	text, ok := body.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}

	return k.call(ctx, http.MethodPost, path, k.signer.Header(id, time.Now(), text), text, answer)
}

// play submits an analysis and works on it.
func (k *killing) play(ctx context.Context) error {
	clip := []byte("the bytes of a clip")
	sum := sha256.Sum256(clip)
	create, _ := json.Marshal(map[string]any{"analysisId": analysisID, "clips": []any{map[string]any{
		"id": "c1", "size": len(clip), "sha256": hex.EncodeToString(sum[:]), "contentType": "video/mp4",
	}}})
	var created struct {
		Uploads []struct {
			URL     string
			Headers map[string]string
		}
	}
	if err := k.call(ctx, http.MethodPost, "/v1/analyses", jsonHeader(), create, &created); err != nil {
		return err
	}
	put := http.Header{}
	for name, value := range created.Uploads[0].Headers {
		put.Set(name, value)
	}
	if err := k.call(ctx, http.MethodPut, created.Uploads[0].URL, put, clip, nil); err != nil {
		return err
	}
	if err := k.call(ctx, http.MethodPost, "/v1/analyses/"+analysisID+"/submit", jsonHeader(), []byte(`{}`), nil); err != nil {
		return err
	}
	if k.refuse {
		return nil
	}

	return k.work(ctx)
}

// work is a worker: it waits for the job, redeems the claim, uploads and reports.
func (k *killing) work(ctx context.Context) error {
	q, err := queue.NewQueue(queue.Options{RedisURL: k.redis.URL, Prefix: queue.DefaultPrefix, Name: k.queueName()})
	if err != nil {
		return err
	}
	defer q.Close()
	if err := k.awaitJob(ctx, q); err != nil {
		return err
	}
	if k.lose {
		if err := q.Remove(ctx, analysisID); err != nil {
			return err
		}
		if err := k.awaitJob(ctx, q); err != nil {
			return err
		}
	}
	var claim protocol.Claim
	redeem := protocol.RedeemRequest{AnalysisID: analysisID, WorkerID: "w1", Source: protocol.SourceQueue, JobID: analysisID, Attempt: 1}
	if err := k.post(ctx, "/v1/claims/"+analysisID, webhook.NewID("req"), redeem, &claim); err != nil {
		return err
	}

	return k.report(ctx, claim)
}

// awaitJob waits until the queue has the job, and keeps the control plane alive meanwhile.
func (k *killing) awaitJob(ctx context.Context, q *queue.Queue) error {
	for ctx.Err() == nil {
		if state, err := q.State(ctx, analysisID); err == nil && state == queue.StateWaiting {
			return nil
		}
		if err := k.call(ctx, http.MethodGet, "/healthz", nil, nil, nil); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}

	return fmt.Errorf("no job in the queue: %w", ctx.Err())
}

func (k *killing) report(ctx context.Context, claim protocol.Claim) error {
	doc := []byte("a pose document, as far as the control plane is concerned")
	sum := sha256.Sum256(doc)
	model := protocol.Model{Name: "m", Version: "1", SHA256: strings.Repeat("ab", 32)}
	clips := []protocol.ResultClip{{ID: "c1", Frames: 1, Width: 2, Height: 2, DurationMs: 33}}
	var granted protocol.ArtifactAnswer
	err := k.post(ctx, "/v1/claims/"+analysisID+"/artifact", webhook.NewID("req"), protocol.ArtifactRequest{
		AnalysisID: analysisID, Claim: claim.Claim, Epoch: claim.Epoch, Name: "pose.json.gz", ContentType: "application/json", Size: int64(len(doc)),
		SHA256: hex.EncodeToString(sum[:]), Model: &model, Clips: clips,
	}, &granted)
	if err != nil {
		return err
	}
	put := http.Header{}
	for name, value := range granted.Headers {
		put.Set(name, value)
	}
	if err := k.call(ctx, http.MethodPut, granted.URL, put, doc, nil); err != nil {
		return err
	}
	result := protocol.Result{Type: protocol.ResultCompleted, Timestamp: time.Unix(1, 0).UTC(), Data: protocol.ResultData{
		AnalysisID: analysisID, Claim: claim.Claim, Epoch: claim.Epoch, Attempt: 1, WorkerID: "w1",
		Artifact: &protocol.Artifact{Key: granted.Key, Size: int64(len(doc)), SHA256: hex.EncodeToString(sum[:])}, Model: &model, Clips: clips,
		Timings: &protocol.Timings{},
	}}
	body, err := protocol.MarshalResult(result)
	if err != nil {
		return err
	}

	return k.post(ctx, "/v1/results/"+analysisID, protocol.ResultID(result.Type, analysisID, claim.Epoch), body, nil)
}

// ended waits until the run is through and the outbox empty, and sees that the process was killed on the way.
func (k *killing) ended(ctx context.Context, database string) error {
	for ctx.Err() == nil {
		if err := k.call(ctx, http.MethodGet, "/healthz", nil, nil, nil); err != nil {
			return err
		}
		done, err := k.through(ctx, database)
		if err == nil && done && k.killed {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}

	return fmt.Errorf("killed: %v, the run does not end: %w", k.killed, ctx.Err())
}

// through asks the second process: the first may have done everything and die a moment later.
func (k *killing) through(ctx context.Context, database string) (bool, error) {
	if !k.killed {
		return false, nil
	}
	s, err := store.Open(ctx, database, store.Options{})
	if err != nil {
		return false, err
	}
	defer s.Close()
	run, err := s.Run(ctx, store.RunKey{AnalysisID: analysisID})
	if err != nil || run.EndedAt.IsZero() {
		return false, err
	}
	left, err := s.Outbox(ctx, 10)

	return len(left) == 0, err
}

// checkEffects counts what a person or a bill could notice.
func (k *killing) checkEffects(ctx context.Context, database string) error {
	s, err := store.Open(ctx, database, store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	entries, err := s.Ledger(ctx, analysisID)
	if err != nil {
		return err
	}
	timeline, err := s.Timeline(ctx, analysisID)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	got := effects{Notices: len(k.notices), Bodies: len(k.bodies), Events: map[string]int{}}
	for _, e := range entries {
		got.Ledger = append(got.Ledger, string(e.Key.Effect)+" "+e.Outcome)
	}
	for _, e := range timeline {
		got.Events[e.Kind]++
	}
	if d := cmp.Diff(k.want(), got); d != "" {
		return errors.New(d)
	}

	return nil
}

// effects are what is noticed.
type effects struct {
	Ledger          []string
	Events          map[string]int
	Notices, Bodies int
}

func (k *killing) want() effects {
	if k.refuse {
		return effects{Notices: 1, Bodies: 1, Ledger: []string{"credit.refund refunded", "credit.reserve default", "notice failed"}, Events: map[string]int{
			"created": 1, "submitted": 1, "analysing": 1, "failed": 1,
		}}
	}
	out := effects{Notices: 1, Bodies: 1, Ledger: []string{"credit.reserve default", "credit.settle settled", "notice delivered"}, Events: map[string]int{
		"created": 1, "submitted": 1, "analysing": 1, "dispatched": 1, "redeemed": 1, "artifact_granted": 1, "delivered": 1,
	}}
	if k.lose {
		out.Events["dispatched"] = 2
	}
	if k.twice != "" {
		out.Events[k.twice] = 2
	}

	return out
}
