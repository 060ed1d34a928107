package pipeline_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/queue"
)

// player is the orchestrator and the worker of one analysis.
type player struct {
	id, queue string
	redis     *redistest.Server
	signer    *webhook.Signer
	// refuse fails the precheck; lose removes the first job, so that the run has to send it again; twice is an event that is expected to be
	// there twice.
	refuse, lose bool
	twice        string
	// call sends a request until it is answered.
	call func(ctx context.Context, method, path string, header http.Header, body []byte, answer any) error
	// revive keeps the control plane alive while the player waits; nil: nobody does.
	revive func(ctx context.Context) error
}

var errNotSent = errors.New("not sent")

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// post sends a worker's message.
func (p *player) post(ctx context.Context, path, id string, body, answer any) error {
	text, ok := body.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}

	return p.call(ctx, http.MethodPost, path, p.signer.Header(id, time.Now(), text), text, answer)
}

// play submits an analysis and works on it.
func (p *player) play(ctx context.Context) error {
	if err := p.submit(ctx); err != nil || p.refuse {
		return err
	}

	return p.work(ctx)
}

// submit brings the clip and asks for its analysis.
func (p *player) submit(ctx context.Context) error {
	clip := []byte("the bytes of a clip")
	sum := sha256.Sum256(clip)
	create, _ := json.Marshal(map[string]any{"analysisId": p.id, "clips": []any{map[string]any{
		"id": "c1", "size": len(clip), "sha256": hex.EncodeToString(sum[:]), "contentType": "video/mp4",
	}}})
	var created struct {
		Uploads []struct {
			URL     string
			Headers map[string]string
		}
	}
	if err := p.call(ctx, http.MethodPost, "/v1/analyses", jsonHeader(), create, &created); err != nil {
		return err
	}
	put := http.Header{}
	for name, value := range created.Uploads[0].Headers {
		put.Set(name, value)
	}
	if err := p.call(ctx, http.MethodPut, created.Uploads[0].URL, put, clip, nil); err != nil {
		return err
	}

	return p.call(ctx, http.MethodPost, "/v1/analyses/"+p.id+"/submit", jsonHeader(), []byte(`{}`), nil)
}

// work is a worker: it waits for the job, redeems the claim, uploads and reports.
func (p *player) work(ctx context.Context) error {
	q, err := queue.NewQueue(queue.Options{RedisURL: p.redis.URL, Prefix: queue.DefaultPrefix, Name: p.queue})
	if err != nil {
		return err
	}
	defer q.Close()
	if err := p.awaitJob(ctx, q); err != nil {
		return err
	}
	if p.lose {
		if err := q.Remove(ctx, p.id); err != nil {
			return err
		}
		if err := p.awaitJob(ctx, q); err != nil {
			return err
		}
	}
	var claim protocol.Claim
	redeem := protocol.RedeemRequest{AnalysisID: p.id, WorkerID: "w1", Source: protocol.SourceQueue, JobID: p.id, Attempt: 1}
	if err := p.post(ctx, "/v1/claims/"+p.id, webhook.NewID("req"), redeem, &claim); err != nil {
		return err
	}

	return p.report(ctx, claim)
}

// dispatched waits until the queue has the job.
func (p *player) dispatched(ctx context.Context) error {
	q, err := queue.NewQueue(queue.Options{RedisURL: p.redis.URL, Prefix: queue.DefaultPrefix, Name: p.queue})
	if err != nil {
		return err
	}
	defer q.Close()

	return p.awaitJob(ctx, q)
}

