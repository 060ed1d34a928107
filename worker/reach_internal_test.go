package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/posefleet/posefleet/claimcheck"
	"github.com/posefleet/posefleet/protocol"
)

func TestReachPausesWhileTheControlPlaneIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &reach{}
		down := &claimcheck.ClaimError{Kind: claimcheck.KindUnavailable, Fault: protocol.NewRetryableFault(protocol.CodeControlUnreachable, "x")}
		for _, want := range []int{1, 2, 4, 8, 15, 15} {
			r.note(down)
			begin := time.Now()
			if err := r.wait(t.Context()); err != nil || int(time.Since(begin).Seconds()) != want {
				t.Fatalf("waited %s (%v), want %ds", time.Since(begin), err, want)
			}
		}
		r.note(errors.New("stopped"))
		r.note(&claimcheck.ClaimError{Kind: claimcheck.KindGone, Fault: protocol.NewFault(protocol.CodeClaimGone, "x")})
		begin := time.Now()
		if err := r.wait(t.Context()); err != nil || time.Since(begin) != 0 {
			t.Fatalf("waited %s after an answer", time.Since(begin))
		}
		r.note(down)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ErrDraining)
		if err := r.wait(ctx); !errors.Is(err, ErrDraining) {
			t.Fatalf("got %v, want the cause", err)
		}
	})
}
