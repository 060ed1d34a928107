package queue

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, started again by a test with childEnv set, a worker to be killed.
func TestMain(m *testing.M) {
	if url := os.Getenv(childEnv); url != "" {
		os.Exit(runChild(url))
	}

	goleak.VerifyTestMain(m)
}
