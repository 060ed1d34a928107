package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/posefleet/posefleet/cmd/dev/internal/proc"
	"github.com/posefleet/posefleet/cmd/dev/internal/setup"
)

// toolsMod pins the linter in a module of its own, so that its 200 requirements do not touch ours.
const toolsMod = "-modfile=internal/tools/go.mod"

func (t *tool) lint(ctx context.Context, _ []string) error {
	if err := t.setup.Run(ctx, setup.ScopeBuild); err != nil {
		return err
	}

	return t.runLint(ctx)
}

func (t *tool) runLint(ctx context.Context) error {
	env := cgoEnv()

	vet := proc.Spec{Dir: t.root, Env: env, Args: []string{"go", "vet", "./..."}}
	if err := proc.Show(ctx, vet); err != nil {
		return fmt.Errorf("lint: %w", err)
	}

	linter, err := t.linter(ctx)
	if err != nil {
		return fmt.Errorf("lint: %w", err)
	}

	if err := proc.Show(ctx, proc.Spec{Dir: t.root, Env: env, Args: []string{linter, "run", "./..."}}); err != nil {
		return fmt.Errorf("lint: %w", err)
	}

	return nil
}

// linter is the path of the linter's program in Go's build cache; it is built when it is not there.
func (t *tool) linter(ctx context.Context) (string, error) {
	out, err := proc.Output(ctx, proc.Spec{Dir: t.root, Env: []string{"CGO_ENABLED=0"}, Args: []string{"go", "tool", toolsMod, "-n", "golangci-lint"}})

	return strings.TrimSpace(out), err
}

// background is work that goes on while something else is waited for.
type background struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

// prebuild starts to build the helpers that the tests need and that need Go alone: on a new machine that takes minutes, during which
// packages are fetched. The work ends with ctx, or by itself; wait is its end.
func (t *tool) prebuild(ctx context.Context, b *background) {
	env := []string{"CGO_ENABLED=0"}

	b.add(func() error {
		return proc.Run(ctx, proc.Spec{Dir: t.root, Env: env, Args: []string{"go", "build", "-C", "internal/s3test/server", "-buildvcs=false", "-o", "/dev/null", "."}})
	})
	b.add(func() error {
		_, err := t.linter(ctx)

		return err
	})
}

func (b *background) add(work func() error) {
	b.wg.Go(func() {
		if err := work(); err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()

			b.errs = append(b.errs, err)
		}
	})
}

// wait waits for all work and gives its faults. It may be called again.
func (b *background) wait() error {
	b.wg.Wait()

	return errors.Join(b.errs...)
}
