//go:build unledgered

package store_test

import (
	"testing"

	"github.com/posefleet/posefleet/control/store/storetest"
)

// With the ledger taken out, an order that arrives twice is carried out twice.
func TestNoLedgerGrantsTwice(t *testing.T) {
	t.Parallel()
	if left := orderSentTwice(t, storetest.NewBundle(t, openSQLite)); left != 10 {
		t.Fatalf("%d credits: the ledger seems to be there still", left)
	}
}