// awaitJob waits until the queue has the job.
func (p *player) awaitJob(ctx context.Context, q *queue.Queue) error {
	for ctx.Err() == nil {
		if state, err := q.State(ctx, p.id); err == nil && state == queue.StateWaiting {
			return nil
		}
		if p.revive != nil {
			if err := p.revive(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}

	return fmt.Errorf("no job in the queue: %w", ctx.Err())
}

func (p *player) report(ctx context.Context, claim protocol.Claim) error {
	doc := []byte("a pose document, as far as the control plane is concerned")
	sum := sha256.Sum256(doc)
	model := protocol.Model{Name: "m", Version: "1", SHA256: strings.Repeat("ab", 32)}
	clips := []protocol.ResultClip{{ID: "c1", Frames: 1, Width: 2, Height: 2, DurationMs: 33}}
	var granted protocol.ArtifactAnswer
	err := p.post(ctx, "/v1/claims/"+p.id+"/artifact", webhook.NewID("req"), protocol.ArtifactRequest{
		AnalysisID: p.id, Claim: claim.Claim, Epoch: claim.Epoch, Name: "pose.json.gz", ContentType: "application/json", Size: int64(len(doc)),
		SHA256: hex.EncodeToString(sum[:]), Model: &model, Clips: clips,
	}, &granted)
	if err != nil {
		return err
	}
	put := http.Header{}
	for name, value := range granted.Headers {
		put.Set(name, value)
	}
	if err := p.call(ctx, http.MethodPut, granted.URL, put, doc, nil); err != nil {
		return err
	}
	result := protocol.Result{Type: protocol.ResultCompleted, Timestamp: time.Unix(1, 0).UTC(), Data: protocol.ResultData{
		AnalysisID: p.id, Claim: claim.Claim, Epoch: claim.Epoch, Attempt: 1, WorkerID: "w1",
		Artifact: &protocol.Artifact{Key: granted.Key, Size: int64(len(doc)), SHA256: hex.EncodeToString(sum[:])}, Model: &model, Clips: clips,
		Timings: &protocol.Timings{},
	}}
	body, err := protocol.MarshalResult(result)
	if err != nil {
		return err
	}

	return p.post(ctx, "/v1/results/"+p.id, protocol.ResultID(result.Type, p.id, claim.Epoch), body, nil)
}

// through tells whether the run has ended and nothing of the analysis is left to be done.
func (p *player) through(ctx context.Context, s store.Store) (bool, error) {
	run, err := s.Run(ctx, store.RunKey{AnalysisID: p.id})
	if err != nil || run.EndedAt.IsZero() {
		return false, err
	}
	left, err := s.OutboxOf(ctx, p.id, store.OutboxRun, store.OutboxDispatch, store.OutboxDoor, store.OutboxSettled, store.OutboxNotice)

	return !left, err
}

// check counts what a person or a bill could notice.
func (p *player) check(ctx context.Context, s store.Store, c *customer) error {
	entries, err := s.Ledger(ctx, p.id)
	if err != nil {
		return err
	}
	timeline, err := s.Timeline(ctx, p.id)
	if err != nil {
		return err
	}
	got := effects{Events: map[string]int{}}
	got.Notices, got.Bodies = c.heard(p.id)
	for _, e := range entries {
		got.Ledger = append(got.Ledger, string(e.Key.Effect)+" "+e.Outcome)
	}
	for _, e := range timeline {
		got.Events[e.Kind]++
	}
	if d := cmp.Diff(p.want(), got); d != "" {
		return fmt.Errorf("%s: %w", p.id, errors.New(d))
	}

	return nil
}

// effects are what is noticed.
type effects struct {
	Ledger          []string
	Events          map[string]int
	Notices, Bodies int
}

func (p *player) want() effects {
	if p.refuse {
		return effects{Notices: 1, Bodies: 1, Ledger: []string{"credit.refund refunded", "credit.reserve default", "notice failed"}, Events: map[string]int{
			"created": 1, "submitted": 1, "analysing": 1, "failed": 1,
		}}
	}
	out := effects{Notices: 1, Bodies: 1, Ledger: []string{"credit.reserve default", "credit.settle settled", "notice delivered"}, Events: map[string]int{
		"created": 1, "submitted": 1, "analysing": 1, "dispatched": 1, "redeemed": 1, "artifact_granted": 1, "delivered": 1,
	}}
	if p.lose {
		out.Events["dispatched"] = 2
	}
	if p.twice != "" {
		out.Events[p.twice] = 2
	}

	return out
}

// customer hears of outcomes.
type customer struct {
	mu sync.Mutex
	// ids and bodies of the notices that came, by analysis.
	ids, bodies map[string]map[string]bool
}

func newCustomer() *customer {
	return &customer{ids: map[string]map[string]bool{}, bodies: map[string]map[string]bool{}}
}

// ServeHTTP takes a notice.
func (c *customer) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var notice struct {
		Data struct{ AnalysisID string }
	}
	_ = json.Unmarshal(body, &notice) // one that is none belongs to no analysis
	id := notice.Data.AnalysisID
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids[id] == nil {
		c.ids[id], c.bodies[id] = map[string]bool{}, map[string]bool{}
	}
	c.ids[id][r.Header.Get("Webhook-Id")] = true
	c.bodies[id][string(body)] = true
}

// all counts the analyses that the customer has heard of.
func (c *customer) all() int {
	c.mu.Lock()
	defer c.mu.Unlock()

	return len(c.ids)
}

// heard counts the notices about an analysis.
func (c *customer) heard(id string) (ids, bodies int) {
	c.mu.Lock()
	defer c.mu.Unlock()

	return len(c.ids[id]), len(c.bodies[id])
}

// try sends a request once and tells whether the answer is one that stays.
func try(ctx context.Context, base, method, path string, header http.Header, body []byte, answer any) (bool, error) {
	url := path
	if strings.HasPrefix(path, "/") {
		url = base + path
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
