package conformance

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// silence is a log of the Redis client that says nothing.
type silence struct{}

// Printf does nothing.
func (silence) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == extractorWord {
		extractorMain(os.Args[2:])
		os.Exit(0)
	}

	redis.SetLogger(silence{}) // servers are stopped on purpose here
	shareTheWait()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removePrograms()
		os.Exit(code)
	}))
}

// atOnce is how many tests run at the same time unless -parallel says otherwise: most of their time is waiting for locks to expire.
const atOnce = "4"

func shareTheWait() {
	flag.Parse()

	given := false

	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })

	if !given {
		_ = flag.Set("test.parallel", atOnce) // package testing has defined it
	}
}
