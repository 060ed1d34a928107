//go:build unguarded

package store_test

import (
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
}
