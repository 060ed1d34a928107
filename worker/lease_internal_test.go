package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
)

// renewals answers renewals by the script; the last entry repeats.
type renewals struct {
	mu     sync.Mutex
	at     []time.Time
	script []func(ctx context.Context) (time.Duration, error)
}

func (r *renewals) Renew(ctx context.Context, _ protocol.LeaseRequest) (time.Duration, error) {
	r.mu.Lock()
	r.at = append(r.at, time.Now())
	f := r.script[min(len(r.at), len(r.script))-1]
	r.mu.Unlock()
	return f(ctx)
}

func renewed(context.Context) (time.Duration, error) { return 120 * time.Second, nil }

func failed(context.Context) (time.Duration, error) {
	return 0, &claimcheck.ClaimError{Kind: claimcheck.KindUnavailable, Fault: protocol.NewRetryableFault(protocol.CodeControlUnreachable, "x")}
}

func silent(ctx context.Context) (time.Duration, error) {
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

func says(kind claimcheck.Kind) func(context.Context) (time.Duration, error) {
	return func(context.Context) (time.Duration, error) {
		return 0, &claimcheck.ClaimError{Kind: kind, Fault: protocol.NewFault(protocol.CodeClaimLost, "x")}
	}
}

// keep runs a lease of 120 s and returns when, and why, the run was cancelled.
func keep(t *testing.T, limit time.Duration, script ...func(context.Context) (time.Duration, error)) (*renewals, time.Duration, error) {
	t.Helper()
	r := &renewals{script: script}
	owned, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	begin := time.Now()
	claim := &claimcheck.Redemption{At: begin, Claim: protocol.Claim{AnalysisID: "an_1", Claim: "clm", Epoch: 1, LeaseSeconds: 120}}
	stop := startLease(owned, r, claim, nil, cancel, slog.New(slog.DiscardHandler))
	defer stop()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-owned.Done():
		return r, time.Since(begin), context.Cause(owned)
	case <-timer.C:
		return r, limit, nil
	}
}

func TestLeaseIsRenewedEveryThird(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _, cause := keep(t, 10*time.Minute+time.Second, renewed)
		if cause != nil || len(r.at) != 15 {
			t.Fatalf("%d renewals in 10 min, cause %v; want 15", len(r.at), cause)
		}
	})
}

func TestLeaseLost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		kind claimcheck.Kind
		want error
	}{
		{"409", claimcheck.KindLost, ErrLeaseLost}, {"404", claimcheck.KindUnknown, ErrLeaseLost}, {"410", claimcheck.KindGone, ErrUnwanted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, after, cause := keep(t, time.Hour, says(tt.kind))
				if !errors.Is(cause, tt.want) || after != 40*time.Second {
					t.Fatalf("cancelled with %v after %s", cause, after)
				}
			})
		})
	}
}

func TestLeaseExpiresByOurOwnClock(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(context.Context) (time.Duration, error){"refused": failed, "silence": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, after, cause := keep(t, time.Hour, f)
				if !errors.Is(cause, ErrLeaseExpired) || after != 120*time.Second {
					t.Fatalf("cancelled with %v after %s, want ErrLeaseExpired after 120 s", cause, after)
				}
				if name == "refused" && len(r.at) < 10 {
					t.Errorf("only %d tries", len(r.at))
				}
			})
		})
	}
}

func TestLeaseSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _, cause := keep(t, 5*time.Minute, failed, failed, failed, renewed)
		if cause != nil || len(r.at) < 8 {
			t.Fatalf("%d renewals, cause %v", len(r.at), cause)
		}
	})
}

// A hint has the lease renewed at once, and the answer decides; the renewals after it are a third of the lease apart again.
func TestLeaseHint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &renewals{script: []func(context.Context) (time.Duration, error){renewed, renewed, says(claimcheck.KindGone)}}
		owned, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		begin := time.Now()
		run := &run{hint: make(chan struct{}, 1)}
		claim := &claimcheck.Redemption{At: begin, Claim: protocol.Claim{AnalysisID: "an_1", Claim: "clm", Epoch: 1, LeaseSeconds: 120}}
		defer startLease(owned, r, claim, run.hint, cancel, slog.New(slog.DiscardHandler))()
		<-time.After(10 * time.Second)
		run.ask()
		<-time.After(50 * time.Second)
		run.ask()
		synctest.Wait()
		if got := time.Since(begin); !errors.Is(context.Cause(owned), ErrUnwanted) || got != time.Minute || len(r.at) != 3 {
			t.Fatalf("%d renewals, ended after %s with %v", len(r.at), got, context.Cause(owned))
		}
		for i, want := range []time.Duration{10 * time.Second, 50 * time.Second, time.Minute} {
			if got := r.at[i].Sub(begin); got != want {
				t.Errorf("renewal %d after %s, want %s", i, got, want)
			}
		}
	})
}

func TestNoLeaseNoRenewal(t *testing.T) {
	t.Parallel()
	stop := startLease(t.Context(), nil, &claimcheck.Redemption{}, nil, nil, nil)
	stop()
}

// Nobody is said to have the claim of whom that is not known.
func TestWhyAClaimIsLost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cause error
		want  string
	}{
		{ErrLeaseLost, "the claim went to another holder"},
		{ErrLeaseExpired, "the claim's lease ran out, the control plane could not be reached to renew it"},
	} {
		end := (&engine{}).stopped(tt.cause, nil)
		if end.fault == nil || end.fault.Code != protocol.CodeClaimLost || end.fault.Message != tt.want {
			t.Errorf("%v: %v", tt.cause, end.fault)
		}
	}
}
