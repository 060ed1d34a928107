//go:build unguarded

package store_test

import (
	"errors"
	"testing"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
)

// With the compare-and-set taken out, the slow failure demotes the delivered result.
func TestNoGuardDemotesDelivered(t *testing.T) {
	t.Parallel()
	b := storetest.NewBundle(t, openSQLite)
	if v := slowFailureAfterDelivery(t, b); v.Decision != store.DecisionAccepted {
		t.Fatalf("%+v: the guard seems to be there still", v)
	}
	b.WantStatus(t, "an_1", store.StatusFailed)
	credits, err := b.Credits(t.Context(), "an_1")
	if err != nil || len(credits) != 1 || credits[0].State != store.CreditRefunded {
		t.Errorf("%+v, %v: a paid result was to be refunded", credits, err)
	}
}

// Without asking the queue, a job that lost its worker after its failure was stored begins a round that nobody wanted.
func TestNoGuardReopensWhatWasLost(t *testing.T) {
	t.Parallel()
	b := storetest.NewBundle(t, openSQLite)
	if err := lostAfterFailure(t, b); err != nil {
		t.Fatalf("%v: the guard seems to be there still", err)
	}
	credits, err := b.Credits(t.Context(), "an_1")
	if err != nil || len(credits) != 2 || credits[1].State != store.CreditReserved {
		t.Errorf("%+v, %v: a second credit was to be reserved", credits, err)
	}
}

// Without claims two control planes carry out one entry.
func TestNoGuardClaimsTwice(t *testing.T) {
	t.Parallel()
	b := storetest.NewBundle(t, openSQLite)
	b.Dispatched(t, "an_1")
	if _, err := storetest.Claimed(t.Context(), b.Store, 2); !errors.Is(err, storetest.ErrClaimedTwice) {
		t.Errorf("%v: the guard seems to be there still", err)
	}
}
