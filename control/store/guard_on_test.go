//go:build !unguarded

package store_test

import (
	"errors"
	"testing"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
)

// A slow execution that fails after a quicker one has delivered: the delivered result stays. guard_off_test.go shows
// that nothing but the compare-and-set is what keeps it.
func TestGuardKeepsDelivered(t *testing.T) {
	t.Parallel()
	b := storetest.NewBundle(t, openSQLite)
	v := slowFailureAfterDelivery(t, b)
	if v.Decision != store.DecisionConceded || v.Status != store.StatusDelivered {
		t.Fatalf("%+v", v)
	}
	b.WantStatus(t, "an_1", store.StatusDelivered)
	credits, err := b.Credits(t.Context(), "an_1")
	if err != nil || len(credits) != 1 || credits[0].State != store.CreditSettled {
		t.Errorf("%+v, %v: the credit of a delivery is kept", credits, err)
	}
}

// A job that lost its worker after its failure was stored is told that the analysis is over.
func TestGuardKeepsFailed(t *testing.T) {
	t.Parallel()
	b := storetest.NewBundle(t, openSQLite)
	if gone, ok := errors.AsType[*store.GoneError](lostAfterFailure(t, b)); !ok || gone.Status != store.StatusFailed {
		t.Fatalf("%+v", gone)
	}
	b.WantStatus(t, "an_1", store.StatusFailed)
}
