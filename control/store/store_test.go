package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/control/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens the store of the URL for the length of the test.
func open(t *testing.T, url string, now func() time.Time) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})

	return s
}

func openSQLite(t *testing.T, now func() time.Time) store.Store {
	t.Helper()

	return open(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"), now)
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, openSQLite)
}
