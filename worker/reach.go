package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
)

const (
	reachFirst = time.Second
	reachMost  = 15 * time.Second
)

// reach slows the queue door down while the control plane gives no claims. Each redeem that fails costs a job one of
// its attempts: without a pause, an outage of minutes or a wrong secret would use up the attempts of the whole queue.
//
//	open --redeem failed--> pausing (1 s, doubling to 15 s) --time--> open, one more failure doubles
//	  ^------------------------ any answer about a claim ------------------|
type reach struct {
	mu       sync.Mutex
	failures int
	until    time.Time
}

// note takes the outcome of a redeem. Every answer about the claim, also a refusal for good, proves that the control plane works.
func (r *reach) note(err error) {
	claim, ok := errors.AsType[*claimcheck.ClaimError](err)
	if err != nil && !ok {
		return // stopped by us: that says nothing
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || !troubled(claim.Kind) {
		r.failures, r.until = 0, time.Time{}
		return
	}
	r.until = time.Now().Add(min(reachFirst<<min(r.failures, 10), reachMost))
	r.failures++
}

// wait returns when the queue door may take a job, or ctx's cause.
func (r *reach) wait(ctx context.Context) error {
	r.mu.Lock()
	until := r.until
	r.mu.Unlock()
	if until.IsZero() || sleepUntil(ctx, until) {
		return nil
	}
	return context.Cause(ctx)
}

func troubled(k claimcheck.Kind) bool {
	switch k {
	case claimcheck.KindUnavailable, claimcheck.KindRefused, claimcheck.KindBadAnswer:
		return true
	default:
		return false
	}
}
