package queue

import (
	goflag "flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, started again by a test with childEnv set, a worker to be killed.
func TestMain(m *testing.M) {
	if url := os.Getenv(childEnv); url != "" {
		os.Exit(runChild(url))
	}

	if err := fixSeed(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	goleak.VerifyTestMain(m)
}

// fixSeed makes the random tests draw the same cases at each run, so that CI judges the change and not the dice. Whoever asks for more
// time (-queue.diff) or names a seed looks for what nobody has seen yet.
func fixSeed() error {
	goflag.Parse()

	asked := false

	goflag.Visit(func(f *goflag.Flag) { asked = asked || f.Name == "queue.diff" || f.Name == "rapid.seed" })

	if asked {
		return nil
	}

	return goflag.Set("rapid.seed", "20261130")
}
