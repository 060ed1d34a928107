// Package storetest is the suite that every store.Store has to pass: what the control plane relies on, in terms of
// what can be seen through the interface.
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/protocol"
)

// Lease is the length of the leases in the suite.
const Lease = 2 * time.Minute

// Clock is a clock that only moves when it is told to. Safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at a fixed time of day.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

// Now is the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Opener opens an empty store that is closed at the end of the test.
type Opener func(t *testing.T, now func() time.Time) store.Store

// Run runs the suite.
func Run(t *testing.T, open Opener) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *Bundle){
		"create":                    testCreate,
		"submit":                    testSubmit,
		"submit in parallel":        testSubmitParallel,
		"cancel":                    testCancel,
		"pages":                     testPages,
		"redeem table":              testRedeemTable,
		"redeem in parallel":        testRedeemParallel,
		"redeem same in parallel":   testRedeemSameParallel,
		"redeem after failure":      testRedeemAfterFailure,
		"redeem of a failed one":    testRedeemOfFailed,
		"redeem, started anew":      testRedeemOfStartedAnew,
		"outbox claims":             testOutboxClaims,
		"outbox order":              testOutboxOrder,
		"outbox claims in parallel": testOutboxParallel,
		"renew":                     testRenew,
		"release":                   testRelease,
		"artifacts":                 testArtifacts,
		"result delivered":          testResultDelivered,
		"result repeated":           testResultRepeated,
		"result of an old epoch":    testResultOldEpoch,
		"result never issued":       testResultUnissued,
		"result in parallel":        testResultParallel,
		"result same in parallel":   testResultSameParallel,
		"result after cancel":       testResultAfterCancel,
		"interruption by http":      testInterruptedHTTP,
		"interruption by queue":     testInterruptedQueue,
		"interruption late":         testInterruptedLate,
		"outbox":                    testOutbox,
		"lapsed leases":             testLapsed,
		"webhook ids are forgotten": testForget,
		"credits":                   testCredits,
		"credits of rounds":         testCreditRounds,
		"credits limited later":     testCreditsLimitedLater,
		"grants in parallel":        testGrantsParallel,
		"ledger expires":            testLedgerExpires,
		"uploads expire":            testUploadsExpire,
		"ends in parallel":          testEndsParallel,
		"run":                       testRun,
		"run fails":                 testRunFails,
		"run of each round":         testRunRounds,
		"run of the door":           testRunOfTheDoor,
		"decided runs":              testDecidedRuns,
		"secret":                    testSecret,
		"cancelled context":         testCancelledContext,
		"timeline":                  testTimeline,
		"fleet lease":               testFleetLease,
		"fleet lease in parallel":   testFleetLeaseParallel,
		"fleet demand":              testFleetDemand,
		"fleet decisions":           testFleetDecisions,
		"fleet history is bounded":  testFleetHistory,
		"retry by a person":         testRetry,
		"keys of actions":           testActionKeys,
		"redeliver":                 testRedeliver,
		"redeliver early":           testRedeliverEarly,
		"executions":                testExecutions,
		"filters":                   testFilters,
		"census":                    testCensus,
		"counts":                    testCounts,
		"random histories":          testHistories,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, NewBundle(t, open))
		})
	}
}

// Bundle is a store and its clock.
type Bundle struct {
	store.Store
	Clock *Clock
	ctx   context.Context
}

// NewBundle opens a store on a clock of its own.
func NewBundle(t *testing.T, open Opener) *Bundle {
	t.Helper()
	c := NewClock()

	return &Bundle{Store: open(t, c.Now), Clock: c, ctx: t.Context()}
}

// NewAnalysis is an analysis with one clip.
func NewAnalysis(id string) store.NewAnalysis {
	return store.NewAnalysis{ID: id, Params: json.RawMessage(`{"model":"full"}`), Clips: []store.Clip{{
		ID: "c1", Name: "a.mp4", Key: "analyses/" + id + "/clips/c1", Size: 7, SHA256: strings.Repeat("ab", 32), ContentType: "video/mp4",
	}}}
}

// Queued makes an analysis that waits for a worker.
func (b *Bundle) Queued(t *testing.T, id string) store.Analysis {
	t.Helper()
	n := NewAnalysis(id)
	if _, _, err := b.CreateAnalysis(b.ctx, n); err != nil {
		t.Fatal(err)
	}
	a, err := b.Submit(b.ctx, store.Submission{ID: id, Clips: n.Clips})
	if err != nil {
		t.Fatal(err)
	}

	return a
}

// QueueHolder and HTTPHolder are holders of the two doors.
func QueueHolder(worker, job string, attempt int) store.Holder {
	return store.Holder{WorkerID: worker, Source: protocol.SourceQueue, JobID: job, Attempt: attempt}
}

