package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/cmd/dev/internal/setup"
)

const benchTimeout = time.Hour

// bench runs the benchmarks of the packages; without any it first measures the queue beside Node, writes docs/benchmarks.*, and then runs
// the benchmarks of all.
func (t *tool) bench(ctx context.Context, args []string) error {
	if err := t.setup.Run(ctx, setup.ScopeTest); err != nil {
		return err
	}

	if len(args) == 0 {
		args = []string{"./..."}

		if err := t.benchQueue(ctx); err != nil {
			return err
		}
	}

	return proc.Show(ctx, proc.Spec{Dir: t.root, Env: cgoEnv(), Args: append(
		[]string{"go", "test", "-run", "^$", "-bench", ".", "-benchmem", "-p", "1", "-timeout", benchTimeout.String()}, args...)})
}

func (t *tool) benchQueue(ctx context.Context) error {
	return proc.Show(ctx, proc.Spec{Dir: t.root, Env: cgoEnv(), Args: []string{
		"go", "test", "-run", "^TestBench$", "-count", "1", "-v", "-timeout", benchTimeout.String(), "./queue",
		"-queue.bench", filepath.Join(t.root, "docs"),
	}})
}
