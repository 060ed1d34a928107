package worker

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/worker/internal/trace"
)

const (
	endedKept = 1000      // runs remembered after their end
	endedFor  = time.Hour // and for how long
)

// run is one execution of an analysis: id, source and attempt. Its fields above mu never change after begin.
//
//	accepted -> running -> delivered | failed | cancelled | interrupted
type run struct {
	id      string
	source  protocol.Source
	jobID   string
	attempt int
	last    bool // an ordinary fault now is final
	started time.Time
	span    *trace.Span
	cancel  context.CancelCauseFunc // ends the run; the cause says why
	// stopLease ends the renewals, ending announces that the slot will be free soon; called by the run itself only.
	stopLease, ending func()
	hint              chan struct{} // holds one token: the lease is renewed at once
	decided           chan struct{} // closed when the redeem has an outcome
	done              chan struct{} // closed when the run is over, scratch emptied

	mu       sync.Mutex
	status   protocol.DoorStatus // written by the run, read by the door
	stage    protocol.Stage
	progress float64 // share of the stage
	admitErr error   // why the redeem failed; valid once decided is closed
	timings  protocol.Timings
	claim    *claimcheck.Redemption // set once at redeem
	posted   bool                   // the completed result went out at least once
}

// stageShares are the parts of the whole that a stage takes, for the progress that the door shows.
var stageShares = []struct {
	stage protocol.Stage
	share float64
}{
	{protocol.StageRedeem, 0.01},
	{protocol.StageDownload, 0.14},
	{protocol.StageExtract, 0.8},
	{protocol.StageUpload, 0.03},
	{protocol.StageReport, 0.02},
}

func (r *run) enter(stage protocol.Stage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stage, r.progress = stage, 0
	if stage != protocol.StageRedeem {
		r.status = protocol.DoorRunning
	}
}

// leaseOver ends the run because of what became of its lease. While its own result is on the way an analysis that is decided is no reason:
// the result may be what has decided it, and its answer, which is not there yet, says so.
func (r *run) leaseOver(cause error) {
	claim, refused := errors.AsType[*claimcheck.ClaimError](cause)
	if refused && claim.Kind == claimcheck.KindGone && claim.Reason == protocol.GoneDelivered && r.state().Stage == protocol.StageReport {
		return
	}
	r.cancel(cause)
}

func (r *run) setProgress(done float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = done
}

// decide publishes the outcome of the redeem.
func (r *run) decide(claim *claimcheck.Redemption, err error) {
	r.mu.Lock()
	r.claim, r.admitErr = claim, err
	r.mu.Unlock()
	close(r.decided)
}

// ask has the lease renewed at once, or as soon as there is one.
func (r *run) ask() {
	select {
	case r.hint <- struct{}{}:
	default:
	}
}

func (r *run) redemption() *claimcheck.Redemption {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claim
}

func (r *run) markPosted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posted = true
}

func (r *run) wasPosted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.posted
}

// note keeps the time of a stage for the result.
func (r *run) note(stage protocol.Stage, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch ms := took.Milliseconds(); stage {
	case protocol.StageRedeem:
		r.timings.RedeemMs = ms
	case protocol.StageDownload:
		r.timings.DownloadMs = ms
	case protocol.StageExtract:
		r.timings.ExtractMs = ms
	case protocol.StageUpload:
		r.timings.UploadMs = ms
	}
}

func (r *run) times() protocol.Timings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.timings
}

// apart is a context for what has to be said after the run's own has ended, in the same trace.
func (r *run) apart() context.Context { return r.span.Context().Into(context.Background()) }

// traceID is the trace that records this run, "" if none does.
func (r *run) traceID() string {
	if c := r.span.Context(); c.Sampled {
		return c.TraceID
	}
	return ""
}

func (r *run) admitError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.admitErr
}

// state returns what the door shows.
func (r *run) state() protocol.DoorState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return protocol.DoorState{
		AnalysisID: r.id, Status: r.status, Stage: r.stage, Progress: r.overall(), Attempt: r.attempt, StartedAt: r.started.UTC(),
	}
}

// overall is the share of the whole run; the caller holds mu.
func (r *run) overall() float64 {
	switch r.status {
	case protocol.DoorDelivered:
		return 1
	case protocol.DoorAccepted:
		return 0
	}
	sum := 0.0
	for _, s := range stageShares {
		if s.stage == r.stage {
			return min(sum+s.share*r.progress, 1)
		}
		sum += s.share
	}
	return sum
}

// remaining estimates the time that the run still needs, from its own pace; false while it is too early to say.
func (r *run) remaining(now time.Time) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done, elapsed := r.overall(), now.Sub(r.started)
	if done < 0.05 || elapsed < time.Second {
		return 0, false
	}
	return time.Duration(float64(elapsed) * (1 - done) / done), true
}