// HTTPHolder is a holder of the HTTP door.
func HTTPHolder(worker, job string) store.Holder {
	return store.Holder{WorkerID: worker, Source: protocol.SourceHTTP, JobID: job, Attempt: 1}
}

// MustRedeem redeems and expects the claim.
func (b *Bundle) MustRedeem(t *testing.T, id string, h store.Holder) store.Grant {
	t.Helper()
	g, err := b.Redeem(b.ctx, id, h, store.JobSeen{}, Lease)
	if err != nil {
		t.Fatalf("redeem %s by %+v: %v", id, h, err)
	}

	return g
}

// LeaseOf names the claim of a grant.
func LeaseOf(g store.Grant) store.Lease {
	return store.Lease{AnalysisID: g.Analysis.ID, Claim: g.Analysis.Claim, Epoch: g.Analysis.Epoch}
}

// Artifact is the pose document that the epoch would upload.
func Artifact(l store.Lease) store.StoredArtifact {
	return store.StoredArtifact{
		Key: fmt.Sprintf("analyses/%s/%d/pose.json.gz", l.AnalysisID, l.Epoch), Name: "pose.json.gz", ContentType: "application/json",
		Size: 99, SHA256: strings.Repeat("cd", 32), Model: &protocol.Model{Name: "m", Version: "1", SHA256: "ef"},
		Clips: []protocol.ResultClip{{ID: "c1", Frames: 10, Width: 4, Height: 2, DurationMs: 333.3}},
	}
}

// Completed is a pose.completed of the lease, for whose artifact a PUT has been granted.
func (b *Bundle) Completed(t *testing.T, l store.Lease) store.ResultPost {
	t.Helper()

	return b.CompletedBy(b.ctx, t, l)
}

// CompletedBy is Completed with a context of the caller's.
func (b *Bundle) CompletedBy(ctx context.Context, t *testing.T, l store.Lease) store.ResultPost {
	t.Helper()
	art := Artifact(l)
	if err := b.GrantArtifact(ctx, l, art); err != nil {
		t.Error(err)
	}

	return Post(l, protocol.ResultCompleted, func(d *protocol.ResultData) {
		d.Artifact = &protocol.Artifact{Key: art.Key, Size: art.Size, SHA256: art.SHA256}
		d.Model, d.Clips = art.Model, art.Clips
	})
}

// Failed is a pose.failed of the lease.
func Failed(l store.Lease) store.ResultPost {
	return Post(l, protocol.ResultFailed, func(d *protocol.ResultData) {
		d.Error = &protocol.ResultError{Code: protocol.CodeInvalidMedia, Message: "not a clip"}
	})
}

// Interrupted is a pose.interrupted of the lease.
func Interrupted(l store.Lease) store.ResultPost {
	return Post(l, protocol.ResultInterrupted, func(*protocol.ResultData) {})
}

// Post is a result message of the lease.
func Post(l store.Lease, kind protocol.ResultType, fill func(*protocol.ResultData)) store.ResultPost {
	r := protocol.Result{Type: kind, Timestamp: time.Unix(1, 0).UTC(), Data: protocol.ResultData{
		AnalysisID: l.AnalysisID, Claim: l.Claim, Epoch: l.Epoch, Attempt: 1, WorkerID: "w",
	}}
	fill(&r.Data)
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // the types of protocol always marshal
	}

	return store.ResultPost{WebhookID: protocol.ResultID(kind, l.AnalysisID, l.Epoch), Body: body, Result: r}
}

// MustRecord records a result and expects the decision.
func (b *Bundle) MustRecord(t *testing.T, p store.ResultPost, want store.Decision) store.Verdict {
	t.Helper()
	v, err := b.RecordResult(b.ctx, p)
	if err != nil {
		t.Fatalf("record %s: %v", p.WebhookID, err)
	}
	if v.Decision != want {
		t.Fatalf("record %s: %s, want %s", p.WebhookID, v.Decision, want)
	}

	return v
}

// WantStatus reads the status back.
func (b *Bundle) WantStatus(t *testing.T, id string, want store.Status) store.Analysis {
	t.Helper()
	a, err := b.Analysis(b.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != want {
		t.Fatalf("%s is %s, want %s", id, a.Status, want)
	}

	return a
}

// count returns how many outbox entries there are of a kind.
func (b *Bundle) count(t *testing.T, kind store.OutboxKind) int {
	t.Helper()
	all, err := b.Outbox(b.ctx, 1000)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range all {
		if e.Kind == kind {
			n++
		}
	}

	return n
}

// parallel runs fn n times at once and returns what each said.
func parallel[T any](n int, fn func(i int) T) []T {
	out := make([]T, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			out[i] = fn(i)
		})
	}
	close(start)
	wg.Wait()

	return out
}
