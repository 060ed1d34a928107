package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
)

const (
	leaseRenewals  = 3                      // renewals per lease
	leaseRetryMax  = 5 * time.Second        // longest wait after a renewal that failed
	leaseRetryMin  = 100 * time.Millisecond // shortest
	leaseRetryPart = 12                     // otherwise this part of the lease
)

// renewer renews a claim; *claimcheck.Client is one.
type renewer interface {
	Renew(ctx context.Context, req protocol.LeaseRequest) (time.Duration, error)
}

// lease keeps a claim alive on a goroutine of its own, so that nothing a job does can delay it. When the claim is
// lost, or by our own clock must have run out, it cancels the run with the cause. Both the time of the redeem and of
// each renewal count from before the request was sent: the control plane's clock can only have started later.
type lease struct {
	client renewer
	req    protocol.LeaseRequest
	length time.Duration
	until  time.Time // ours until then, by our own clock
	hint   <-chan struct{}
	lost   context.CancelCauseFunc
	log    *slog.Logger
}

// startLease starts the keeper; the returned function stops it and waits for its end. A claim without a lease needs
// none. A token in hint has it renewed at once.
func startLease(ctx context.Context, c renewer, claim *claimcheck.Redemption, hint <-chan struct{}, lost context.CancelCauseFunc, log *slog.Logger) (stop func()) {
	if claim.LeaseSeconds <= 0 {
		return func() {}
	}
	length := time.Duration(claim.LeaseSeconds) * time.Second
	l := &lease{
		client: c, req: leaseRequest(claim), length: length, until: claim.At.Add(length), hint: hint, lost: lost, log: log,
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { // ends with stop or with the lease
		defer close(done)
		l.run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func leaseRequest(claim *claimcheck.Redemption) protocol.LeaseRequest {
	return protocol.LeaseRequest{AnalysisID: claim.AnalysisID, Claim: claim.Claim.Claim, Epoch: claim.Epoch}
}

func (l *lease) run(ctx context.Context) {
	next := l.until.Add(-l.length + l.length/leaseRenewals)
	for {
		if !l.pause(ctx, earlier(next, l.until)) {
			return
		}
		if !time.Now().Before(l.until) {
			l.lost(ErrLeaseExpired)
			return
		}
		sent := time.Now()
		length, err := l.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			l.length = length
			l.until, next = sent.Add(length), sent.Add(length/leaseRenewals)
		case l.isOver(err):
			return
		default:
			next = time.Now().Add(min(max(l.length/leaseRetryPart, leaseRetryMin), leaseRetryMax))
			l.log.Warn("lease not renewed", slog.String("error", err.Error()), slog.Int64("left_ms", time.Until(l.until).Milliseconds()))
		}
	}
}

// pause tells whether t or a hint came before ctx ended.
func (l *lease) pause(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.hint:
	case <-ctx.Done():
		return false
	}
	return true
}

// renew makes one request that can't outlast the lease. An answer without a length leaves the length as it is.
func (l *lease) renew(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithDeadline(ctx, l.until)
	defer cancel()
	length, err := l.client.Renew(ctx, l.req)
	if err == nil && length <= 0 {
		length = l.length
	}
	return length, err
}

// isOver cancels the run if the answer says that the claim is somebody else's or nobody's.
func (l *lease) isOver(err error) bool {
	claim, ok := errors.AsType[*claimcheck.ClaimError](err)
	if !ok {
		return false
	}
	switch claim.Kind {
	case claimcheck.KindGone:
		l.lost(fmt.Errorf("%w: %w", ErrUnwanted, err))
	case claimcheck.KindLost, claimcheck.KindHeld, claimcheck.KindUnknown:
		l.lost(fmt.Errorf("%w: %w", ErrLeaseLost, err))
	default:
		return false
	}
	return true
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sleepUntil tells whether t came before ctx ended.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
