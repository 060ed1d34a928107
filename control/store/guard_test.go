package store_test

import (
	"testing"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
)

// slowFailureAfterDelivery starts an analysis twice; the second start delivers, then the first one reports a failure.
func slowFailureAfterDelivery(t *testing.T, b *storetest.Bundle) store.Verdict {
	t.Helper()
	b.Queued(t, "an_1")
	slow := storetest.LeaseOf(b.MustRedeem(t, "an_1", storetest.QueueHolder("w1", "an_1", 1)))
	quick := storetest.LeaseOf(b.MustRedeem(t, "an_1", storetest.QueueHolder("w2", "an_1", 2)))
	b.MustRecord(t, b.Completed(t, quick), store.DecisionAccepted)
	v, err := b.RecordResult(t.Context(), storetest.Failed(slow))
	if err != nil {
		t.Fatal(err)
	}

	return v
}

// orderSentTwice sends one order of 5 credits twice and returns what the account has.
func orderSentTwice(t *testing.T, b *storetest.Bundle) int64 {
	t.Helper()
	var left int64
	for range 2 {
		a, _, err := b.GrantCredits(t.Context(), store.CreditGrant{Account: "team", Key: "order-1", Credits: 5})
		if err != nil {
			t.Fatal(err)
		}
		left = *a.Credits
	}

	return left
}

// lostAfterFailure has a failure stored whose worker dies before the queue hears of it, and the queue's next start redeem.
func lostAfterFailure(t *testing.T, b *storetest.Bundle) error {
	t.Helper()
	b.Queued(t, "an_1")
	g, err := b.Redeem(t.Context(), "an_1", storetest.QueueHolder("w1", "an_1", 1), store.JobSeen{Starts: 1}, storetest.Lease)
	if err != nil {
		t.Fatal(err)
	}
	b.MustRecord(t, storetest.Failed(storetest.LeaseOf(g)), store.DecisionAccepted)
	_, err = b.Redeem(t.Context(), "an_1", storetest.QueueHolder("w2", "an_1", 2), store.JobSeen{Starts: 2, Stalls: 1}, storetest.Lease)

	return err
}
