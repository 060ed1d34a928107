package worker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/protocol/webhook"
	"github.com/posefleet/posefleet/worker/internal/slots"
	"github.com/posefleet/posefleet/worker/internal/trace"
)

const (
	// doorBudget bounds the whole answer to a POST, redeem included.
	doorBudget = 5 * time.Second
	// lingerMost bounds what is read of a body that is too large.
	lingerMost = 32 << 20
	// undecidedWait bounds the wait for a claim call of the queue door that holds the last free slot.
	undecidedWait = 2 * time.Second

	busyMin, busyMax, busyDefault = 5 * time.Second, 120 * time.Second, 15 * time.Second
	drainingAfter                 = 5 * time.Second
	startingAfter                 = 5 * time.Second
	unreachableAfter              = 10 * time.Second
)

// httpDoor takes signed jobs by HTTP. A 202 means: a slot is taken and the control plane has recorded the lease, so
// that a dead worker's job is missed by somebody. Every request is authenticated over its raw bytes before anything
// in it is believed.
type httpDoor struct {
	engine   *engine
	slots    *slots.Slots
	verifier *webhook.Verifier
	replays  *replays
	usable   func() bool                 // an extractor would take a job
	hold     func(context.Context) error // scale-in protection
	base     context.Context             //nolint:containedctx // parent of the runs, which outlive their requests
	spawn    func(func())                // starts a run's goroutine, which the worker waits for
}

// handler routes the requests. Every answer names the worker, so that a caller can tell it from a balancer's.
func (d *httpDoor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/jobs", d.route(http.MethodPost, d.start))
	mux.Handle("/v1/jobs/{id}", d.route(http.MethodGet, d.show))
	mux.Handle("/v1/jobs/{id}/cancel", d.route(http.MethodPost, d.cancel))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		d.send(w, refusal(http.StatusNotFound, protocol.CodeNotFound, "there is nothing at this path"))
	})
	return mux
}

// judge answers an authentic request. keep says that the answer stands for repetitions of the same message.
type judge func(ctx context.Context, r *http.Request, body []byte) (a answer, keep bool)

// route authenticates and answers requests of one method.
func (d *httpDoor) route(method string, f judge) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			w.Header().Set("Allow", method)
			d.send(w, refusal(http.StatusMethodNotAllowed, protocol.CodeMethodNotAllowed, "only "+method+" is possible here"))
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, protocol.MaxDoorBodyBytes))
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			// Most clients read the answer when they have sent all: a connection that is closed before that is a reset to them. The server's read
			// timeout bounds the time.
			_, _ = io.CopyN(io.Discard, r.Body, lingerMost)
			d.send(w, refusal(http.StatusRequestEntityTooLarge, protocol.CodeRequestTooLarge, "the body is larger than 16 KiB"))
			return
		}
		if err != nil {
			d.send(w, refusal(http.StatusBadRequest, protocol.CodeInvalidRequest, "the body did not arrive"))
			return
		}
		id, err := d.verifier.Verify(r.Header, body)
		if err != nil {
			d.send(w, unauthorized())
			return
		}
		// What the request starts or asks is decided whether or not the client still listens.
		ctx, cancel := context.WithTimeout(trace.FromHeader(context.WithoutCancel(r.Context()), r.Header), doorBudget)
		defer cancel()
		d.send(w, d.once(ctx, r, id, body, f))
	})
}

func (d *httpDoor) send(w http.ResponseWriter, a answer) {
	w.Header().Set("X-Worker-Id", d.engine.workerID)
	d.engine.metrics.doorAnswer(a.status)
	a.write(w)
}

// once judges a message the first time and answers a repetition alike.
func (d *httpDoor) once(ctx context.Context, r *http.Request, id string, body []byte, f judge) answer {
	rep, first, same := d.replays.claim(id, digest(r.Method, r.URL.Path, body))
	if !same {
		return unauthorized()
	}
	for !first {
		known, ready := d.replays.state(rep)
		if known != nil {
			return *known
		}
		select {
		case <-ready:
			first = d.replays.reopen(rep)
		case <-ctx.Done():
			return refusal(http.StatusServiceUnavailable, protocol.CodeControlUnreachable, "the same request is still being decided").after(unreachableAfter)
		}
	}
	var a answer
	keep := false
	defer func() { d.replays.settle(rep, a, keep) }() // also when f panics
	a, keep = f(ctx, r, body)
	return a
}

// start answers POST /v1/jobs.
func (d *httpDoor) start(ctx context.Context, r *http.Request, body []byte) (answer, bool) {
	if !isJSON(r) {
		return notJSON(), true
	}
	req, err := protocol.ParseDoorRequest(body)
	if err != nil {
		fault := protocol.AsFault(err)
		return refusal(http.StatusBadRequest, fault.Code, fault.Message), true
	}
	for {
		if a, keep, done := d.known(ctx, req.AnalysisID); done {
			return a, keep
		}
		if a, keep, done := d.admit(ctx, req.AnalysisID); done {
			return a, keep
		}
		if ctx.Err() != nil {
			return refusal(http.StatusServiceUnavailable, protocol.CodeControlUnreachable, "no decision in time").after(unreachableAfter), false
		}
	}
}