// runs is what runs here, by analysis id, and what ended here lately. An id may run more than once at a time: a run
// that has lost its lock is still being killed while the next attempt starts, or the queue hands out what the HTTP
// door runs; the lease decides between them.
type runs struct {
	mu     sync.Mutex
	active map[string][]*run
	closed bool          // the HTTP door starts nothing new
	cause  error         // set by cancelAll: runs that begin later are cancelled at once
	idle   chan struct{} // closed while nothing runs, works while something does
	works  chan struct{}
	ended  map[string]*list.Element
	order  *list.List // of endedRun, oldest first
}

type endedRun struct {
	state protocol.DoorState
	final bool // nothing more will happen to this analysis
	at    time.Time
}

func newRuns() *runs {
	idle := make(chan struct{})
	close(idle)
	return &runs{active: map[string][]*run{}, ended: map[string]*list.Element{}, order: list.New(), idle: idle, works: make(chan struct{})}
}

// begin registers a run. It returns the run of the same id that runs already instead, if only is set and there is one, and nil
// if only is set and the registry is closed.
func (rs *runs) begin(r *run, only bool) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if only {
		if other := current(rs.active[r.id]); other != nil {
			return other
		}
		if rs.closed {
			return nil
		}
	}
	r.decided, r.done = make(chan struct{}), make(chan struct{})
	r.status, r.stage = protocol.DoorAccepted, protocol.StageRedeem
	if len(rs.active) == 0 {
		rs.idle = make(chan struct{})
		close(rs.works)
	}
	rs.active[r.id] = append(rs.active[r.id], r)
	if rs.cause != nil {
		r.cancel(rs.cause)
	}
	return r
}

// end takes a run out. A status other than "" is remembered; final says that the analysis is over.
func (rs *runs) end(r *run, status protocol.DoorStatus, final bool) {
	if status != "" {
		r.mu.Lock()
		r.status = status
		r.mu.Unlock()
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	left := slices.DeleteFunc(rs.active[r.id], func(o *run) bool { return o == r })
	if len(left) == 0 {
		delete(rs.active, r.id)
	} else {
		rs.active[r.id] = left
	}
	if len(rs.active) == 0 {
		close(rs.idle)
		rs.works = make(chan struct{})
	}
	if status != "" {
		rs.remember(r.id, endedRun{state: r.state(), final: final, at: time.Now()})
	}
	close(r.done)
}

// find returns the run of id that is furthest, or nil.
func (rs *runs) find(id string) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return current(rs.active[id])
}

// lately returns how id ended here, if it ended in the last hour.
func (rs *runs) lately(id string) (endedRun, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	e, ok := rs.ended[id]
	if !ok {
		return endedRun{}, false
	}
	end := e.Value.(endedRun) //nolint:forcetypeassert // only remember puts into the list
	return end, time.Since(end.at) < endedFor
}

// cancelID cancels every run of id and tells whether there was one.
func (rs *runs) cancelID(id string, cause error) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.active[id] {
		r.cancel(cause)
	}
	return len(rs.active[id]) > 0
}

// hint has the leases of id renewed at once; hintAll those of all runs.
func (rs *runs) hint(id string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.active[id] {
		r.ask()
	}
}

func (rs *runs) hintAll() {
	for _, r := range rs.all() {
		r.ask()
	}
}

// close makes begin refuse new runs of the HTTP door.
func (rs *runs) close() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.closed = true
}

func (rs *runs) isClosed() bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.closed
}

// cancelAll cancels every run, also those that begin later.
func (rs *runs) cancelAll(cause error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.cause = cause
	for _, list := range rs.active {
		for _, r := range list {
			r.cancel(cause)
		}
	}
}

// empty returns a channel that is closed when nothing runs.
func (rs *runs) empty() <-chan struct{} {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.idle
}

// busy returns a channel that is closed when something runs.
func (rs *runs) busy() <-chan struct{} {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.works
}

// quiet returns when nothing has run for a time, or when ctx ends.
func (rs *runs) quiet(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	for {
		select {
		case <-rs.empty():
		case <-ctx.Done():
			return
		}
		timer.Reset(length)
		select {
		case <-rs.busy():
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// all returns the runs of the moment.
func (rs *runs) all() []*run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var out []*run
	for _, list := range rs.active {
		out = append(out, list...)
	}
	return out
}

// remember keeps an end, at most endedKept of them; the caller holds mu.
func (rs *runs) remember(id string, end endedRun) {
	if old, ok := rs.ended[id]; ok {
		rs.order.Remove(old)
	}
	rs.ended[id] = rs.order.PushBack(end)
	for rs.order.Len() > endedKept {
		oldest := rs.order.Front()
		delete(rs.ended, rs.order.Remove(oldest).(endedRun).state.AnalysisID) //nolint:forcetypeassert // as above
	}
}

// current prefers a run that holds its claim to one that is still asking for it.
func current(list []*run) *run {
	if len(list) == 0 {
		return nil
	}
	for _, r := range list {
		if r.redemption() != nil {
			return r
		}
	}
	return list[len(list)-1]
}
