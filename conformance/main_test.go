package conformance

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == extractorWord {
		extractorMain(os.Args[2:])
		os.Exit(0)
	}

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