// known answers for an analysis that runs here or ended here lately. done is false if it is unknown, or if a run of
// the queue door did not get the claim after all.
func (d *httpDoor) known(ctx context.Context, id string) (a answer, keep, done bool) {
	if r := d.engine.runs.find(id); r != nil {
		select {
		case <-r.decided:
		case <-ctx.Done():
			return refusal(http.StatusServiceUnavailable, protocol.CodeControlUnreachable, "the control plane does not answer").after(unreachableAfter), false, true
		}
		if err := r.admitError(); err != nil {
			if r.source == protocol.SourceHTTP {
				a, keep = refusedClaim(err)
				return a, keep, true
			}
			select {
			case <-r.done: // soon: it has no claim
			case <-ctx.Done():
			}
			return a, false, false
		}
		return accepted(id), true, true
	}
	if end, ok := d.engine.runs.lately(id); ok && end.final {
		return answer{status: http.StatusOK, body: end.state}, true, true
	}
	return a, false, false
}

// admit takes a slot and redeems the claim. done is false if another request for the same analysis was faster.
func (d *httpDoor) admit(ctx context.Context, id string) (a answer, keep, done bool) {
	if a, ok := d.open(ctx); !ok {
		return a, false, true
	}
	slot, err := d.acquire(ctx)
	if err != nil {
		if d.engine.runs.find(id) != nil {
			return a, false, false
		}
		return d.busy(err), false, true
	}
	r, owned := d.engine.newRun(trace.Carry(ctx, d.base), id, protocol.SourceHTTP, webhook.NewID("http"), 1, true, slot.Ending)
	switch d.engine.runs.begin(r, true) {
	case r:
	case nil:
		slot.Release()
		return draining(), false, true
	default:
		slot.Release()
		return a, false, false
	}
	deadline, _ := ctx.Deadline()
	if err := d.engine.redeem(owned, r, time.Until(deadline)); err != nil {
		slot.Release()
		d.engine.runs.end(r, "", false)
		r.span.End()
		r.cancel(nil)
		a, keep = refusedClaim(err)
		return a, keep, true
	}
	d.spawn(func() { d.run(owned, r, slot) })
	return accepted(id), true, true
}

// open tells whether the door may start anything now.
func (d *httpDoor) open(ctx context.Context) (answer, bool) {
	switch {
	case d.engine.runs.isClosed():
		return draining(), false
	case !d.usable():
		return refusal(http.StatusServiceUnavailable, protocol.CodeWorkerStarting, "the extractor is not ready").after(startingAfter), false
	}
	if err := d.hold(ctx); err != nil {
		return refusal(http.StatusServiceUnavailable, protocol.CodeWorkerDraining, "this worker is about to be stopped").after(drainingAfter), false
	}
	return answer{}, true
}

func (d *httpDoor) acquire(ctx context.Context) (*slots.Slot, error) {
	ctx, cancel := context.WithTimeout(ctx, undecidedWait)
	defer cancel()
	return d.slots.Acquire(ctx)
}

// run does the work behind a 202. The slot is free before the end can be seen, so that a client who has seen it is
// not told that the worker is busy.
func (d *httpDoor) run(owned context.Context, r *run, slot *slots.Slot) {
	defer slot.Release()
	e := d.engine
	e.runLog(r).Info("job started")
	j := startJournal(owned, nil, e.log)
	end := e.perform(owned, r, j)
	slot.Release()
	e.finish(r, end)
}

// show answers GET /v1/jobs/{id}.
func (d *httpDoor) show(_ context.Context, r *http.Request, _ []byte) (answer, bool) {
	id := r.PathValue("id")
	if run := d.engine.runs.find(id); run != nil {
		return answer{status: http.StatusOK, body: run.state()}, false
	}
	if end, ok := d.engine.runs.lately(id); ok {
		return answer{status: http.StatusOK, body: end.state}, false
	}
	return unknownJob(), false
}

// cancel answers POST /v1/jobs/{id}/cancel.
func (d *httpDoor) cancel(_ context.Context, r *http.Request, body []byte) (answer, bool) {
	if !isJSON(r) {
		return notJSON(), true
	}
	if strings.Join(strings.Fields(string(body)), "") != "{}" {
		return refusal(http.StatusBadRequest, protocol.CodeInvalidRequest, "the body is not {}"), true
	}
	id := r.PathValue("id")
	if !d.engine.runs.cancelID(id, ErrCancelled) {
		return unknownJob(), false
	}
	return answer{status: http.StatusAccepted, body: protocol.DoorAccept{AnalysisID: id, Status: protocol.DoorCancelled}}, true
}

// busy is the answer when no slot could be had.
func (d *httpDoor) busy(err error) answer {
	if errors.Is(err, slots.ErrUndecided) {
		return refusal(http.StatusServiceUnavailable, protocol.CodeWorkerBusy, "the last free slot is being decided").after(busyMin)
	}
	return refusal(http.StatusTooManyRequests, protocol.CodeWorkerBusy, "every slot runs a job").after(d.soonest())
}

// soonest estimates when the first slot frees, from the pace of the runs themselves.
func (d *httpDoor) soonest() time.Duration {
	best, now := time.Duration(0), time.Now()
	for _, r := range d.engine.runs.all() {
		if left, ok := r.remaining(now); ok && (best == 0 || left < best) {
			best = max(left, time.Nanosecond)
		}
	}
	if best == 0 {
		best = busyDefault
	}
	return min(max(best, busyMin), busyMax)
}
