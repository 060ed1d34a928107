//go:build !unledgered

package store_test

import (
	"testing"

	"github.com/posefleet/posefleet/control/store/storetest"
)

// An order that arrives twice is carried out once; ledger_off_test.go shows that nothing but the ledger sees to that.
func TestLedgerGrantsOnce(t *testing.T) {
	t.Parallel()
	if left := orderSentTwice(t, storetest.NewBundle(t, openSQLite)); left != 5 {
		t.Fatalf("%d credits", left)
	}
}
