package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/cmd/dev/internal/setup"
)

// drillTimeout bounds one drill; ten thousand jobs take about a quarter of an hour on two cores.
const drillTimeout = "3h"

// drill runs a fleet under load and faults and leaves its ledger and its picture in build/drill.
func (t *tool) drill(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("drill", flag.ContinueOnError)
	jobs := flags.Int("jobs", 2000, "how many jobs")
	seed := flags.Int64("seed", 1, "decides the jobs and the faults; not 0")
	real := flags.Bool("real", false, "work with the real extractor on a real clip")

	if err := flags.Parse(args); err != nil {
		return err
	}

	if err := t.setup.Run(ctx, setup.ScopeTest); err != nil {
		return err
	}

	if err := t.compile(ctx); err != nil {
		return err
	}

	out := filepath.Join(t.root, "build", "drill")
	fmt.Printf("drill: %d jobs of seed %d; ledger and picture go to %s\n", *jobs, *seed, out)

	return proc.Show(ctx, proc.Spec{Dir: t.root, Env: append(cgoEnv(), "POSEFLEET_BIN="+t.bin("")), Args: []string{
		"go", "test", "./conformance", "-count=1", "-v", "-timeout", drillTimeout, "-run", "^TestDrill$", "-args",
		"-drill.seed", strconv.FormatInt(*seed, 10), "-drill.jobs", strconv.Itoa(*jobs), "-drill.out", out, "-drill.real=" + strconv.FormatBool(*real),
	}})
}
